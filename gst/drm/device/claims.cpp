// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/claims.h"

#include <algorithm>

namespace gstzc {

bool Claims::claimOutput(Owner owner, uint32_t connector, uint32_t crtc) {
  const std::lock_guard lock(mutex_);
  for (const OutputClaim &c : outputs_)
    if (c.owner != owner && (c.connector == connector) != (c.crtc == crtc)) return false;
  std::erase_if(outputs_, [&](const OutputClaim &c) { return c.owner == owner; });
  outputs_.push_back({owner, connector, crtc});
  return true;
}

bool Claims::claimPlane(Owner owner, uint32_t plane, uint32_t crtc) {
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = planes_.emplace(plane, Claim{owner, crtc});
  if (!is_new && it->second.owner != owner) return false;
  it->second.crtc = crtc;
  return true;
}

void Claims::releasePlane(Owner owner, uint32_t plane) {
  const std::lock_guard lock(mutex_);
  const auto it = planes_.find(plane);
  if (it != planes_.end() && it->second.owner == owner) planes_.erase(it);
}

void Claims::release(Owner owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(outputs_, [&](const OutputClaim &c) { return c.owner == owner; });
  std::erase_if(planes_, [&](const auto &entry) { return entry.second.owner == owner; });
}

void Claims::mark(KmsSnapshot &snapshot, Owner owner) const {
  const std::lock_guard lock(mutex_);
  for (KmsConnector &c : snapshot.connectors) {
    const auto claim = std::find_if(outputs_.begin(), outputs_.end(),
                                    [&](const OutputClaim &o) { return o.owner != owner && o.connector == c.id; });
    const bool claimed = claim != outputs_.end();
    if (claimed || c.claimed) c.crtc = claimed ? claim->crtc : 0;
    c.claimed = claimed;
  }
  for (KmsCrtc &c : snapshot.crtcs)
    c.claimed = std::any_of(outputs_.begin(), outputs_.end(),
                            [&](const OutputClaim &o) { return o.owner != owner && o.crtc == c.id; });
  for (KmsPlane &p : snapshot.planes) {
    const auto claim = planes_.find(p.id);
    const bool claimed = claim != planes_.end() && claim->second.owner != owner;
    if (claimed || p.claimed) p.crtc = claimed ? claim->second.crtc : 0; // 0: it has been given back
    p.claimed = claimed;
  }
}

} // namespace gstzc
