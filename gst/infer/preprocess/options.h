// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model expects of its input beyond the tensor's shape.
#pragma once

#include <array>

namespace gstzc::infer {

enum class ResizeMode {
  Stretch,          // the whole region onto the whole tensor
  Letterbox,        // the whole region, its shape kept, in the middle of the tensor; the rest is padding
  LetterboxTopLeft, // the same at the tensor's left and top edge
  Crop,             // the middle of the region, as large as the tensor's shape allows, onto the whole tensor
};

enum class Scaling {
  Bilinear, // between the two nearest samples in each direction
  Area,     // the mean of all samples that a tensor pixel covers, the outer ones by the part covered; in a direction in
            // which it covers one or less, bilinear
};

// What a model expects of the numbers: value = (colour - mean) * scale, colour 0..255. Integers are rounded to the
// nearest and limited to what their type holds.
struct Normalisation {
  std::array<float, 3> mean = {0, 0, 0}; // of red, green, blue; of grey the first
  std::array<float, 3> scale = {1.0f, 1.0f, 1.0f};
  float padding = 0; // colour of all channels outside the frame
  bool bgr = false;  // first channel blue instead of red
};

struct PreprocessOptions {
  ResizeMode resize = ResizeMode::Stretch;
  Scaling scaling = Scaling::Bilinear;
  Normalisation normalisation;
};

} // namespace gstzc::infer
