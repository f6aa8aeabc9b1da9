// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/infer/preprocess/pictures.h"

namespace gstzc::test {
namespace {

using namespace gstzc::infer;

TEST(Preprocess, AtTheSameSizeThePixelsAreTheTensor) {
  const Caps caps = {.format = "BGRx", .width = 16, .height = 9, .full_range = true};
  const reference::Picture picture = randomPicture(caps, 4, 3);
  const GuardedPicture guarded(picture, GuardedMemory::Against::Back);
  InputPlan plan{16, 9, TensorLayout::Nhwc, TensorType::UInt8};
  auto preprocessor = Preprocessor::create(infoOf(caps), plan, {.resize = ResizeMode::Letterbox});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<uint8_t> tensor(plan.bytes());
  preprocessor->run(guarded.planes(), tensor.data());
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
  const Caps caps = {.format = "NV12", .width = 4, .height = 4, .matrix = GST_VIDEO_COLOR_MATRIX_BT709};
  for (const auto &row : rows) {
    std::vector<uint8_t> luma(16, row.y), chroma;
    for (int i = 0; i < 4; ++i) chroma.insert(chroma.end(), {row.u, row.v});
    FramePlanes planes;
    planes.data = {luma.data(), chroma.data()};
    planes.stride = {4, 4};
    const InputPlan plan{2, 2, TensorLayout::Nchw, TensorType::Float32};
    auto preprocessor = Preprocessor::create(infoOf(caps), plan, {});
    ASSERT_TRUE(preprocessor.ok());
    std::vector<float> tensor(12);
    preprocessor->run(planes, tensor.data());
    EXPECT_NEAR(tensor[0], row.r, 2);
    EXPECT_NEAR(tensor[4], row.g, 2);
    EXPECT_NEAR(tensor[8], row.b, 2);
  }
}

TEST(Preprocess, LetterboxKeepsTheShapeAndPadsEvenly) {
  const Caps caps = {.format = "GRAY8", .width = 200, .height = 100, .full_range = true};
  const std::vector<uint8_t> white(200 * 100, 255);
  FramePlanes planes;
  planes.data[0] = white.data();
  planes.stride[0] = 200;
  const InputPlan plan{100, 100, TensorLayout::Nchw, TensorType::Float32};
  auto preprocessor = Preprocessor::create(infoOf(caps), plan, {.resize = ResizeMode::Letterbox});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<float> tensor(3 * 100 * 100);
  preprocessor->run(planes, tensor.data());
  for (int y = 0; y < 100; ++y)
    for (int x : {0, 50, 99}) EXPECT_EQ(tensor[y * 100 + x], y >= 25 && y < 75 ? 255 : 0) << x << "," << y;
}

TEST(Preprocess, RefusesOtherFormatsByName) {
  for (const GstVideoFormat format : {GST_VIDEO_FORMAT_NV12_4L4, GST_VIDEO_FORMAT_RGB16}) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, format, 64, 64);
    auto preprocessor = Preprocessor::create(info, {8, 8, TensorLayout::Nchw, TensorType::Float32}, {});
    ASSERT_FALSE(preprocessor.ok());
    EXPECT_NE(preprocessor.error().message().find(gst_video_format_to_string(format)), std::string::npos);
  }
}

} // namespace
} // namespace gstzc::test
