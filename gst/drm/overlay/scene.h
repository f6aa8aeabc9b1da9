// SPDX-License-Identifier: LGPL-2.1-or-later
// What is to be shown above a frame, in the frame's pixels: a plain value that frames are compared by. Filled again for
// each frame in the memory it has, so that frames that say the same cost no allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "gst/drm/overlay/mini_object_ref.h"
#include "gst/drm/planning.h"

namespace gstzc {

// Names of classes are quarks, 0: none. Scores are percents, -1: none; finer ones nobody could read.
struct OverlayBox {
  Rect area;
  float angle = 0; // radians, clockwise about the middle
  uint32_t label = 0;
  int percent = -1;
  bool operator==(const OverlayBox &) const = default;
};

// A further text: what an object or the whole frame was classified as.
struct OverlayText {
  int box = -1; // index of the box it is about; -1: the frame
  uint32_t label = 0;
  int percent = -1;
  bool operator==(const OverlayText &) const = default;
};

struct OverlayPoint {
  float x = 0, y = 0; // finite
  uint32_t label = 0; // of the object that it belongs to
  bool operator==(const OverlayPoint &) const = default;
};

struct OverlayRegion {
  uint32_t value = 0; // of the mask's pixels
  uint32_t label = 0;
  bool operator==(const OverlayRegion &) const = default;
};

// Values of pixels, stretched over `area`; 0 is background and not drawn.
struct OverlayMask {
  Rect area;
  BufferRef pixels;                       // GRAY8 or GRAY16 with its GstVideoMeta
  uint32_t label = 0;                     // of the object whose pixels these are: for all values. 0: by value
  uint32_t first_region = 0, regions = 0; // in OverlayScene::regions: names of values

  // With the same names. Looks at the pixels where the buffers are not the same.
  bool operator==(const OverlayMask &) const;
};

// A picture with alpha, stretched over `area`.
struct OverlayImage {
  Rect area;
  BufferRef pixels; // with its GstVideoMeta
  float alpha = 1;  // for the whole of it, 0 to 1
  bool premultiplied = false;
  bool operator==(const OverlayImage &) const = default;
};

struct OverlayScene {
  std::vector<OverlayMask> masks; // drawn in this order
  std::vector<OverlayBox> boxes;
  std::vector<OverlayPoint> points;
  std::vector<OverlayText> texts;
  std::vector<OverlayImage> images;
  std::vector<OverlayRegion> regions;

  bool empty() const { return masks.empty() && boxes.empty() && points.empty() && texts.empty() && images.empty(); }
  void clear(); // keeps the memory
  bool operator==(const OverlayScene &) const = default;
};

} // namespace gstzc
