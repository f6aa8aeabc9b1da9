// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/direct.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/frame_layout.h"

using namespace gstzc::infer;

namespace {

constexpr auto kNchw = TensorLayout::Nchw, kNhwc = TensorLayout::Nhwc;
constexpr auto kU8 = TensorType::UInt8;

PreprocessOptions optionsWith(bool bgr, std::array<float, 3> mean = {0, 0, 0}, std::array<float, 3> scale = {1, 1, 1}) {
  PreprocessOptions options;
  options.normalisation.bgr = bgr;
  options.normalisation.mean = mean;
  options.normalisation.scale = scale;
  return options;
}

TEST(Direct, FormatOfTheTensor) {
  struct {
    const char *name;
    InputPlan plan;
    PreprocessOptions options;
    std::optional<GstVideoFormat> format;
  } const rows[] = {
      {"nhwc", {8, 6, kNhwc, kU8, 3}, optionsWith(false), GST_VIDEO_FORMAT_RGB},
      {"nhwc bgr", {8, 6, kNhwc, kU8, 3}, optionsWith(true), GST_VIDEO_FORMAT_BGR},
      {"nchw", {8, 6, kNchw, kU8, 3}, optionsWith(false), GST_VIDEO_FORMAT_RGBP},
      {"nchw bgr", {8, 6, kNchw, kU8, 3}, optionsWith(true), GST_VIDEO_FORMAT_BGRP},
      {"grey nchw", {8, 6, kNchw, kU8, 1}, optionsWith(false), GST_VIDEO_FORMAT_GRAY8},
      {"grey nhwc", {8, 6, kNhwc, kU8, 1}, optionsWith(true), GST_VIDEO_FORMAT_GRAY8},
      {"grey, whatever the other channels are",
       {8, 6, kNhwc, kU8, 1},
       optionsWith(false, {0, 3, 3}),
       GST_VIDEO_FORMAT_GRAY8},
      {"float32", {8, 6, kNhwc, TensorType::Float32, 3}, optionsWith(false), {}},
      {"float16", {8, 6, kNhwc, TensorType::Float16, 3}, optionsWith(false), {}},
      {"int8", {8, 6, kNhwc, TensorType::Int8, 3}, optionsWith(false), {}},
      {"a mean", {8, 6, kNhwc, kU8, 3}, optionsWith(false, {0, 0, 1}), {}},
      {"a scale", {8, 6, kNhwc, kU8, 3}, optionsWith(false, {0, 0, 0}, {1, 0.5f, 1}), {}},
      {"a mean of grey", {8, 6, kNhwc, kU8, 1}, optionsWith(false, {1, 0, 0}), {}},
  };
  for (const auto &row : rows) EXPECT_EQ(tensorFormat(row.plan, row.options), row.format) << row.name;
}

TEST(Direct, CapsOfTheTensor) {
  const InputPlan plan = {8, 6, kNhwc, kU8, 3};
  struct {
    const char *name;
    GstVideoFormat format;
    guint width, height;
    GstVideoColorRange range;
    bool is;
  } const rows[] = {
      {"the same", GST_VIDEO_FORMAT_RGB, 8, 6, GST_VIDEO_COLOR_RANGE_0_255, true},
      {"range not said", GST_VIDEO_FORMAT_RGB, 8, 6, GST_VIDEO_COLOR_RANGE_UNKNOWN, true},
      {"limited range", GST_VIDEO_FORMAT_RGB, 8, 6, GST_VIDEO_COLOR_RANGE_16_235, false},
      {"the other order", GST_VIDEO_FORMAT_BGR, 8, 6, GST_VIDEO_COLOR_RANGE_0_255, false},
      {"planes", GST_VIDEO_FORMAT_RGBP, 8, 6, GST_VIDEO_COLOR_RANGE_0_255, false},
      {"four bytes", GST_VIDEO_FORMAT_RGBx, 8, 6, GST_VIDEO_COLOR_RANGE_0_255, false},
      {"wider", GST_VIDEO_FORMAT_RGB, 9, 6, GST_VIDEO_COLOR_RANGE_0_255, false},
      {"higher", GST_VIDEO_FORMAT_RGB, 8, 7, GST_VIDEO_COLOR_RANGE_0_255, false},
  };
  for (const auto &row : rows) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, row.format, row.width, row.height);
    info.colorimetry.range = row.range;
    EXPECT_EQ(isTensor(info, plan, {}), row.is) << row.name;
    PreprocessOptions letterbox;
    letterbox.resize = ResizeMode::Letterbox;
    EXPECT_EQ(isTensor(info, plan, letterbox), row.is) << row.name;
  }
}

