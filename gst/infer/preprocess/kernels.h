// SPDX-License-Identifier: LGPL-2.1-or-later
// The inner loops of the preprocessing: pure functions on rows, compiled for several sets of instructions, of which the
// best that the processor has is taken at run time.
//
// Rows of words and floats are read up to the next multiple of kLanes, and written as far: roundUp() gives the length
// they need. Rows of a frame and of the tensor are touched within their bounds only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gst/infer/preprocess/pixel_layout.h"

namespace gstzc::infer::kernels {

constexpr size_t kLanes = 16; // the widest register that is used holds as many floats
constexpr size_t roundUp(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The 2 or 4 bytes at each offset of `row`, the first as the lowest. Loads and stores one by one: they are faster than
// the gather instructions of current processors.
void pick16(const uint8_t *row, const int32_t *offsets, size_t n, uint32_t *words);
void pick32(const uint8_t *row, const int32_t *offsets, size_t n, uint32_t *words);

// Samples within picked words: (word >> shift) & mask.
struct Corners {
  const uint32_t *upper_left, *upper_right, *lower_left, *lower_right;
  int left_shift, right_shift;
  uint32_t mask;
};

// Bilinear: n samples from their four neighbours; `right` has the weights of the right ones, `lower` is that of the
// lower ones.
void bilinear(const Corners &corners, const float *right, float lower, size_t n, float *samples);

// sums[i] = row[i] * weight, or sums[i] += …; of 16 bits samples those in `mask`.
void weigh8(const uint8_t *row, size_t n, float weight, bool add, float *sums);
void weigh16(const uint8_t *row, size_t n, uint32_t mask, float weight, bool add, float *sums);

// From the components of a frame to the channels of the tensor.
struct Conversion {
  PixelChannel channels[3];
  int count = 3;                             // channels: 3, or 1
  PixelNumber number = PixelNumber::Float32; // float16 as IEEE 754 rounds
  bool interleaved = false;                  // all channels of a pixel beside each other
};

// n pixels of a row. `out`: where each channel begins; interleaved, only the first is used.
void convert(const Conversion &conversion, const float *const components[3], size_t n, void *const out[3]);

} // namespace gstzc::infer::kernels
