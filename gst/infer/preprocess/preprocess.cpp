// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "gst/infer/preprocess/colour.h"

namespace gstzc::infer {
namespace {

// 8 bits a component, or 16 of which the upper ones count; planes without tiles: GstVideoFormatInfo says all that is
// needed of them
constexpr GstVideoFormat kFormats[] = {
    GST_VIDEO_FORMAT_NV12,  GST_VIDEO_FORMAT_RGB,  GST_VIDEO_FORMAT_BGRx,      GST_VIDEO_FORMAT_BGR,
    GST_VIDEO_FORMAT_RGBx,  GST_VIDEO_FORMAT_xRGB, GST_VIDEO_FORMAT_xBGR,      GST_VIDEO_FORMAT_BGRA,
    GST_VIDEO_FORMAT_RGBA,  GST_VIDEO_FORMAT_ARGB, GST_VIDEO_FORMAT_ABGR,      GST_VIDEO_FORMAT_NV21,
    GST_VIDEO_FORMAT_NV16,  GST_VIDEO_FORMAT_NV61, GST_VIDEO_FORMAT_P010_10LE, GST_VIDEO_FORMAT_I420,
    GST_VIDEO_FORMAT_YV12,  GST_VIDEO_FORMAT_Y42B, GST_VIDEO_FORMAT_Y444,      GST_VIDEO_FORMAT_YUY2,
    GST_VIDEO_FORMAT_UYVY,  GST_VIDEO_FORMAT_RGBP, GST_VIDEO_FORMAT_BGRP,      GST_VIDEO_FORMAT_GBR,
    GST_VIDEO_FORMAT_GRAY8,
};

// The colour components that are looked at (alpha never is), those together that lie together.
std::vector<std::vector<int>> groupsOf(const GstVideoInfo &info, bool luma_only) {
  const GstVideoFormatInfo *f = info.finfo;
  const guint n = luma_only || GST_VIDEO_FORMAT_INFO_IS_GRAY(f) ? 1 : 3;
  const auto together = [&](guint a, guint b) {
    return GST_VIDEO_FORMAT_INFO_PLANE(f, a) == GST_VIDEO_FORMAT_INFO_PLANE(f, b) &&
           GST_VIDEO_FORMAT_INFO_PSTRIDE(f, a) == GST_VIDEO_FORMAT_INFO_PSTRIDE(f, b) &&
           GST_VIDEO_FORMAT_INFO_W_SUB(f, a) == GST_VIDEO_FORMAT_INFO_W_SUB(f, b);
  };
  std::vector<std::vector<int>> groups;
  for (guint c = 0; c < n; ++c) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto &g) { return together(static_cast<guint>(g.front()), c); });
    if (group == groups.end())
      groups.push_back({static_cast<int>(c)});
    else
      group->push_back(static_cast<int>(c));
  }
  return groups;
}

Status checkNumbers(const Normalisation &norm, int channels) {
  for (int i = 0; i < channels; ++i) {
    const auto k = static_cast<size_t>(i);
    // also where the product leaves the range of a float
    const float ends[] = {norm.mean[k] * norm.scale[k], 255 * norm.scale[k], norm.padding * norm.scale[k]};
    if (!std::all_of(std::begin(ends), std::end(ends), [](float v) { return std::isfinite(v); }))
      return Error{"mean " + std::to_string(norm.mean[k]) + ", scale " + std::to_string(norm.scale[k]) +
                       " and padding " + std::to_string(norm.padding) + " of channel " + std::to_string(i) +
                       " give values that no float holds",
                   0, "A pixel becomes (colour - mean) * scale, colour 0 to 255"};
  }
  return Nothing{};
}

