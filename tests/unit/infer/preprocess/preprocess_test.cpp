// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <limits>
#include <string>
#include <thread>
#include <vector>

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

// One pixel of `format` as a tensor of one pixel.
std::vector<float> pixelOf(const Caps &caps, std::initializer_list<std::vector<uint8_t>> planes, int channels) {
  FramePlanes frame;
  size_t p = 0;
  for (const std::vector<uint8_t> &plane : planes) {
    frame.data[p] = plane.data();
    frame.stride[p++] = static_cast<int>(plane.size());
  }
  const InputPlan plan = {1, 1, TensorLayout::Nchw, TensorType::Float32, channels};
  auto preprocessor = Preprocessor::create(infoOf(caps), plan, {});
  if (!preprocessor) return {};
  std::vector<float> tensor(static_cast<size_t>(channels));
  preprocessor->run(frame, tensor.data());
  return tensor;
}

// Grey is luma: Kr, Kg and Kb of the standards times 255.
TEST(Preprocess, GreyIsLuma) {
  struct {
    const char *name;
    Caps caps;
    std::vector<std::vector<uint8_t>> planes;
    float grey;
  } const rows[] = {
      {"red", {"RGB", 1, 1, GST_VIDEO_COLOR_MATRIX_RGB, true}, {{255, 0, 0}}, 76.245f},
      {"green", {"RGB", 1, 1, GST_VIDEO_COLOR_MATRIX_RGB, true}, {{0, 255, 0}}, 149.685f},
      {"blue", {"BGRx", 1, 1, GST_VIDEO_COLOR_MATRIX_RGB, true}, {{255, 0, 0, 9}}, 29.07f},
      {"red of BT.709", {"RGB", 1, 1, GST_VIDEO_COLOR_MATRIX_BT709, true}, {{255, 0, 0}}, 54.213f},
      {"full range luma", {"NV12", 1, 1, GST_VIDEO_COLOR_MATRIX_BT709, true}, {{77}, {1, 255}}, 77},
      {"limited range luma", {"NV12", 1, 1, GST_VIDEO_COLOR_MATRIX_BT709, false}, {{235}, {1, 255}}, 255},
      {"below black", {"GRAY8", 1, 1, GST_VIDEO_COLOR_MATRIX_BT601, false}, {{3}}, 0},
  };
  for (const auto &row : rows) {
    const auto tensor = row.planes.size() == 1 ? pixelOf(row.caps, {row.planes[0]}, 1)
                                               : pixelOf(row.caps, {row.planes[0], row.planes[1]}, 1);
    ASSERT_EQ(tensor.size(), 1u) << row.name;
    EXPECT_NEAR(tensor[0], row.grey, 0.01) << row.name;
  }
}

// BT.2100's 10 bit levels, in the upper bits; what a producer leaves in the lower six does not count.
TEST(Preprocess, TenBits) {
  const Caps limited = {"P010_10LE", 1, 1, GST_VIDEO_COLOR_MATRIX_BT2020};
  const auto le = [](int value, int junk) {
    return std::vector<uint8_t>{static_cast<uint8_t>((value << 6 & 255) | junk), static_cast<uint8_t>(value >> 2)};
  };
  std::vector<uint8_t> neutral = le(512, 63), other = le(512, 0);
  neutral.insert(neutral.end(), other.begin(), other.end());
  struct {
    int luma, junk;
    bool full;
    float colour;
  } const rows[] = {{64, 0, false, 0}, {64, 63, false, 0},    {940, 0, false, 255},    {940, 63, false, 255},
                    {0, 63, true, 0},  {1023, 63, true, 255}, {502, 21, false, 127.5f}};
  for (const auto &row : rows) {
    Caps caps = limited;
    caps.full_range = row.full;
    const auto tensor = pixelOf(caps, {le(row.luma, row.junk), neutral}, 3);
    ASSERT_EQ(tensor.size(), 3u);
    for (const float channel : tensor) EXPECT_NEAR(channel, row.colour, 0.01) << row.luma;
  }
}

TEST(Preprocess, AreaIsTheMean) {
  const Caps caps = {.format = "GRAY8", .width = 4, .height = 2, .full_range = true};
  const uint8_t bytes[] = {10, 20, 30, 40, 50, 60, 70, 90};
  FramePlanes frame;
  frame.data[0] = bytes;
  frame.stride[0] = 4;
  auto preprocessor = Preprocessor::create(infoOf(caps), {2, 1, TensorLayout::Nchw, TensorType::Float32, 1},
                                           {.scaling = Scaling::Area});
  ASSERT_TRUE(preprocessor.ok());
  float tensor[2] = {};
  preprocessor->run(frame, tensor);
  EXPECT_FLOAT_EQ(tensor[0], 35);
  EXPECT_FLOAT_EQ(tensor[1], 57.5f);
}

