// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/reference/preprocess_reference.h"

using namespace gstzc::infer;
namespace reference = gstzc::reference;

namespace {

struct PlaneShape {
  int pixel, columns, rows;
};

std::vector<PlaneShape> planesOf(const std::string &f, int w, int h) {
  const int cw = (w + 1) / 2, ch = (h + 1) / 2;
  if (f == "GRAY8") return {{1, w, h}};
  if (f == "RGB" || f == "BGR") return {{3, w, h}};
  if (f == "NV12" || f == "NV21") return {{1, w, h}, {2, cw, ch}};
  if (f == "NV16") return {{1, w, h}, {2, cw, h}};
  if (f == "I420" || f == "YV12") return {{1, w, h}, {1, cw, ch}, {1, cw, ch}};
  if (f == "Y42B") return {{1, w, h}, {1, cw, h}, {1, cw, h}};
  if (f == "Y444") return {{1, w, h}, {1, w, h}, {1, w, h}};
  if (f == "YUY2" || f == "UYVY") return {{4, cw, h}};
  return {{4, w, h}};
}

reference::Picture randomPicture(const std::string &format, int width, int height, int padding, unsigned seed) {
  std::mt19937 random(seed);
  reference::Picture picture;
  picture.format = format;
  picture.width = width;
  picture.height = height;
  for (const PlaneShape &shape : planesOf(format, width, height)) {
    const int stride = shape.pixel * shape.columns + padding;
    // exactly as long as the last pixel: a read past the end is one past the allocation
    std::vector<uint8_t> bytes(static_cast<size_t>(stride) * (shape.rows - 1) + shape.pixel * shape.columns);
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    picture.planes.push_back(std::move(bytes));
    picture.strides.push_back(stride);
  }
  return picture;
}

struct Case {
  std::string format;
  int width, height, padding;
  int tensor_width, tensor_height;
  bool letterbox = false, nchw = false, bgr = false;
  GstVideoColorMatrix matrix = GST_VIDEO_COLOR_MATRIX_BT601;
  bool full_range = false, chroma_left = false;
};

GstVideoInfo infoOf(const Case &c) {
  GstVideoInfo info;
  gst_video_info_init(&info);
  gst_video_info_set_format(&info, gst_video_format_from_string(c.format.c_str()), static_cast<guint>(c.width),
                            static_cast<guint>(c.height));
  const bool rgb = GST_VIDEO_FORMAT_INFO_IS_RGB(info.finfo);
  info.colorimetry.matrix = rgb ? GST_VIDEO_COLOR_MATRIX_RGB : c.matrix;
  info.colorimetry.range = rgb || c.full_range ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
  info.chroma_site = c.chroma_left ? GST_VIDEO_CHROMA_SITE_MPEG2 : GST_VIDEO_CHROMA_SITE_NONE;
  return info;
}

// Kr and Kb of the three standards, as they print them
void setMatrix(reference::Picture &picture, GstVideoColorMatrix matrix) {
  if (matrix == GST_VIDEO_COLOR_MATRIX_BT709)
    picture.kr = 0.2126, picture.kb = 0.0722;
  else if (matrix == GST_VIDEO_COLOR_MATRIX_BT2020)
    picture.kr = 0.2627, picture.kb = 0.0593;
  else
    picture.kr = 0.299, picture.kb = 0.114;
}

FramePlanes planesFor(const reference::Picture &picture) {
  FramePlanes planes;
  for (size_t p = 0; p < picture.planes.size(); ++p) {
    planes.data[p] = picture.planes[p].data();
    planes.stride[p] = picture.strides[p];
  }
  return planes;
}

class AgainstReference : public testing::TestWithParam<Case> {};

TEST_P(AgainstReference, EveryNumber) {
  const Case &c = GetParam();
  reference::Picture picture = randomPicture(c.format, c.width, c.height, c.padding, 17);
  setMatrix(picture, c.matrix);
  picture.full_range = c.full_range;
  picture.chroma_left = c.chroma_left;

  InputPlan plan;
  plan.width = c.tensor_width;
  plan.height = c.tensor_height;
  plan.layout = c.nchw ? TensorLayout::Nchw : TensorLayout::Nhwc;
  Normalisation norm = {
      .mean = {123.7f, 116.3f, 103.5f}, .scale = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f}, .padding = 114, .bgr = c.bgr};
  auto preprocessor = Preprocessor::create(
      infoOf(c), plan, {.resize = c.letterbox ? ResizeMode::Letterbox : ResizeMode::Stretch, .normalisation = norm});
  ASSERT_TRUE(preprocessor.ok()) << preprocessor.error().message();
  EXPECT_EQ(preprocessor->planes(), static_cast<int>(picture.planes.size()));
  std::vector<float> tensor(plan.bytes() / sizeof(float), NAN);
  preprocessor->run(planesFor(picture), tensor.data());

