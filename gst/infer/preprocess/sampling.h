// SPDX-License-Identifier: LGPL-2.1-or-later
// The components of a frame at the pixels of a tensor: which samples each of these takes with which weights, and the
// reading of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/mapping.h"
#include "gst/infer/preprocess/options.h"

namespace gstzc::infer {

// The planes of one frame in CPU memory.
struct FramePlanes {
  std::array<const uint8_t *, GST_VIDEO_MAX_PLANES> data = {};
  std::array<int, GST_VIDEO_MAX_PLANES> stride = {};
};

// Samples first … first + count - 1 of a row or a column and their weights, which add up to 1: of the first, of each
// between, of the last. With count 1 only the first counts.
struct Taps {
  int first = 0, count = 1;
  float weight_first = 1, weight_between = 0, weight_last = 0;
};

// The two samples round `centre`, sample i lying at i + 0.5 of `samples`. Where there are two they are always two
// beside each other: at the edges the inner one with weight 0.
Taps bilinearTaps(double centre, int samples);

// All samples that `centre - width / 2` to `centre + width / 2` covers, of `samples` each from i to i + 1, by the part
// covered; the edge samples stand for what is outside. `width` 1 or more.
Taps areaTaps(double centre, double width, int samples);

// Components that lie beside each other in one plane, at the covered pixels of the tensor.
class Sampler {
public:
  // `components` of the format, which share plane, subsampling and distance of samples; of these tensor pixels, which
  // are not none.
  Sampler(const GstVideoInfo &info, const std::vector<int> &components, const Mapping &mapping, Span columns, Span rows,
          Scaling scaling);

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
