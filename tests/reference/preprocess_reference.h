// SPDX-License-Identifier: LGPL-2.1-or-later
// The preprocessing once more, in double precision, pixel by pixel, with format layouts and constants written out here.
// It shares no code with gst/infer and none of GStreamer's format tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gstzc::reference {

// Bytes of one pixel, or group of pixels, of a plane, and how many of them there are.
struct PlaneShape {
  int pixel, columns, rows;
};
std::vector<PlaneShape> planesOf(const std::string &format, int width, int height);

struct Picture {
  std::string format; // "NV12", "RGB", …
  int width = 0, height = 0;
  std::vector<std::vector<uint8_t>> planes;
  std::vector<int> strides;
  double kr = 0.299, kb = 0.114; // of the matrix
  bool full_range = false;
  bool chroma_left = false, chroma_top = false; // chroma samples at the edge of their pixels instead of the middle
};

// Red, green, blue or three times luma, 0..255.
struct Colour {
  double c[3];
};

// What a tensor pixel sees of a picture: a centre, where the first sample lies at 0.5, and a size in pixels, which
// counts where `area` is set.
struct Spot {
  double x, y, width = 0, height = 0;
  bool area = false;
};
Colour sample(const Picture &picture, const Spot &spot, bool grey);

enum class Fit { Stretch, Letterbox, LetterboxTopLeft, Crop };

struct Target {
  int width = 0, height = 0, channels = 3;
  Fit fit = Fit::Stretch;
  bool area = false, nchw = false, bgr = false;
  double left = 0, top = 0, shown_width = 0, shown_height = 0; // of the frame; no width: all of it
  double mean[3] = {0, 0, 0}, scale[3] = {1, 1, 1};
  double padding = 0;
};

// The numbers before they are rounded to the tensor's type.
std::vector<double> preprocess(const Picture &picture, const Target &target);

} // namespace gstzc::reference
