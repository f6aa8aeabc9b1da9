// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/kms_commit_port.h"

#include <xf86drmMode.h>

namespace gstzc {

KmsCommitPort::KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output)
    : device_(std::move(device)), snapshot_(snapshot), output_(output) {}

bool KmsCommitPort::takesInFence(const ScreenState &state) const {
  return !state.planes.empty() && snapshot_.planes[state.planes[0].plane].properties.contains("IN_FENCE_FD");
}

int KmsCommitPort::commit(const ScreenState &state, int in_fence, UniqueFd *flipped) {
  request_.clear();
  addState(request_, snapshot_, output_, state);
  if (in_fence >= 0) {
    const KmsPlane &plane = snapshot_.planes[state.planes[0].plane];
    request_.set(plane.id, plane.properties, "IN_FENCE_FD", static_cast<uint64_t>(in_fence));
  }
  request_.tellFlipOf(snapshot_.crtcs[output_.crtc]);
  return device_->commit(request_, DRM_MODE_ATOMIC_NONBLOCK | (state.mode ? DRM_MODE_ATOMIC_ALLOW_MODESET : 0u),
                         flipped);
}

int64_t KmsCommitPort::flipTime(int flipped) { return device_->flipTime(flipped); }

} // namespace gstzc
