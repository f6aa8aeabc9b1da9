// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/colour.h"

namespace gstzc::infer {
namespace {

// Samples as numbers 0..255, and what chroma is without colour.
struct Levels {
  double black, luma_scale, chroma_scale, chroma_zero;
};

// The nominal ranges of ITU-R BT.601 and BT.709 (8 bits) and BT.2020 (10 bits: four times those), full range by all
// codes.
Levels levelsOf(const GstVideoInfo &info) {
  const guint depth = GST_VIDEO_FORMAT_INFO_DEPTH(info.finfo, 0), shift = GST_VIDEO_FORMAT_INFO_SHIFT(info.finfo, 0);
  // of 8 bits the shift is that of packed formats' words; samples are read as bytes
  const double one = depth == 8 ? 1 : static_cast<double>(1u << (depth - 8 + shift));
  const double highest = depth == 8 ? 255 : static_cast<double>(((1u << depth) - 1) << shift);
  GstVideoColorRange range = info.colorimetry.range;
  if (range == GST_VIDEO_COLOR_RANGE_UNKNOWN)
    range = GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) ? GST_VIDEO_COLOR_RANGE_16_235 : GST_VIDEO_COLOR_RANGE_0_255;
  if (range == GST_VIDEO_COLOR_RANGE_16_235) return {16 * one, 255 / (219 * one), 255 / (224 * one), 128 * one};
  return {0, 255 / highest, 255 / highest, 128 * one};
}

struct Weights {
  double r, g, b;
};

Weights lumaWeights(const GstVideoInfo &info) {
  double kr = 0, kb = 0;
  if (!gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &kr, &kb)) {
    const bool hd = GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) && GST_VIDEO_INFO_HEIGHT(&info) > 576;
    gst_video_color_matrix_get_Kr_Kb(hd ? GST_VIDEO_COLOR_MATRIX_BT709 : GST_VIDEO_COLOR_MATRIX_BT601, &kr, &kb);
  }
  return {kr, 1 - kr - kb, kb};
}

using Row = std::array<double, 4>; // factors of the components, constant

// Red, green and blue; or luma three times.
std::array<Row, 3> matrixFor(const GstVideoInfo &info, bool grey) {
  const Levels levels = levelsOf(info);
  const double luma = levels.luma_scale, black = -levels.black * luma;
  const Row first = {luma, 0, 0, black};
  if (GST_VIDEO_FORMAT_INFO_IS_GRAY(info.finfo)) return {first, first, first};
  const Weights k = lumaWeights(info);
  if (GST_VIDEO_FORMAT_INFO_IS_RGB(info.finfo)) {
    const Row sum = {luma * k.r, luma * k.g, luma * k.b, black};
    if (grey) return {sum, sum, sum};
    return {first, Row{0, luma, 0, black}, Row{0, 0, luma, black}};
  }
  if (grey) return {first, first, first};
  const double rv = 2 * (1 - k.r) * levels.chroma_scale, bu = 2 * (1 - k.b) * levels.chroma_scale;
  const double gu = -bu * k.b / k.g, gv = -rv * k.r / k.g;
  const auto row = [&](double u, double v) { return Row{luma, u, v, black - levels.chroma_zero * (u + v)}; };
  return {row(0, rv), row(gu, gv), row(bu, 0)};
}

} // namespace

std::array<PixelChannel, 3> channelsFor(const GstVideoInfo &info, const InputPlan &plan,
                                        const Normalisation &normalisation) {
  std::array<PixelChannel, 3> channels;
  const std::array<Row, 3> matrix = matrixFor(info, plan.channels == 1);
  const auto count = static_cast<size_t>(plan.channels);
  for (size_t i = 0; i < count; ++i) {
    const size_t colour = normalisation.bgr && count == 3 ? 2 - i : i;
    const Row &row = matrix[colour];
    const double scale = static_cast<double>(normalisation.scale[colour]);
    channels[i] = {{static_cast<float>(row[0]), static_cast<float>(row[1]), static_cast<float>(row[2])},
                   static_cast<float>(row[3]),
                   normalisation.scale[colour],
                   static_cast<float>(-static_cast<double>(normalisation.mean[colour]) * scale)};
  }
  return channels;
}

} // namespace gstzc::infer
