// SPDX-License-Identifier: LGPL-2.1-or-later
// The components of a frame at the pixels of a tensor: which samples each of these takes with which weights, and the
// reading of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/pixel_layout.h"

namespace gstzc::infer {

// The planes of one frame in CPU memory.
struct FramePlanes {
  std::array<const uint8_t *, GST_VIDEO_MAX_PLANES> data = {};
  std::array<int, GST_VIDEO_MAX_PLANES> stride = {};
};

// Components that lie beside each other in one plane, at the covered pixels of the tensor.
class Sampler {
public:
  // `components` of the plan, which share plane, grid and distance of samples. The plan covers tensor pixels.
  Sampler(const PixelPlan &plan, const std::vector<int> &components);

  // Memory that read() works in, of scratchBytes() and aligned as for a float, with the frame's rows that it still
  // holds: none at the first row of a frame.
  struct Scratch {
    std::byte *memory = nullptr;
    std::array<int, 2> rows = {-1, -1};
  };
  size_t scratchBytes() const;

  // Row `row` of the covered ones; out[c] takes component c, roundUp(columns) long.
  void read(const FramePlanes &frame, int row, Scratch &scratch, float *const out[3]) const;

private:
  struct Component {
    int index = 0;  // in the format: 0 to 2
    int offset = 0; // bytes within the pixel
    int left_shift = 0, right_shift = 0;
  };

  void fetch(const uint8_t *row, uint32_t *words) const;
  void readBilinear(const FramePlanes &frame, int row, Scratch &scratch, float *const out[3]) const;
  void readWeighed(const FramePlanes &frame, int row, float *sums, float *const out[3]) const;

  int plane_ = 0;
  int pixel_ = 1;        // bytes from sample to sample of a component
  int sample_bytes_ = 1; // 1 or 2
  uint32_t mask_ = 0xff; // bits of a sample
  int samples_ = 0;      // of a row
  std::vector<Component> components_;
  size_t columns_ = 0;   // covered
  bool weighed_ = false; // all samples covered, else four neighbours
  std::vector<Taps> rows_;
  // four neighbours: where the words of the left and, if it is another one, of the right sample begin
  std::vector<int32_t> left_, right_;
  std::vector<float> right_weight_;
  std::vector<int32_t> cache_lines_; // an offset in each that the words lie in
  // all samples covered
  std::vector<Taps> column_taps_;
  int first_sample_ = 0, last_sample_ = 0; // that any of them takes
};

} // namespace gstzc::infer
