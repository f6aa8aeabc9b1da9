// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/claims.h"

namespace gstzc {

bool Claims::take(std::map<uint32_t, Claim> &claims, uint32_t object, const Claim &claim) {
  const auto [it, is_new] = claims.emplace(object, claim);
  if (!is_new && it->second.owner != claim.owner) return false;
  it->second = claim;
  return true;
}

bool Claims::claimOutput(Owner owner, uint32_t connector, uint32_t crtc) {
  const std::lock_guard lock(mutex_);
  const auto c = connectors_.find(connector);
  if (c != connectors_.end() && c->second.owner != owner) return false;
  return take(crtcs_, crtc, {owner, crtc}) && take(connectors_, connector, {owner, crtc});
}

bool Claims::claimPlane(Owner owner, uint32_t plane, uint32_t crtc) {
  const std::lock_guard lock(mutex_);
  return take(planes_, plane, {owner, crtc});
}

void Claims::releasePlane(Owner owner, uint32_t plane) {
  const std::lock_guard lock(mutex_);
  const auto it = planes_.find(plane);
  if (it != planes_.end() && it->second.owner == owner) planes_.erase(it);
}

void Claims::release(Owner owner) {
  const std::lock_guard lock(mutex_);
  for (auto *claims : {&crtcs_, &connectors_, &planes_})
    std::erase_if(*claims, [&](const auto &entry) { return entry.second.owner == owner; });
}

void Claims::mark(KmsSnapshot &snapshot, Owner owner) const {
  const std::lock_guard lock(mutex_);
  const auto other = [&](const std::map<uint32_t, Claim> &claims, uint32_t object) -> uint32_t {
    const auto it = claims.find(object);
    return it != claims.end() && it->second.owner != owner ? it->second.crtc : 0;
  };
  for (KmsConnector &c : snapshot.connectors) {
    const uint32_t crtc = other(connectors_, c.id);
    if (crtc != 0 || c.claimed) c.crtc = crtc;
    c.claimed = crtc != 0;
  }
  for (KmsCrtc &c : snapshot.crtcs) c.claimed = other(crtcs_, c.id) != 0;
  for (KmsPlane &p : snapshot.planes) {
    const uint32_t crtc = other(planes_, p.id);
    if (crtc != 0 || p.claimed) p.crtc = crtc; // 0: it has been given back
    p.claimed = crtc != 0;
  }
}

} // namespace gstzc
