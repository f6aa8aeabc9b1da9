// SPDX-License-Identifier: LGPL-2.1-or-later
// From the frame's pixels to those of a picture that covers what the frame covers on the display.
#pragma once

#include <cstdint>

#include <drm_mode.h>

#include "gst/drm/planning.h"

namespace gstzc {

class OverlayMapping {
public:
  OverlayMapping() = default;
  // `rotation`: how the plane turns the frame, DRM_MODE_ROTATE_* and DRM_MODE_REFLECT_*; 0: not.
  explicit OverlayMapping(const Placement &place, uint32_t rotation = DRM_MODE_ROTATE_0)
      : source_(place.source), width_(place.target.width), height_(place.target.height), rotation_(rotation) {}

  // Of the picture.
  int width() const { return width_; }
  int height() const { return height_; }
  uint32_t rotation() const { return rotation_; }

  struct Point {
    double x = 0, y = 0;
  };
  Point point(double x, double y) const;
  // Edges at the nearest pixel's, not cut off at the picture's; within 2^28 whatever the frame's numbers are. Empty
  // (all 0) where it is narrower than half a pixel.
  Rect rect(const Rect &area) const;
  Rect whole() const { return {0, 0, width_, height_}; }

  bool operator==(const OverlayMapping &) const = default;

private:
  Rect source_;
  int width_ = 0, height_ = 0;
  uint32_t rotation_ = DRM_MODE_ROTATE_0;
};

// The part that both have; empty (all 0) if they have none.
Rect intersection(const Rect &a, const Rect &b);
// The smallest one that holds both; an empty one counts for nothing.
Rect bounding(const Rect &a, const Rect &b);
inline bool isEmpty(const Rect &r) { return r.width <= 0 || r.height <= 0; }

} // namespace gstzc
