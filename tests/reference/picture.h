// SPDX-License-Identifier: LGPL-2.1-or-later
// Pictures for the reference models: in double precision, pixel by pixel, and made smaller in a pass of their own, as a
// script with OpenCV would do it. Shares no code with gst/infer.
#pragma once

#include <cstdint>
#include <vector>

namespace gstzc::reference {

// Red, green, blue of each pixel, 0..255, row by row.
struct RgbPicture {
  int width = 0, height = 0;
  std::vector<double> rgb;
  double at(int x, int y, int channel) const { return rgb[(static_cast<size_t>(y) * width + x) * 3 + channel]; }
};

// Of 8-bit samples with `stride` bytes a row.
RgbPicture fromRgb(const uint8_t *pixels, int stride, int width, int height);

// How a frame's luma and chroma become red, green and blue (ITU-R BT.601 and its successors).
struct Matrix {
  double kr = 0.299, kb = 0.114;
  bool full_range = false;
  bool chroma_left = false; // chroma samples at the left of their pixels instead of the middle
};

struct Plane {
  const uint8_t *data = nullptr;
  int stride = 0;
};

RgbPicture fromNv12(const Plane &luma, const Plane &chroma, int width, int height, const Matrix &matrix);

// Columns x .. x+width-1 and rows y .. y+height-1, which have to be inside.
RgbPicture crop(const RgbPicture &picture, int x, int y, int width, int height);

// Bilinear between two pixels in each direction, whatever the scale; pixel i of a row has its centre at i + 0.5, and
// the outermost pixel goes on outside.
RgbPicture resized(const RgbPicture &picture, int width, int height);

} // namespace gstzc::reference
