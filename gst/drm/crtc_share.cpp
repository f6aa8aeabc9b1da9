// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/crtc_share.h"

namespace gstzc {

std::shared_ptr<CrtcShare> KmsDevice::crtcShare(uint32_t crtc) {
  const std::lock_guard lock(shares_mutex_);
  std::weak_ptr<CrtcShare> &known = shares_[crtc];
  auto share = known.lock();
  if (!share) known = share = std::make_shared<CrtcShare>();
  return share;
}

} // namespace gstzc
