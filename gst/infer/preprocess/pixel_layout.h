// SPDX-License-Identifier: LGPL-2.1-or-later
// What it takes to make one picture of a tensor from a frame, as plain numbers: for the CPU and for compilers of
// devices, so nothing is included here but the integers. pixel_plan.h fills it in, pixel_at.inl.h follows it.
#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#endif

namespace gstzc::infer {

#ifdef __CUDACC_RTC__ // compiles at run time, without a standard library
using int8_t = signed char;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
#endif

// Samples first … first + count - 1 of a row or a column and their weights, which add up to 1: of the first, of each
// between, of the last. With count 1 only the first counts.
struct Taps {
  int32_t first = 0, count = 1;
  float weight_first = 1, weight_between = 0, weight_last = 0;
};

// Tensor pixels [first, last) of an axis.
struct Span {
  int32_t first = 0, last = 0;
  int32_t count() const { return last - first; }
};

// Frame pixels = tensor pixels * step + origin, per axis.
struct Mapping {
  double step_x = 1, step_y = 1;
  double origin_x = 0, origin_y = 0;
  double frameX(double tensor_x) const { return tensor_x * step_x + origin_x; }
  double frameY(double tensor_y) const { return tensor_y * step_y + origin_y; }
};

// Positions among samples are integers of this many binary places: exact wherever they are computed, and cheap on
// devices that are slow at double precision.
constexpr int kPositionBits = 40;

// Where tensor pixels lie among the samples of a component, in one direction; sample i from i to i + 1.
struct PixelAxis {
  int64_t start = 0, step = 0; // the centre of tensor pixel `first`, and how far it is to the next
  int32_t first = 0;
  int32_t samples = 0;
  float inverse_width = 0; // 1 / step, where a pixel takes the mean of `step` samples; 0: between the nearest two
};

// One component of a frame: sample (i, j) is at `offset` + i * `pixel` of row j.
struct PixelComponent {
  int32_t plane = 0;
  int32_t grid = 0;         // of PixelPlan::across and down
  int32_t pixel = 1;        // bytes from sample to sample
  int32_t offset = 0;       // bytes
  int32_t sample_bytes = 1; // 1, or 2 in little-endian order
  uint32_t mask = 0xff;     // bits of a sample
};

// One channel of the tensor: colour = sum of factor * component + constant, limited to 0..255; number = colour * scale
// + bias.
struct PixelChannel {
  float factors[3] = {0, 0, 0}, constant = 0, scale = 1, bias = 0;
};

// How a tensor's numbers are written: integers rounded to the nearest (ties to even) and limited to what the type
// holds.
enum class PixelNumber : int32_t { Float32, Float16, UInt8, Int8 };

// Copied to devices as it is.
struct PixelPlan {
  // the tensor
  int32_t width = 0, height = 0, channels = 3;
  PixelNumber number = PixelNumber::Float32;
  bool interleaved = false; // NHWC, else NCHW
  PixelChannel channel[3];
  float padding = 0;  // the colour where there is no frame
  Span columns, rows; // that show the frame; both none where no pixel does

  // the frame
  int32_t frame_width = 0, frame_height = 0; // pixels
  int32_t planes = 0;                        // that are read, from the first one
  int32_t components = 1;                    // that are read: 1 or 3
  int32_t grids = 1;                         // 2: the second and third component are subsampled
  PixelComponent component[3];
  PixelAxis across[2], down[2];

  Mapping mapping; // for what is found in the tensor; the axes have it already
};

// One frame: where its planes begin, and bytes from row to row.
struct PixelPlanes {
  uint64_t address[4] = {};
  int32_t stride[4] = {};
};

constexpr uint64_t numberBytes(PixelNumber number) {
  return number == PixelNumber::Float32 ? 4 : number == PixelNumber::Float16 ? 2 : 1;
}

// Of the picture.
constexpr uint64_t tensorBytes(const PixelPlan &plan) {
  return static_cast<uint64_t>(plan.width) * static_cast<uint64_t>(plan.height) * static_cast<uint64_t>(plan.channels) *
         numberBytes(plan.number);
}

// From the first byte of a plane to the last one that belongs to a pixel: nothing else is read. 0: none of it.
constexpr uint64_t planeBytes(const PixelPlan &plan, int plane, int32_t stride) {
  uint64_t bytes = 0;
  for (int i = 0; i < plan.components; ++i) {
    const PixelComponent &c = plan.component[i];
    if (c.plane != plane) continue;
    const int64_t columns = plan.across[c.grid].samples - 1, rows = plan.down[c.grid].samples - 1;
    const auto end = static_cast<uint64_t>(rows * stride + columns * c.pixel + c.offset + c.sample_bytes);
    if (end > bytes) bytes = end;
  }
  return bytes;
}

} // namespace gstzc::infer
