// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/writeback.h"

#include <cerrno>
#include <optional>
#include <string>
#include <thread>

#include <drm_fourcc.h>
#include <linux/sync_file.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "tests/lab/support/card.h"

namespace gstzc::lab {

namespace {

using Clock = std::chrono::steady_clock;

struct Target {
  uint32_t crtc = 0;
  uint32_t crtcIndex = 0;
  uint32_t connector = 0; // of type writeback
  uint32_t width = 0;
  uint32_t height = 0;
};

// The first active CRTC.
std::optional<Target> activeCrtc(int card) {
  const DrmPtr<drmModeRes> resources(drmModeGetResources(card));
  for (int i = 0; resources && i < resources->count_crtcs; ++i) {
    const uint32_t id = resources->crtcs[i];
    const DrmPtr<drmModeCrtc> crtc(drmModeGetCrtc(card, id));
    if (crtc && crtc->mode_valid && property(card, id, DRM_MODE_OBJECT_CRTC, "ACTIVE").value != 0)
      return Target{id, static_cast<uint32_t>(i), 0, crtc->width, crtc->height};
  }
  return std::nullopt;
}

// A writeback connector that can take what the CRTC shows; 0 if none is listed.
uint32_t writebackConnector(int card, uint32_t crtcIndex) {
  const DrmPtr<drmModeRes> resources(drmModeGetResources(card));
  for (int i = 0; resources && i < resources->count_connectors; ++i) {
    const DrmPtr<drmModeConnector> connector(drmModeGetConnectorCurrent(card, resources->connectors[i]));
    if (!connector || connector->connector_type != DRM_MODE_CONNECTOR_WRITEBACK) continue;
    for (int e = 0; e < connector->count_encoders; ++e) {
      drmModeEncoder *encoder = drmModeGetEncoder(card, connector->encoders[e]);
      const bool fits = encoder && (encoder->possible_crtcs & (1u << crtcIndex));
      drmModeFreeEncoder(encoder);
      if (fits) return connector->connector_id;
    }
  }
  return 0;
}

// Whether writeback connectors are listed is a property of the open file, which is not ours: shown for a moment only,
// unless its owner has them shown.
uint32_t findWritebackConnector(int card, uint32_t crtcIndex) {
  if (uint32_t listed = writebackConnector(card, crtcIndex)) return listed;
  if (drmSetClientCap(card, DRM_CLIENT_CAP_WRITEBACK_CONNECTORS, 1) != 0) return 0;
  const uint32_t found = writebackConnector(card, crtcIndex);
  drmSetClientCap(card, DRM_CLIENT_CAP_WRITEBACK_CONNECTORS, 0);
  return found;
}

// One blocking commit on the connector. A blocking commit waits for the flips in flight and lets none in between, so
// that EBUSY is rare; it comes when somebody holds the locks, and is tried again.
Status commit(int card, uint32_t connector, const std::vector<std::pair<const char *, uint64_t>> &values,
              uint32_t flags, Clock::time_point deadline) {
  const DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
  for (const auto &[name, value] : values) {
    const uint32_t id = property(card, connector, DRM_MODE_OBJECT_CONNECTOR, name).id;
    if (id == 0) return Error{std::string("the writeback connector has no property ") + name, ENOENT, ""};
    drmModeAtomicAddProperty(request.get(), connector, id, value);
  }
  for (;;) {
    const int rc = drmModeAtomicCommit(card, request.get(), flags, nullptr);
    if (rc == 0) return Nothing{};
    if (rc != -EBUSY || Clock::now() >= deadline)
      return Error{std::string("commit ") + values.front().first + " on the writeback connector", -rc, ""};
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void waitForVblank(int card, uint32_t crtcIndex) {
  drmVBlank request = {};
  request.request.type = static_cast<drmVBlankSeqType>(
      DRM_VBLANK_RELATIVE | ((crtcIndex << DRM_VBLANK_HIGH_CRTC_SHIFT) & DRM_VBLANK_HIGH_CRTC_MASK));
  request.request.sequence = 1;
  drmWaitVBlank(card, &request);
}

Status waitForFence(int fd, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd fence = {fd, POLLIN, 0};
  if (poll(&fence, 1, static_cast<int>(std::max<long long>(left, 0))) != 1)
    return Error{"the writeback did not end in time", ETIMEDOUT, ""};
  sync_file_info info = {};
  if (ioctl(fd, SYNC_IOC_FILE_INFO, &info) != 0) return Error{"ask the writeback's fence", errno, ""};
  if (info.status < 0) return Error{"the writeback failed", -info.status, ""};
  return Nothing{};
}

Status writeInto(int card, const Target &target, const DumbFramebuffer &framebuffer, Clock::time_point deadline) {
  // vkms arms the flip first and the writeback a moment later: a vertical blank in between, followed by somebody's
  // flip, would lose the job. Right after a vertical blank there is time for both.
  waitForVblank(card, target.crtcIndex);
  int32_t fence = -1;
  const auto pointer = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&fence));
  if (auto done = commit(card, target.connector,
                         {{"WRITEBACK_FB_ID", framebuffer.id()}, {"WRITEBACK_OUT_FENCE_PTR", pointer}}, 0, deadline);
      !done)
    return done;
  const UniqueFd owned(fence);
  return waitForFence(owned.get(), deadline);
}

} // namespace

Result<Image> captureWriteback(int card, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  auto target = activeCrtc(card);
  if (!target) return Error{"the card shows nothing: no CRTC is active", ENODATA, ""};
  target->connector = findWritebackConnector(card, target->crtcIndex);
  if (target->connector == 0)
    return Error{"the card has no writeback connector for the CRTC that is active", ENODEV, ""};
  auto framebuffer = DumbFramebuffer::create(card, target->width, target->height, DRM_FORMAT_XRGB8888);
  if (!framebuffer) return framebuffer.error();

  if (auto attached =
          commit(card, target->connector, {{"CRTC_ID", target->crtc}}, DRM_MODE_ATOMIC_ALLOW_MODESET, deadline);
      !attached)
    return attached.error();
  const Status written = writeInto(card, *target, *framebuffer, deadline);
  // attached, it would keep the owner from switching the CRTC off; this has to work even when the time is up
  const Status detached = commit(card, target->connector, {{"CRTC_ID", 0}}, DRM_MODE_ATOMIC_ALLOW_MODESET,
                                 std::max(deadline, Clock::now() + std::chrono::seconds(2)));
  if (!written) return written.error();
  if (!detached) return detached.error();

  Image image = {target->width, target->height, {}};
  image.pixels.reserve(size_t{image.width} * image.height);
  for (uint32_t y = 0; y < image.height; ++y) {
    const uint32_t *row = framebuffer->pixels() + size_t{y} * framebuffer->stride() / 4;
    for (uint32_t x = 0; x < image.width; ++x) image.pixels.push_back(row[x] & 0xffffff);
  }
  return image;
}

} // namespace gstzc::lab