  reference::Target target;
  target.width = plan.width;
  target.height = plan.height;
  target.letterbox = c.letterbox;
  target.nchw = c.nchw;
  target.bgr = c.bgr;
  target.padding = norm.padding;
  for (int i = 0; i < 3; ++i) target.mean[i] = norm.mean[i], target.scale[i] = norm.scale[i];
  const std::vector<double> expected = reference::preprocess(picture, target);
  ASSERT_EQ(expected.size(), tensor.size());
  double worst = 0;
  for (size_t i = 0; i < tensor.size(); ++i) {
    const double difference = std::abs(tensor[i] - expected[i]);
    ASSERT_FALSE(std::isnan(difference)) << "number " << i;
    worst = std::max(worst, difference);
  }
  // 1/255 of the range is 1/57 here; what is asked of the arithmetic is far less
  EXPECT_LT(worst, 0.01 / 57);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const GstVideoFormat format : readableFormats()) {
    const std::string name = gst_video_format_to_string(format);
    all.push_back({.format = name,
                   .width = 641,
                   .height = 479,
                   .padding = 27,
                   .tensor_width = 128,
                   .tensor_height = 128,
                   .letterbox = true});
    all.push_back({.format = name,
                   .width = 7,
                   .height = 5,
                   .padding = 0,
                   .tensor_width = 31,
                   .tensor_height = 17,
                   .nchw = true,
                   .bgr = true,
                   .full_range = true,
                   .chroma_left = true});
    all.push_back({.format = name, .width = 1, .height = 1, .padding = 3, .tensor_width = 4, .tensor_height = 4});
  }
  for (const char *format : {"NV12", "BGRx", "RGB"}) {
    all.push_back({.format = format,
                   .width = 1921,
                   .height = 1079,
                   .padding = 127,
                   .tensor_width = 320,
                   .tensor_height = 240,
                   .letterbox = true,
                   .nchw = true,
                   .matrix = GST_VIDEO_COLOR_MATRIX_BT709});
    all.push_back({.format = format,
                   .width = 479,
                   .height = 641,
                   .padding = 1,
                   .tensor_width = 416,
                   .tensor_height = 416,
                   .letterbox = true});
    all.push_back(
        {.format = format, .width = 128, .height = 128, .padding = 0, .tensor_width = 128, .tensor_height = 128});
  }
  for (const auto matrix : {GST_VIDEO_COLOR_MATRIX_BT601, GST_VIDEO_COLOR_MATRIX_BT709, GST_VIDEO_COLOR_MATRIX_BT2020})
    for (const bool full : {false, true})
      for (const bool left : {false, true})
        all.push_back({.format = "NV12",
                       .width = 99,
                       .height = 67,
                       .padding = 13,
                       .tensor_width = 64,
                       .tensor_height = 48,
                       .matrix = matrix,
                       .full_range = full,
                       .chroma_left = left});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, AgainstReference, testing::ValuesIn(cases()), [](const auto &instance) {
  const Case &c = instance.param;
  return std::to_string(instance.index) + "_" + c.format + "_" + std::to_string(c.width) + "x" +
         std::to_string(c.height) + "_to_" + std::to_string(c.tensor_width) + "x" + std::to_string(c.tensor_height);
});

TEST(Preprocess, AtTheSameSizeThePixelsAreTheTensor) {
  const Case c = {.format = "BGRx", .width = 16, .height = 9, .padding = 4, .tensor_width = 16, .tensor_height = 9};
  const reference::Picture picture = randomPicture(c.format, c.width, c.height, c.padding, 3);
  InputPlan plan{16, 9, TensorLayout::Nhwc, TensorType::UInt8};
  auto preprocessor = Preprocessor::create(infoOf(c), plan, {.resize = ResizeMode::Letterbox});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<uint8_t> tensor(plan.bytes());
  preprocessor->run(planesFor(picture), tensor.data());
  for (int y = 0; y < 9; ++y)
    for (int x = 0; x < 16; ++x)
      for (int k = 0; k < 3; ++k)
        ASSERT_EQ(tensor[(y * 16 + x) * 3 + k], picture.planes[0][y * picture.strides[0] + x * 4 + 2 - k]);
}