TEST(Direct, OnlyPackedFrames) {
  const uint8_t bytes[512] = {};
  struct {
    const char *name;
    GstVideoFormat format;
    InputPlan plan;
    std::array<int, 3> offsets, strides;
    bool packed;
  } const rows[] = {
      {"rgb", GST_VIDEO_FORMAT_RGB, {8, 6, kNhwc, kU8, 3}, {0}, {24}, true},
      {"rgb, gaps between rows", GST_VIDEO_FORMAT_RGB, {7, 6, kNhwc, kU8, 3}, {0}, {24}, false},
      {"rgb, one row, whatever its stride", GST_VIDEO_FORMAT_RGB, {7, 1, kNhwc, kU8, 3}, {0}, {24}, true},
      {"rgb, upside down", GST_VIDEO_FORMAT_RGB, {8, 6, kNhwc, kU8, 3}, {0}, {-24}, false},
      {"planar", GST_VIDEO_FORMAT_RGBP, {8, 6, kNchw, kU8, 3}, {0, 48, 96}, {8, 8, 8}, true},
      {"planar, gaps between planes", GST_VIDEO_FORMAT_RGBP, {8, 6, kNchw, kU8, 3}, {0, 64, 128}, {8, 8, 8}, false},
      {"planar, planes in another order", GST_VIDEO_FORMAT_BGRP, {8, 6, kNchw, kU8, 3}, {96, 48, 0}, {8, 8, 8}, false},
      {"planar, gaps in one plane", GST_VIDEO_FORMAT_RGBP, {8, 6, kNchw, kU8, 3}, {0, 48, 96}, {8, 8, 12}, false},
      {"grey", GST_VIDEO_FORMAT_GRAY8, {5, 6, kNchw, kU8, 1}, {3}, {5}, true},
      {"grey, gaps", GST_VIDEO_FORMAT_GRAY8, {5, 6, kNchw, kU8, 1}, {3}, {8}, false},
      {"another number of bytes", GST_VIDEO_FORMAT_GRAY8, {8, 6, kNchw, kU8, 3}, {0}, {8}, false},
  };
  for (const auto &row : rows) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, row.format, static_cast<guint>(row.plan.width),
                              static_cast<guint>(row.plan.height));
    FramePlanes frame;
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
      frame.data[p] = bytes + row.offsets[p];
      frame.stride[p] = row.strides[p];
    }
    EXPECT_EQ(packedTensor(frame, info, row.plan), row.packed ? bytes + row.offsets[0] : nullptr) << row.name;
    EXPECT_EQ(packedTensor({}, info, row.plan), nullptr) << row.name;
  }
}

// What is passed on is what the preprocessing would have made.
TEST(Direct, TheTensorIsThePreprocessedFrame) {
  const InputPlan plans[] = {{9, 5, kNhwc, kU8, 3}, {9, 5, kNchw, kU8, 3}, {9, 5, kNchw, kU8, 1}};
  for (const InputPlan &plan : plans)
    for (const bool bgr : {false, true}) {
      const PreprocessOptions options = optionsWith(bgr);
      std::vector<uint8_t> frame(plan.bytes()), tensor(plan.bytes());
      for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(i * 37);
      GstVideoInfo info;
      gst_video_info_set_format(&info, *tensorFormat(plan, options), 9, 5);
      ASSERT_TRUE(isTensor(info, plan, options));
      FramePlanes planes;
      for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
        planes.stride[p] = 9 * GST_VIDEO_INFO_COMP_PSTRIDE(&info, 0);
        planes.data[p] = frame.data() + p * 45;
      }
      auto preprocessor = Preprocessor::create(info, plan, options);
      ASSERT_TRUE(preprocessor.ok()) << preprocessor.error().message();
      preprocessor->run(planes, tensor.data());
      const void *const packed = packedTensor(planes, info, plan);
      ASSERT_EQ(packed, frame.data());
      EXPECT_EQ(std::memcmp(packed, tensor.data(), tensor.size()), 0)
          << gst_video_format_to_string(*tensorFormat(plan, options));
    }
}

// The formats that are read and what DRM calls them: these without a name come as plain formats only.
TEST(ReadableFormats, DrmNames) {
  const struct {
    GstVideoFormat format;
    const char *name;
  } rows[] = {
      {GST_VIDEO_FORMAT_NV12, "NV12"},  {GST_VIDEO_FORMAT_NV21, "NV21"},      {GST_VIDEO_FORMAT_NV16, "NV16"},
      {GST_VIDEO_FORMAT_NV61, "NV61"},  {GST_VIDEO_FORMAT_P010_10LE, "P010"}, {GST_VIDEO_FORMAT_YUY2, "YUYV"},
      {GST_VIDEO_FORMAT_UYVY, "UYVY"},  {GST_VIDEO_FORMAT_I420, "YU12"},      {GST_VIDEO_FORMAT_BGRx, "XR24"},
      {GST_VIDEO_FORMAT_RGB, "BG24"},   {GST_VIDEO_FORMAT_BGR, "RG24"},       {GST_VIDEO_FORMAT_RGBP, nullptr},
      {GST_VIDEO_FORMAT_BGRP, nullptr}, {GST_VIDEO_FORMAT_GBR, nullptr},
  };
  const auto readable = readableFormats();
  for (const auto &row : rows) {
    EXPECT_NE(std::find(readable.begin(), readable.end(), row.format), readable.end());
    EXPECT_STREQ(gstzc::drmFormatName(row.format), row.name) << gst_video_format_to_string(row.format);
  }
}

} // namespace