// A region half outside the frame, and one that does not touch it.
TEST(Preprocess, OutsideOfTheFrameIsPadding) {
  const Caps caps = {.format = "GRAY8", .width = 4, .height = 4, .full_range = true};
  const std::vector<uint8_t> bytes(16, 200);
  FramePlanes frame;
  frame.data[0] = bytes.data();
  frame.stride[0] = 4;
  const InputPlan plan = {4, 2, TensorLayout::Nhwc, TensorType::UInt8, 1};
  struct {
    Region region;
    std::vector<uint8_t> expected;
  } const rows[] = {
      {{-2, 2, 4, 4}, {9, 9, 200, 200, 9, 9, 9, 9}},
      {{10, 10, 4, 4}, {9, 9, 9, 9, 9, 9, 9, 9}},
      {{-1e9, -1e9, 1, 1}, {9, 9, 9, 9, 9, 9, 9, 9}},
      {{0, 0, 4, 2}, {200, 200, 200, 200, 200, 200, 200, 200}},
  };
  for (const auto &row : rows) {
    auto preprocessor = Preprocessor::create(infoOf(caps), plan, {.normalisation = {.padding = 9}}, row.region);
    ASSERT_TRUE(preprocessor.ok()) << preprocessor.error().message();
    std::vector<uint8_t> tensor(8);
    preprocessor->run(frame, tensor.data());
    EXPECT_EQ(tensor, row.expected) << row.region.x;
  }
}

// Beside a letterboxed region is padding, though the frame goes on there.
TEST(Preprocess, ALetterboxedRegionEndsAtItsEdge) {
  const Caps caps = {.format = "GRAY8", .width = 100, .height = 100, .full_range = true};
  const std::vector<uint8_t> bytes(10000, 200);
  FramePlanes frame;
  frame.data[0] = bytes.data();
  frame.stride[0] = 100;
  auto preprocessor = Preprocessor::create(infoOf(caps), {4, 4, TensorLayout::Nhwc, TensorType::UInt8, 1},
                                           {.resize = ResizeMode::Letterbox}, Region{40, 40, 20, 10});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<uint8_t> tensor(16);
  preprocessor->run(frame, tensor.data());
  EXPECT_EQ(tensor, (std::vector<uint8_t>{0, 0, 0, 0, 200, 200, 200, 200, 200, 200, 200, 200, 0, 0, 0, 0}));
}

TEST(Preprocess, ThreadsShareIt) {
  const Caps caps = {.format = "NV12", .width = 97, .height = 61};
  const InputPlan plan = {40, 30, TensorLayout::Nchw, TensorType::Float32};
  auto preprocessor = Preprocessor::create(infoOf(caps), plan, {});
  ASSERT_TRUE(preprocessor.ok());
  std::vector<std::vector<float>> tensors(4, std::vector<float>(plan.bytes() / sizeof(float)));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < tensors.size(); ++i)
    threads.emplace_back([&, i] {
      const GuardedPicture picture(randomPicture(caps, 3, static_cast<unsigned>(i % 2)), GuardedMemory::Against::Back);
      for (int round = 0; round < 20; ++round) preprocessor->run(picture.planes(), tensors[i].data());
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(tensors[0], tensors[2]);
  EXPECT_EQ(tensors[1], tensors[3]);
  EXPECT_NE(tensors[0], tensors[1]);
}

TEST(Preprocess, RefusesRegionsAndNumbersThatAreNone) {
  const float none = std::numeric_limits<float>::quiet_NaN(), huge = std::numeric_limits<float>::max();
  const double no_place = std::numeric_limits<double>::infinity();
  struct {
    Region region;
    Normalisation normalisation;
    const char *says;
  } const rows[] = {
      {{0, 0, 0, 4}, {}, "a region of 0.0"},
      {{0, 0, 4, -1}, {}, "x-1.0"},
      {{no_place, 0, 4, 4}, {}, "at (inf"},
      {{0, 0, static_cast<double>(none), 4}, {}, "a region of nan"},
      {{0, 0, 4, 4}, {.mean = {0, none, 0}}, "mean nan"},
      {{0, 0, 4, 4}, {.scale = {0, 0, huge}}, "channel 2"},
      {{0, 0, 4, 4}, {.padding = none}, "padding nan"},
  };
  for (const auto &row : rows) {
    auto preprocessor = Preprocessor::create(infoOf({.format = "NV12", .width = 8, .height = 8}),
                                             {8, 8, TensorLayout::Nchw, TensorType::Float32},
                                             {.normalisation = row.normalisation}, row.region);
    ASSERT_FALSE(preprocessor.ok()) << row.says;
    EXPECT_NE(preprocessor.error().message().find(row.says), std::string::npos) << preprocessor.error().message();
    EXPECT_FALSE(preprocessor.error().remedy.empty());
  }
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
