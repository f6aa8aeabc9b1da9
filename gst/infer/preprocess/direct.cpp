// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/direct.h"

namespace gstzc::infer {

std::optional<GstVideoFormat> tensorFormat(const InputPlan &plan, const PreprocessOptions &options) {
  if (plan.type != TensorType::UInt8) return {};
  const Normalisation &norm = options.normalisation;
  for (size_t i = 0; i < static_cast<size_t>(plan.channels); ++i)
    if (norm.mean[i] != 0 || norm.scale[i] != 1) return {};
  if (plan.channels == 1) return GST_VIDEO_FORMAT_GRAY8;
  if (plan.layout == TensorLayout::Nhwc) return norm.bgr ? GST_VIDEO_FORMAT_BGR : GST_VIDEO_FORMAT_RGB;
  return norm.bgr ? GST_VIDEO_FORMAT_BGRP : GST_VIDEO_FORMAT_RGBP;
}

bool isTensor(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options) {
  const auto format = tensorFormat(plan, options);
  return format && GST_VIDEO_INFO_FORMAT(&info) == *format && GST_VIDEO_INFO_WIDTH(&info) == plan.width &&
         GST_VIDEO_INFO_HEIGHT(&info) == plan.height && info.colorimetry.range != GST_VIDEO_COLOR_RANGE_16_235;
}

const void *packedTensor(const FramePlanes &frame, const GstVideoInfo &info, const InputPlan &plan) {
  const guint planes = GST_VIDEO_INFO_N_PLANES(&info);
  const size_t row = static_cast<size_t>(plan.width) * static_cast<size_t>(GST_VIDEO_INFO_COMP_PSTRIDE(&info, 0));
  const size_t plane = row * static_cast<size_t>(plan.height);
  if (planes * plane != plan.bytes() || frame.data[0] == nullptr) return nullptr;
  for (guint p = 0; p < planes; ++p) {
    if (plan.height > 1 && frame.stride[p] != static_cast<int>(row)) return nullptr;
    if (frame.data[p] != frame.data[0] + p * plane) return nullptr;
  }
  return frame.data[0];
}

} // namespace gstzc::infer
