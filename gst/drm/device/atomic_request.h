// SPDX-License-Identifier: LGPL-2.1-or-later
// Properties of display objects to be set at once, as plain values: what an atomic commit consists of.
#pragma once

#include <cstdint>
#include <vector>

#include "gst/drm/kms_types.h"

namespace gstzc {

struct PropertySetting {
  uint32_t object = 0;
  uint32_t property = 0;
  uint64_t value = 0;
};

class AtomicRequest {
public:
  void set(uint32_t object, uint32_t property, uint64_t value) { settings_.push_back({object, property, value}); }
  // By name; an object without that property is left alone.
  void set(uint32_t object, const KmsProperties &properties, const char *name, uint64_t value) {
    if (const auto p = properties.find(name); p != properties.end()) set(object, p->second.id, value);
  }
  // Whose flip the commit's descriptor tells of.
  void tellFlipOf(const KmsCrtc &crtc) {
    const auto p = crtc.properties.find("OUT_FENCE_PTR");
    flip_ = {crtc.id, p == crtc.properties.end() ? 0 : p->second.id, 0};
  }
  // Instead: an event of the device, with `token`, which is not 0.
  void tellFlipByEvent(uint64_t token) { event_ = token; }

  void clear() { // keeps its memory
    settings_.clear();
    flip_ = {};
    event_ = 0;
  }
  // In the order of setting; of two settings of one property the later one counts.
  const std::vector<PropertySetting> &settings() const { return settings_; }
  // The CRTC and its property for an out-fence; 0: none wanted, none there.
  const PropertySetting &flip() const { return flip_; }
  uint64_t event() const { return event_; } // 0: none wanted

private:
  std::vector<PropertySetting> settings_;
  PropertySetting flip_;
  uint64_t event_ = 0;
};

} // namespace gstzc
