// SPDX-License-Identifier: LGPL-2.1-or-later
// Pictures that overlays are made of, in one form: premultiplied, turned as the display shows the frame.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gst/gst.h>

namespace gstzc {

// Premultiplied 0xAARRGGBB, rows without padding.
struct Pixmap {
  int width = 0, height = 0;
  std::vector<uint32_t> pixels;
};

// How much of each pixel a text covers, rows without padding.
struct TextBitmap {
  int width = 0, height = 0;
  std::vector<uint8_t> coverage;
};

// a * b / 255, rounded; both up to 255
inline uint32_t mul255(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

inline uint32_t premultiply(uint32_t argb) {
  const uint32_t a = argb >> 24;
  return a << 24 | mul255((argb >> 16) & 255, a) << 16 | mul255((argb >> 8) & 255, a) << 8 | mul255(argb & 255, a);
}

// All components, alpha too, times `alpha` / 255.
inline uint32_t fade(uint32_t premultiplied, uint32_t alpha) {
  return mul255(premultiplied >> 24, alpha) << 24 | mul255((premultiplied >> 16) & 255, alpha) << 16 |
         mul255((premultiplied >> 8) & 255, alpha) << 8 | mul255(premultiplied & 255, alpha);
}

// Premultiplied `source` over premultiplied `below`.
inline uint32_t over(uint32_t source, uint32_t below) {
  const uint32_t rest = 255 - (source >> 24);
  return rest == 0 ? source : source + fade(below, rest);
}

// From a buffer with a GstVideoMeta of BGRA, ARGB, RGBA, ABGR or AYUV (BT.709, limited range, as GStreamer writes it).
// `rotation`: DRM_MODE_ROTATE_*, DRM_MODE_REFLECT_*. Null: no such buffer, or one that ends before its picture does.
std::shared_ptr<const Pixmap> pixmapOf(GstBuffer *buffer, bool premultiplied, double alpha, uint32_t rotation);

// From a mask, GRAY8 or GRAY16: each value's premultiplied color. Null as above.
std::shared_ptr<const Pixmap> pixmapOfMask(GstBuffer *buffer, const std::function<uint32_t(uint32_t)> &color,
                                           uint32_t rotation);

} // namespace gstzc