TEST(Preprocess, KnownColours) {
  // BT.709 limited: the standard's red, and white and black at the ends of the range
  struct {
    uint8_t y, u, v;
    float r, g, b;
  } const rows[] = {{63, 102, 240, 255, 0, 0}, {235, 128, 128, 255, 255, 255}, {16, 128, 128, 0, 0, 0}};
  const Case c = {.format = "NV12",
                  .width = 4,
                  .height = 4,
                  .padding = 0,
                  .tensor_width = 2,
                  .tensor_height = 2,
                  .matrix = GST_VIDEO_COLOR_MATRIX_BT709};
  for (const auto &row : rows) {
    std::vector<uint8_t> luma(16, row.y), chroma;
    for (int i = 0; i < 4; ++i) chroma.insert(chroma.end(), {row.u, row.v});
    FramePlanes planes;
    planes.data = {luma.data(), chroma.data()};
    planes.stride = {4, 4};
    const InputPlan plan{2, 2, TensorLayout::Nchw, TensorType::Float32};
    auto preprocessor = Preprocessor::create(infoOf(c), plan, {});
    ASSERT_TRUE(preprocessor.ok());
    std::vector<float> tensor(12);
    preprocessor->run(planes, tensor.data());
    EXPECT_NEAR(tensor[0], row.r, 2);
    EXPECT_NEAR(tensor[4], row.g, 2);
    EXPECT_NEAR(tensor[8], row.b, 2);
  }
}

TEST(Preprocess, LetterboxKeepsTheShapeAndPadsEvenly) {
  const Case c = {.format = "GRAY8",
                  .width = 200,
                  .height = 100,
                  .padding = 0,
                  .tensor_width = 100,
                  .tensor_height = 100,
                  .full_range = true};
  const std::vector<uint8_t> white(200 * 100, 255);
  FramePlanes planes;
  planes.data[0] = white.data();
  planes.stride[0] = 200;
  const InputPlan plan{100, 100, TensorLayout::Nchw, TensorType::Float32};
  auto preprocessor = Preprocessor::create(infoOf(c), plan, {.resize = ResizeMode::Letterbox});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<float> tensor(3 * 100 * 100);
  preprocessor->run(planes, tensor.data());
  for (int y = 0; y < 100; ++y)
    for (int x : {0, 50, 99}) EXPECT_EQ(tensor[y * 100 + x], y >= 25 && y < 75 ? 255 : 0) << x << "," << y;
}

TEST(Mapping, TensorToFrame) {
  const InputPlan square{128, 128, TensorLayout::Nhwc, TensorType::Float32};
  const Mapping stretch = mapTensorToFrame(square, {0, 0, 1920, 1080}, ResizeMode::Stretch);
  EXPECT_DOUBLE_EQ(stretch.frameX(0), 0);
  EXPECT_DOUBLE_EQ(stretch.frameX(128), 1920);
  EXPECT_DOUBLE_EQ(stretch.frameY(64), 540);
  const Mapping wide = mapTensorToFrame(square, {0, 0, 1920, 1080}, ResizeMode::Letterbox);
  EXPECT_DOUBLE_EQ(wide.frameX(128), 1920);
  EXPECT_DOUBLE_EQ(wide.frameY(0), -420);
  EXPECT_DOUBLE_EQ(wide.frameY(28), 0);
  EXPECT_DOUBLE_EQ(wide.frameY(100), 1080);
  const Mapping tall = mapTensorToFrame(square, {0, 0, 1080, 1920}, ResizeMode::Letterbox);
  EXPECT_DOUBLE_EQ(tall.frameX(28), 0);
  EXPECT_DOUBLE_EQ(tall.frameY(128), 1920);
}

TEST(Preprocess, RefusesOtherFormatsByName) {
  for (const GstVideoFormat format : {GST_VIDEO_FORMAT_P010_10LE, GST_VIDEO_FORMAT_NV12_4L4, GST_VIDEO_FORMAT_RGB16}) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, format, 64, 64);
    auto preprocessor = Preprocessor::create(info, {8, 8, TensorLayout::Nchw, TensorType::Float32}, {});
    ASSERT_FALSE(preprocessor.ok());
    EXPECT_NE(preprocessor.error().message().find(gst_video_format_to_string(format)), std::string::npos);
  }
}

} // namespace
