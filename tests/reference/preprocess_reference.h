// SPDX-License-Identifier: LGPL-2.1-or-later
// The preprocessing once more, in double precision, pixel by pixel, with format layouts and constants written out here.
// It shares no code with gst/infer and none of GStreamer's format tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gstzc::reference {

struct Picture {
  std::string format; // "NV12", "RGB", …
  int width = 0, height = 0;
  std::vector<std::vector<uint8_t>> planes;
  std::vector<int> strides;
  double kr = 0.299, kb = 0.114; // of the matrix
  bool full_range = false;
  bool chroma_left = false; // chroma samples at the left of their pixels instead of the middle
};

// Red, green, blue (0..255) of sample position (x, y), where the first sample lies at 0.5.
struct Colour {
  double c[3];
};
Colour sample(const Picture &picture, double x, double y);

struct Target {
  int width = 0, height = 0;
  bool letterbox = false, nchw = false, bgr = false;
  double mean[3] = {0, 0, 0}, scale[3] = {1, 1, 1};
  double padding = 0;
};

std::vector<double> preprocess(const Picture &picture, const Target &target);

} // namespace gstzc::reference
