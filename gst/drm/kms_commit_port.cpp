// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/kms_commit_port.h"

#include "gst/zerocopy/core/sync_file.h"

namespace gstzc {
namespace {

// A fence that has signalled: what memory that nobody has used yet gives. None from kernels before 6.0.
UniqueFd makeSignalledFence(const std::shared_ptr<KmsDevice> &device) {
  auto memory = DumbBuffer::create(device, 64, 64, 32);
  if (!memory) return {};
  auto dmabuf = (*memory)->exportDmaBuf();
  if (!dmabuf) return {};
  auto fence = exportSyncFile(dmabuf->get(), Access::Read);
  return fence && fence->status().signalled() ? fence->release() : UniqueFd();
}

} // namespace

KmsCommitPort::KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output)
    : device_(std::move(device)), snapshot_(snapshot), output_(output), signalled_(makeSignalledFence(device_)) {}

bool KmsCommitPort::takesInFence(const ScreenState &state) const {
  return !state.planes.empty() && snapshot_.planes[state.planes[0].plane].properties.contains("IN_FENCE_FD");
}

int KmsCommitPort::commit(const ScreenState &state, int in_fence, UniqueFd *flipped) {
  AtomicRequest request;
  addState(request, snapshot_, output_, state);
  if (in_fence >= 0) {
    const KmsPlane &plane = snapshot_.planes[state.planes[0].plane];
    request.set(plane.id, plane.properties, "IN_FENCE_FD", static_cast<uint64_t>(in_fence));
  }
  int32_t fence = -1;
  const KmsCrtc &crtc = snapshot_.crtcs[output_.crtc];
  request.set(crtc.id, crtc.properties, "OUT_FENCE_PTR", reinterpret_cast<uintptr_t>(&fence));
  const int rc =
      request.commit(device_->fd(), DRM_MODE_ATOMIC_NONBLOCK | (state.mode ? DRM_MODE_ATOMIC_ALLOW_MODESET : 0u));
  if (rc == 0) *flipped = UniqueFd(fence);
  return rc;
}

int64_t KmsCommitPort::flipTime(int flipped) {
  uint64_t when = 0;
  const FenceStatus status = syncFileStatus(flipped, &when);
  return status.error != 0 ? -status.error : static_cast<int64_t>(when);
}

} // namespace gstzc
