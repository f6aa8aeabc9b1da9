// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/sampling.h"

#include <algorithm>

#include "gst/infer/preprocess/kernels.h"

namespace gstzc::infer {
namespace {

constexpr int32_t kCacheLine = 64;

#define GSTZC_PIXEL inline
#include "gst/infer/preprocess/taps.inl.h"
#undef GSTZC_PIXEL

} // namespace

Sampler::Sampler(const PixelPlan &plan, const std::vector<int> &components) {
  const PixelComponent &first = plan.component[components.front()];
  const PixelAxis &across = plan.across[first.grid], &down = plan.down[first.grid];
  plane_ = first.plane;
  pixel_ = first.pixel;
  sample_bytes_ = first.sample_bytes;
  mask_ = first.mask;
  samples_ = across.samples;
  weighed_ = across.inverse_width > 0 || down.inverse_width > 0;
  columns_ = static_cast<size_t>(plan.columns.count());
  for (int y = plan.rows.first; y < plan.rows.last; ++y) rows_.push_back(tapsAt(down, y));
  for (int x = plan.columns.first; x < plan.columns.last; ++x) column_taps_.push_back(tapsAt(across, x));

  // the words hold both neighbours where these are at most 4 bytes, else there are two; the second of 3-byte pixels
  // begins a byte early, so that it ends with the pixel
  const bool two_words = samples_ > 1 && pixel_ > 2;
  const int early = pixel_ == 3 ? 1 : 0;
  for (const int index : components) {
    Component c;
    c.index = index;
    c.offset = plan.component[index].offset;
    c.left_shift = 8 * c.offset;
    c.right_shift = samples_ < 2 ? c.left_shift : 8 * (two_words ? c.offset + early : c.offset + pixel_);
    components_.push_back(c);
  }
  if (weighed_) {
    first_sample_ = column_taps_.front().first;
    last_sample_ = column_taps_.back().first + column_taps_.back().count - 1;
    return;
  }
  for (const Taps &t : column_taps_) {
    left_.push_back(t.first * pixel_);
    if (two_words) right_.push_back((t.first + 1) * pixel_ - early);
    right_weight_.push_back(t.weight_last);
  }
  right_weight_.resize(kernels::roundUp(columns_));
  for (const int32_t at : left_)
    if (cache_lines_.empty() || at / kCacheLine != cache_lines_.back() / kCacheLine) cache_lines_.push_back(at);
  column_taps_.clear();
}

size_t Sampler::scratchBytes() const {
  if (!weighed_) return 4 * kernels::roundUp(columns_) * sizeof(uint32_t);
  const int samples = (last_sample_ - first_sample_ + 1) * pixel_ / sample_bytes_;
  return kernels::roundUp(static_cast<size_t>(samples)) * sizeof(float);
}

void Sampler::read(const FramePlanes &frame, int row, Scratch &scratch, float *const out[3]) const {
  if (weighed_)
    readWeighed(frame, row, reinterpret_cast<float *>(scratch.memory), out);
  else
    readBilinear(frame, row, scratch, out);
}

void Sampler::fetch(const uint8_t *row, uint32_t *words) const {
  if (samples_ < 2) {
    uint32_t word = 0;
    for (int i = 0; i < pixel_; ++i) word |= static_cast<uint32_t>(row[i]) << (8 * i);
    std::fill_n(words, columns_, word);
    return;
  }
  if (pixel_ == 1)
    kernels::pick16(row, left_.data(), columns_, words);
  else
    kernels::pick32(row, left_.data(), columns_, words);
  if (!right_.empty()) kernels::pick32(row, right_.data(), columns_, words + kernels::roundUp(columns_));
}

void Sampler::readBilinear(const FramePlanes &frame, int row, Scratch &scratch, float *const out[3]) const {
  const size_t padded = kernels::roundUp(columns_);
  uint32_t *const words = reinterpret_cast<uint32_t *>(scratch.memory);
  uint32_t *const slots[2] = {words, words + 2 * padded};
  const Taps &taps = rows_[static_cast<size_t>(row)];
  const auto find = [&](int line) { return scratch.rows[0] == line ? 0 : scratch.rows[1] == line ? 1 : -1; };
  const auto lineAt = [&](int line) { return frame.data[plane_] + ptrdiff_t{line} * frame.stride[plane_]; };
  // the next row's lines are fetched from memory meanwhile: rows this far apart are no stream to the processor
  const int ahead =
      row + 1 < static_cast<int>(rows_.size()) ? rows_[static_cast<size_t>(row) + 1].first - taps.first : 0;
  const auto load = [&](int line, int slot) {
    if (ahead > 0)
      for (const int32_t at : cache_lines_) __builtin_prefetch(lineAt(line + ahead) + at);
    fetch(lineAt(line), slots[slot]);
    scratch.rows[static_cast<size_t>(slot)] = line;
    return slot;
  };
  // when a tensor is larger than what it shows, the next row often takes the same ones
  const int upper_line = taps.first, lower_line = taps.weight_last > 0 ? taps.first + 1 : taps.first;
  int upper = find(upper_line), lower = find(lower_line);
  if (upper < 0) upper = load(upper_line, lower == 0 ? 1 : 0);
  if (lower_line == upper_line) lower = upper;
  if (lower < 0) lower = load(lower_line, 1 - upper);

  const size_t right = right_.empty() ? 0 : padded;
  for (const Component &c : components_)
    kernels::bilinear(
        {slots[upper], slots[upper] + right, slots[lower], slots[lower] + right, c.left_shift, c.right_shift, mask_},
        right_weight_.data(), taps.weight_last, columns_, out[c.index]);
}

void Sampler::readWeighed(const FramePlanes &frame, int row, float *sums, float *const out[3]) const {
  const Taps &taps = rows_[static_cast<size_t>(row)];
  const size_t count = static_cast<size_t>((last_sample_ - first_sample_ + 1) * pixel_ / sample_bytes_);
  for (int i = 0; i < taps.count; ++i) {
    const float weight = i == 0 ? taps.weight_first : i == taps.count - 1 ? taps.weight_last : taps.weight_between;
    const uint8_t *const line =
        frame.data[plane_] + ptrdiff_t{taps.first + i} * frame.stride[plane_] + ptrdiff_t{first_sample_} * pixel_;
    if (sample_bytes_ == 1)
      kernels::weigh8(line, count, weight, i > 0, sums);
    else
      kernels::weigh16(line, count, mask_, weight, i > 0, sums);
  }
  const int step = pixel_ / sample_bytes_;
  for (const Component &c : components_) {
    const float *const line = sums + c.offset / sample_bytes_;
    for (size_t x = 0; x < columns_; ++x) {
      const Taps &t = column_taps_[x];
      const float *sample = line + ptrdiff_t{t.first - first_sample_} * step;
      float between = 0, value = *sample * t.weight_first;
      for (int i = 2; i < t.count; ++i) between += *(sample += step);
      if (t.count > 1) value += between * t.weight_between + sample[step] * t.weight_last;
      out[c.index][x] = value;
    }
  }
}

} // namespace gstzc::infer
