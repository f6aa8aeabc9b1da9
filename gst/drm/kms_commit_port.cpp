// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/kms_commit_port.h"

#include <cerrno>

#include <xf86drmMode.h>

namespace gstzc {

KmsCommitPort::KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output,
                             bool async)
    : device_(std::move(device)), snapshot_(snapshot), output_(output), events_(device_->takeFlipEvents()) {
  if (async && snapshot.async_flips)
    async_ = Async::WithFence;
  else if (async)
    news_ = snapshot.path + " (" + snapshot.driver +
            ") has no asynchronous flips: frames come on screen at vertical blanks";
}

KmsCommitPort::~KmsCommitPort() {
  if (events_ >= 0) device_->giveFlipEvents();
}

bool KmsCommitPort::takesInFence(size_t plane) const {
  return snapshot_.planes[plane].properties.contains("IN_FENCE_FD");
}

int KmsCommitPort::commit(const ScreenState &state, UniqueFd *flipped) {
  const bool async = async_ != Async::Off && known_.onlyFramebuffers(state);
  int rc = attempt(state, async ? async_ : Async::Off, flipped);
  const auto refused = [&] { return rc == EINVAL || rc == EOPNOTSUPP; };
  if (async && refused() && async_ == Async::WithFence) rc = attempt(state, async_ = Async::Alone, flipped);
  if (async && refused()) {
    async_ = Async::Off;
    news_ = snapshot_.path + " (" + snapshot_.driver + ") refuses asynchronous flips (" + errnoName(rc) +
            "): frames come on screen at vertical blanks";
    rc = attempt(state, Async::Off, flipped);
  }
  if (rc == 0)
    known_.taken(state);
  else if (rc != EBUSY) // whatever the reason, the next one says everything
    known_.forget();
  return rc;
}

int KmsCommitPort::attempt(const ScreenState &state, Async async, UniqueFd *flipped) {
  static std::atomic<uint64_t> tokens = 0; // one that comes late is nobody else's
  request_.clear();
  known_.addChange(request_, snapshot_, output_, state);
  for (const PlaneUse &use : state.planes) {
    if (use.in_fence < 0 || async == Async::Alone) continue;
    const KmsPlane &plane = snapshot_.planes[use.plane];
    request_.set(plane.id, plane.properties, "IN_FENCE_FD", static_cast<uint64_t>(use.in_fence));
  }
  request_.tellFlipOf(snapshot_.crtcs[output_.crtc]);
  if (events_ >= 0) {
    token_ = ++tokens;
    request_.tellFlipByEvent(token_);
  }
  return device_->commit(request_,
                         DRM_MODE_ATOMIC_NONBLOCK | (state.mode ? DRM_MODE_ATOMIC_ALLOW_MODESET : 0u) |
                             (async != Async::Off ? DRM_MODE_PAGE_FLIP_ASYNC : 0u),
                         flipped);
}

int64_t KmsCommitPort::flipTime(int flipped) { return device_->flipTime(flipped); }

std::optional<int64_t> KmsCommitPort::readFlip() {
  const auto event = device_->readFlipEvents();
  if (!event || event->token != token_) return std::nullopt;
  return event->time;
}

} // namespace gstzc