// The scratch memory of a thread; it keeps that of its largest frame.
std::byte *threadScratch(size_t bytes) {
  thread_local std::vector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

constexpr size_t roundUpBytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace

std::span<const GstVideoFormat> readableFormats() { return kFormats; }

Result<Preprocessor> Preprocessor::create(const GstVideoInfo &info, const InputPlan &plan,
                                          const PreprocessOptions &options, const std::optional<Region> &region) {
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&info);
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
    return Error{std::string("frames in format ") + gst_video_format_to_string(format) + " are not read", 0,
                 "Convert them to NV12, RGB or BGRx first"};
  if (auto numbers = checkNumbers(options.normalisation, plan.channels); !numbers) return numbers.error();
  const double width = GST_VIDEO_INFO_WIDTH(&info), height = GST_VIDEO_INFO_HEIGHT(&info);
  const Region shown = region.value_or(Region{0, 0, width, height});
  if (!(shown.width > 0 && shown.height > 0 && std::isfinite(shown.x + shown.width + shown.y + shown.height)))
    return Error{"a region of " + std::to_string(shown.width) + "x" + std::to_string(shown.height) + " pixels at (" +
                     std::to_string(shown.x) + ", " + std::to_string(shown.y) + ")",
                 0, "A region needs a width and a height"};

  Preprocessor p;
  p.plan_ = plan;
  p.mapping_ = mapTensorToFrame(plan, shown, options.resize);
  p.columns_ = pixelsWithin(plan.width, p.mapping_.step_x, p.mapping_.origin_x, std::max(0.0, shown.x),
                            std::min(width, shown.x + shown.width));
  p.rows_ = pixelsWithin(plan.height, p.mapping_.step_y, p.mapping_.origin_y, std::max(0.0, shown.y),
                         std::min(height, shown.y + shown.height));
  p.conversion_ = conversionFor(info, plan, options.normalisation);
  p.fillPadding(options.normalisation.padding);
  const bool none = p.columns_.count() == 0 || p.rows_.count() == 0;
  if (none) p.columns_ = p.rows_ = {};
  for (const std::vector<int> &group : groupsOf(info, plan.channels == 1 && GST_VIDEO_INFO_IS_YUV(&info))) {
    for (const int c : group)
      p.planes_ = std::max(p.planes_, static_cast<int>(GST_VIDEO_INFO_COMP_PLANE(&info, static_cast<guint>(c))) + 1);
    if (!none) p.samplers_.emplace_back(info, group, p.mapping_, p.columns_, p.rows_, options.scaling);
    p.components_ = std::max(p.components_, group.back() + 1);
  }
  return p;
}

// One row of the tensor as it is where there is no frame: the padding colour through the conversion, with the factors
// of a component that is the colour itself.
void Preprocessor::fillPadding(float colour) {
  kernels::Conversion plain = conversion_;
  for (kernels::Conversion::Channel &channel : plain.channels) channel = {{1, 0, 0}, 0, channel.scale, channel.bias};
  const size_t width = static_cast<size_t>(plan_.width), row = width * tensorTypeSize(plan_.type);
  padding_.resize(row * static_cast<size_t>(plan_.channels));
  const std::vector<float> colours(kernels::roundUp(width), colour);
  const float *const components[3] = {colours.data(), colours.data(), colours.data()};
  void *const out[3] = {padding_.data(), padding_.data() + (plan_.channels == 3 ? row : 0),
                        padding_.data() + (plan_.channels == 3 ? 2 * row : 0)};
  kernels::convert(plain, components, width, out);
}

// `components` has the covered columns, or is null for a row of padding.
void Preprocessor::writeRow(int row, const float *const *components, std::byte *tensor) const {
  const size_t width = static_cast<size_t>(plan_.width), value = tensorTypeSize(plan_.type);
  const bool interleaved = plan_.layout == TensorLayout::Nhwc;
  const size_t pixel = interleaved ? value * static_cast<size_t>(plan_.channels) : value; // bytes beside each other
  const size_t line = width * pixel, plane = line * static_cast<size_t>(plan_.height);
  const Span shown = components != nullptr ? columns_ : Span{};
  const size_t before = static_cast<size_t>(shown.first) * pixel, until = static_cast<size_t>(shown.last) * pixel;
  void *out[3] = {};
  for (int k = 0; k < (interleaved ? 1 : plan_.channels); ++k) {
    std::byte *const begin = tensor + static_cast<size_t>(k) * plane + static_cast<size_t>(row) * line;
    const std::byte *const padding = padding_.data() + static_cast<size_t>(k) * line;
    std::copy_n(padding, before, begin);
    std::copy(padding + until, padding + line, begin + until);
    out[k] = begin + before;
  }
  if (components != nullptr) kernels::convert(conversion_, components, static_cast<size_t>(shown.count()), out);
}

void Preprocessor::run(const FramePlanes &frame, void *tensor) const {
  const size_t row_bytes = kernels::roundUp(static_cast<size_t>(columns_.count())) * sizeof(float);
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
  const float *const components[3] = {rows[0], rows[components_ > 1 ? 1 : 0], rows[components_ > 1 ? 2 : 0]};

  std::byte *const out = static_cast<std::byte *>(tensor);
  for (int y = 0; y < plan_.height; ++y) {
    if (y < rows_.first || y >= rows_.last) {
      writeRow(y, nullptr, out);
      continue;
    }
    for (size_t i = 0; i < samplers_.size(); ++i) samplers_[i].read(frame, y - rows_.first, scratch[i], rows);
    writeRow(y, components, out);
  }
}

} // namespace gstzc::infer
