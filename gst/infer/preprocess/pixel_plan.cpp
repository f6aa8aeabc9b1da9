// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/pixel_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

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

// Of a frame. Positions have 63 - kPositionBits binary digits before the point, and twice a frame is calculated with.
constexpr int kMaxSide = 1 << 22;

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

Status checkFrame(const GstVideoInfo &info) {
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&info);
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
    return Error{std::string("frames in format ") + gst_video_format_to_string(format) + " are not read", 0,
                 "Convert them to NV12, RGB or BGRx first"};
  if (GST_VIDEO_INFO_WIDTH(&info) > kMaxSide || GST_VIDEO_INFO_HEIGHT(&info) > kMaxSide)
    return Error{"frames of " + std::to_string(GST_VIDEO_INFO_WIDTH(&info)) + "x" +
                     std::to_string(GST_VIDEO_INFO_HEIGHT(&info)) + " pixels",
                 0, "Each side may have " + std::to_string(kMaxSide) + " pixels at most"};
  return Nothing{};
}

PixelNumber numberOf(TensorType type) {
  switch (type) {
  case TensorType::Float16: return PixelNumber::Float16;
  case TensorType::UInt8: return PixelNumber::UInt8;
  case TensorType::Int8: return PixelNumber::Int8;
  default: return PixelNumber::Float32;
  }
}

PixelComponent componentOf(const GstVideoFormatInfo *finfo, guint index) {
  PixelComponent c;
  c.plane = static_cast<int32_t>(GST_VIDEO_FORMAT_INFO_PLANE(finfo, index));
  c.pixel = GST_VIDEO_FORMAT_INFO_PSTRIDE(finfo, index);
  c.offset = static_cast<int32_t>(GST_VIDEO_FORMAT_INFO_POFFSET(finfo, index));
  if (const guint depth = GST_VIDEO_FORMAT_INFO_DEPTH(finfo, index); depth > 8) {
    c.sample_bytes = 2;
    c.mask = ((1u << depth) - 1) << GST_VIDEO_FORMAT_INFO_SHIFT(finfo, index);
    // of P010's second chroma GStreamer gives the offset 1, in samples
    if (c.offset > 0) c.offset = c.pixel - c.sample_bytes;
  }
  const bool subsampled = GST_VIDEO_FORMAT_INFO_W_SUB(finfo, index) != GST_VIDEO_FORMAT_INFO_W_SUB(finfo, 0) ||
                          GST_VIDEO_FORMAT_INFO_H_SUB(finfo, index) != GST_VIDEO_FORMAT_INFO_H_SUB(finfo, 0);
  c.grid = subsampled ? 1 : 0;
  return c;
}

// Where the samples of a component lie along one axis, against the frame's pixels.
struct Grid {
  guint shift = 0;      // subsampled by 1 << shift
  bool cosited = false; // on the first of its pixels, not in the middle of them
  int samples = 0;
};

Grid horizontal(const GstVideoInfo &info, guint component) {
  return {GST_VIDEO_FORMAT_INFO_W_SUB(info.finfo, component),
          (GST_VIDEO_INFO_CHROMA_SITE(&info) & GST_VIDEO_CHROMA_SITE_H_COSITED) != 0,
          static_cast<int>(GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(info.finfo, component, GST_VIDEO_INFO_WIDTH(&info)))};
}

Grid vertical(const GstVideoInfo &info, guint component) {
  return {GST_VIDEO_FORMAT_INFO_H_SUB(info.finfo, component),
          (GST_VIDEO_INFO_CHROMA_SITE(&info) & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0,
          static_cast<int>(GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(info.finfo, component, GST_VIDEO_INFO_HEIGHT(&info)))};
}

PixelAxis axisOf(const Grid &grid, double step, double origin, const Span &covered, Scaling scaling) {
  const double factor = 1u << grid.shift;
  const double at = (covered.first + 0.5) * step + origin, width = step / factor;
  PixelAxis axis;
  axis.start = positionOf(grid.cosited ? (at - 0.5) / factor + 0.5 : at / factor);
  axis.step = positionOf(width);
  axis.first = covered.first;
  axis.samples = grid.samples;
  if (scaling == Scaling::Area && width > 1)
    axis.inverse_width = static_cast<float>(1 / static_cast<double>(axis.step));
  return axis;
}

} // namespace

std::span<const GstVideoFormat> readableFormats() { return kFormats; }

int64_t positionOf(double samples) {
  return std::llround(std::ldexp(std::clamp(samples, -double{kMaxSide}, double{kMaxSide}), kPositionBits));
}

Result<PixelPlan> makePixelPlan(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options,
                                const std::optional<Region> &region) {
  if (auto frame = checkFrame(info); !frame) return frame.error();
  if (auto numbers = checkNumbers(options.normalisation, plan.channels); !numbers) return numbers.error();
  const double width = GST_VIDEO_INFO_WIDTH(&info), height = GST_VIDEO_INFO_HEIGHT(&info);
  const Region shown = region.value_or(Region{0, 0, width, height});
  if (!(shown.width > 0 && shown.height > 0 && std::isfinite(shown.x + shown.width + shown.y + shown.height)))
    return Error{"a region of " + std::to_string(shown.width) + "x" + std::to_string(shown.height) + " pixels at (" +
                     std::to_string(shown.x) + ", " + std::to_string(shown.y) + ")",
                 0, "A region needs a width and a height"};

  PixelPlan p;
  p.width = plan.width;
  p.height = plan.height;
  p.channels = plan.channels;
  p.number = numberOf(plan.type);
  p.interleaved = plan.layout == TensorLayout::Nhwc;
  const std::array<PixelChannel, 3> channels = channelsFor(info, plan, options.normalisation);
  std::copy(channels.begin(), channels.end(), p.channel);
  p.padding = options.normalisation.padding;
  p.mapping = mapTensorToFrame(plan, shown, options.resize);
  p.columns = pixelsWithin(plan.width, p.mapping.step_x, p.mapping.origin_x, std::max(0.0, shown.x),
                           std::min(width, shown.x + shown.width));
  p.rows = pixelsWithin(plan.height, p.mapping.step_y, p.mapping.origin_y, std::max(0.0, shown.y),
                        std::min(height, shown.y + shown.height));
  if (p.columns.count() == 0 || p.rows.count() == 0) p.columns = p.rows = {};

  p.frame_width = GST_VIDEO_INFO_WIDTH(&info);
  p.frame_height = GST_VIDEO_INFO_HEIGHT(&info);
  // alpha is never looked at, chroma not for grey
  const bool one = GST_VIDEO_INFO_IS_GRAY(&info) || (plan.channels == 1 && GST_VIDEO_INFO_IS_YUV(&info));
  p.components = one ? 1 : 3;
  for (guint c = 0; c < static_cast<guint>(p.components); ++c) {
    p.component[c] = componentOf(info.finfo, c);
    p.planes = std::max(p.planes, p.component[c].plane + 1);
    const int grid = p.component[c].grid;
    p.grids = std::max(p.grids, grid + 1);
    p.across[grid] = axisOf(horizontal(info, c), p.mapping.step_x, p.mapping.origin_x, p.columns, options.scaling);
    p.down[grid] = axisOf(vertical(info, c), p.mapping.step_y, p.mapping.origin_y, p.rows, options.scaling);
  }
  return p;
}

} // namespace gstzc::infer
