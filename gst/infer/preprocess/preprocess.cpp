// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <algorithm>
#include <array>

namespace gstzc::infer {
namespace {

// The components that are read, those together that lie together.
std::vector<std::vector<int>> groupsOf(const PixelPlan &plan) {
  const auto together = [&](int a, int b) {
    const PixelComponent &x = plan.component[a], &y = plan.component[b];
    return x.plane == y.plane && x.pixel == y.pixel && x.grid == y.grid;
  };
  std::vector<std::vector<int>> groups;
  for (int c = 0; c < plan.components; ++c) {
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto &g) { return together(g.front(), c); });
    if (group == groups.end())
      groups.push_back({c});
    else
      group->push_back(c);
  }
  return groups;
}

// The scratch memory of a thread; it keeps that of its largest frame.
std::byte *threadScratch(size_t bytes) {
  thread_local std::vector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

constexpr size_t roundUpBytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace

Result<Preprocessor> Preprocessor::create(const GstVideoInfo &info, const InputPlan &plan,
                                          const PreprocessOptions &options, const std::optional<Region> &region) {
  auto pixels = makePixelPlan(info, plan, options, region);
  if (!pixels) return pixels.error();
  return Preprocessor(*pixels);
}

Preprocessor::Preprocessor(const PixelPlan &plan) : plan_(plan) {
  std::copy(std::begin(plan.channel), std::end(plan.channel), conversion_.channels);
  conversion_.count = plan.channels;
  conversion_.number = plan.number;
  conversion_.interleaved = plan.interleaved;
  fillPadding();
  if (plan.columns.count() == 0) return;
  for (const std::vector<int> &group : groupsOf(plan)) samplers_.emplace_back(plan, group);
}

// One row of the tensor as it is where there is no frame: the padding colour through the conversion, with the factors
// of a component that is the colour itself.
void Preprocessor::fillPadding() {
  kernels::Conversion plain = conversion_;
  for (PixelChannel &channel : plain.channels) channel = {{1, 0, 0}, 0, channel.scale, channel.bias};
  const size_t width = static_cast<size_t>(plan_.width), row = width * numberBytes(plan_.number);
  padding_.resize(row * static_cast<size_t>(plan_.channels));
  const std::vector<float> colours(kernels::roundUp(width), plan_.padding);
  const float *const components[3] = {colours.data(), colours.data(), colours.data()};
  void *const out[3] = {padding_.data(), padding_.data() + (plan_.channels == 3 ? row : 0),
                        padding_.data() + (plan_.channels == 3 ? 2 * row : 0)};
  kernels::convert(plain, components, width, out);
}

// `components` has the covered columns, or is null for a row of padding.
void Preprocessor::writeRow(int row, const float *const *components, std::byte *tensor) const {
  const size_t width = static_cast<size_t>(plan_.width), value = numberBytes(plan_.number);
  const size_t pixel =
      plan_.interleaved ? value * static_cast<size_t>(plan_.channels) : value; // bytes beside each other
  const size_t line = width * pixel, plane = line * static_cast<size_t>(plan_.height);
  const Span shown = components != nullptr ? plan_.columns : Span{};
  const size_t before = static_cast<size_t>(shown.first) * pixel, until = static_cast<size_t>(shown.last) * pixel;
  void *out[3] = {};
  for (int k = 0; k < (plan_.interleaved ? 1 : plan_.channels); ++k) {
    std::byte *const begin = tensor + static_cast<size_t>(k) * plane + static_cast<size_t>(row) * line;
    const std::byte *const padding = padding_.data() + static_cast<size_t>(k) * line;
    std::copy_n(padding, before, begin);
    std::copy(padding + until, padding + line, begin + until);
    out[k] = begin + before;
  }
  if (components != nullptr) kernels::convert(conversion_, components, static_cast<size_t>(shown.count()), out);
}

void Preprocessor::run(const FramePlanes &frame, void *tensor) const {
  const size_t row_bytes = kernels::roundUp(static_cast<size_t>(plan_.columns.count())) * sizeof(float);
  std::array<Sampler::Scratch, 3> scratch;
  size_t bytes = 3 * row_bytes;
  for (const Sampler &sampler : samplers_) bytes += roundUpBytes(sampler.scratchBytes());
  std::byte *const memory = threadScratch(bytes);
  std::byte *next = memory + 3 * row_bytes;
  for (size_t i = 0; i < samplers_.size(); ++i) {
    scratch[i].memory = next;
    next += roundUpBytes(samplers_[i].scratchBytes());
  }
  float *rows[3];
  for (size_t c = 0; c < 3; ++c) rows[c] = reinterpret_cast<float *>(memory + c * row_bytes);
  const bool one = plan_.components == 1;
  const float *const components[3] = {rows[0], rows[one ? 0 : 1], rows[one ? 0 : 2]};

  std::byte *const out = static_cast<std::byte *>(tensor);
  for (int y = 0; y < plan_.height; ++y) {
    if (y < plan_.rows.first || y >= plan_.rows.last) {
      writeRow(y, nullptr, out);
      continue;
    }
    for (size_t i = 0; i < samplers_.size(); ++i) samplers_[i].read(frame, y - plan_.rows.first, scratch[i], rows);
    writeRow(y, components, out);
  }
}

} // namespace gstzc::infer
