// SPDX-License-Identifier: LGPL-2.1-or-later
// The devices' preprocessing, its source compiled for the CPU: every format, with everything else drawn by chance,
// against an implementation in double precision and against the CPU's own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/decode/half.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/infer/preprocess/preprocess.h"
#include "tests/reference/preprocess_reference.h"
#include "tests/softcuda/product_kernels/device_language.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/preprocess/cases.h"

#include "ext/cuda/kernels/preprocess.cu"

namespace gstzc::test {
namespace {

using namespace gstzc::infer;

// Of the full range, 255 * scale.
constexpr double kOfTheReference = 1e-6;
// The CPU's sums by area are rounded at each sample.
constexpr double kOfTheCpu = 2e-6;

PixelPlanes planesOf(const GuardedPicture &picture) {
  PixelPlanes planes;
  for (size_t p = 0; p < 4; ++p) {
    planes.address[p] = reinterpret_cast<uint64_t>(picture.planes().data[p]);
    planes.stride[p] = picture.planes().stride[p];
  }
  return planes;
}

void runKernel(const PixelPlan &plan, const PixelPlanes &planes, uint8_t *tensor) {
  const unsigned block[3] = {8, 4, 1};
  const unsigned grid[3] = {(static_cast<unsigned>(plan.width) + 7) / 8, (static_cast<unsigned>(plan.height) + 3) / 4,
                            1};
  runGrid(grid, block, [&] { gstzc_preprocess(plan, planes, reinterpret_cast<uint64_t>(tensor)); });
}

// How far a tensor's number may be from `exact`, which its type can hold up to rounding, when the arithmetic before the
// rounding is `error` off.
double tolerance(double exact, double error, TensorType type) {
  switch (type) {
  case TensorType::UInt8:
  case TensorType::Int8: return 0.5 + error;
  case TensorType::Float16: // half of its last digit
    return std::ldexp(1, std::max(-14, std::ilogb(std::max(std::abs(exact) + error, 1e-9))) - 11) + error;
  default: return error;
  }
}

double held(double v, TensorType type) {
  if (type == TensorType::UInt8) return std::clamp(v, 0.0, 255.0);
  if (type == TensorType::Int8) return std::clamp(v, -128.0, 127.0);
  return v;
}

// The largest errors of a test, of the full range; of float32 tensors.
struct Worst {
  double reference = 0, cpu = 0;
};

void check(const Case &c, unsigned seed, Worst &worst) {
  SCOPED_TRACE(testing::Message() << c << ", seed " << seed);
  const reference::Picture picture = randomPicture(c.caps, c.padding, seed);
  const GuardedPicture guarded(picture, c.against);
  auto plan = makePixelPlan(infoOf(c.caps), c.plan, c.options, c.region);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  ASSERT_EQ(tensorBytes(*plan), c.plan.bytes());
  const GuardedMemory tensor(c.plan.bytes(), c.against);
  std::memset(tensor.data(), 0xff, tensor.size()); // not a number, where nothing is written
  runKernel(*plan, planesOf(guarded), tensor.data());

  auto preprocessor = Preprocessor::create(infoOf(c.caps), c.plan, c.options, c.region);
  ASSERT_TRUE(preprocessor.ok()) << preprocessor.error().message();
  std::vector<uint8_t> cpu(c.plan.bytes());
  preprocessor->run(guarded.planes(), cpu.data());

  const std::vector<double> exact = reference::preprocess(picture, targetOf(c));
  const bool whole = c.plan.type == TensorType::UInt8 || c.plan.type == TensorType::Int8;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double found = numberAt(tensor.data(), i, c.plan.type), by_cpu = numberAt(cpu.data(), i, c.plan.type);
    const double expected = held(exact[i], c.plan.type), range = 255 * std::abs(scaleOf(c, i));
    ASSERT_FALSE(std::isnan(found)) << "number " << i;
    ASSERT_LE(std::abs(found - expected), tolerance(expected, kOfTheReference * range, c.plan.type))
        << "number " << i << ": " << found << " instead of " << expected;
    // both may round to either side of what lies in the middle
    const double between = whole ? 1 : 2 * tolerance(expected, kOfTheCpu * range / 2, c.plan.type);
    ASSERT_LE(std::abs(found - by_cpu), between) << "number " << i << ": " << found << ", by the CPU " << by_cpu;
    if (c.plan.type != TensorType::Float32) continue;
    worst.reference = std::max(worst.reference, std::abs(found - expected) / range);
    worst.cpu = std::max(worst.cpu, std::abs(found - by_cpu) / range);
  }
}

class Kernel : public testing::TestWithParam<GstVideoFormat> {
protected:
  const char *format() const { return gst_video_format_to_string(GetParam()); }
  void TearDown() override {
    RecordProperty("worst_against_reference", std::to_string(worst_.reference * 1e9) + "e-9");
    RecordProperty("worst_against_cpu", std::to_string(worst_.cpu * 1e9) + "e-9");
  }
  Worst worst_;
};

TEST_P(Kernel, WhateverElseIsAsked) {
  const int n = rounds(200);
  for (int i = 0; i < n; ++i) {
    const auto seed = static_cast<unsigned>(i) * 2027 + static_cast<unsigned>(GetParam());
    check(drawCase(format(), seed), seed, worst_);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Kernel, SmallestFrames) {
  for (const int width : {1, 2, 3, 4})
    for (const int height : {1, 2, 3})
      for (const auto against : {GuardedMemory::Against::Front, GuardedMemory::Against::Back})
        for (const auto scaling : {Scaling::Bilinear, Scaling::Area}) {
          Case c;
          c.caps = {format(), width, height};
          c.plan = {2, 5, TensorLayout::Nhwc, TensorType::Float32};
          c.options.scaling = scaling;
          c.against = against;
          check(c, 5, worst_);
          if (HasFatalFailure()) return;
        }
}

TEST_P(Kernel, LargeFrames) {
  if (rounds(10) < 10) GTEST_SKIP() << "too slow here";
  for (const auto scaling : {Scaling::Bilinear, Scaling::Area}) {
    Case c;
    c.caps = {format(), 1921, 1079, GST_VIDEO_COLOR_MATRIX_BT709};
    c.padding = 127;
    c.plan = {160, 120, TensorLayout::Nchw, TensorType::Float32};
    c.options.resize = ResizeMode::Letterbox;
    c.options.scaling = scaling;
    c.options.normalisation.padding = 114;
    check(c, 11, worst_);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(OnTheCpu, Kernel, testing::ValuesIn(readableFormats().begin(), readableFormats().end()),
                         [](const auto &instance) { return std::string(gst_video_format_to_string(instance.param)); });

// Each number that a half is, what lies in the middle of two, and what lies just beside that.
TEST(Half, IsTheNearest) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = halfToFloat(static_cast<uint16_t>(bits));
    const float next = bits == 0x7bff ? 65536.0f : halfToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(halfOf(value), bits);
    ASSERT_EQ(halfOf(-value), bits | 0x8000);
    ASSERT_EQ(halfOf(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(halfOf(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(halfOf(std::nextafter(middle, 1e9f)), bits + 1);
  }
  for (const float large : {65536.0f, 1e9f, INFINITY}) EXPECT_EQ(halfOf(large), 0x7c00) << large;
  EXPECT_EQ(halfOf(-1e9f), 0xfc00);
  EXPECT_EQ(halfOf(1e-30f), 0);
  EXPECT_GT(halfOf(NAN) & 0x7fff, 0x7c00);
}

// What a device must be able to touch: to the last sample, and not the bytes behind it.
TEST(PixelPlan, SaysHowMuchOfAPlaneIsRead) {
  for (const GstVideoFormat format : readableFormats()) {
    const char *const name = gst_video_format_to_string(format);
    SCOPED_TRACE(name);
    const Caps caps = {name, 7, 5};
    auto plan = makePixelPlan(infoOf(caps), {3, 3, TensorLayout::Nchw, TensorType::Float32}, {});
    ASSERT_TRUE(plan.ok());
    const reference::Picture picture = randomPicture(caps, 9, 1);
    ASSERT_EQ(static_cast<size_t>(plan->planes), picture.planes.size());
    const bool alpha_last = std::string(name) == "RGBx" || std::string(name) == "BGRx" || std::string(name) == "RGBA" ||
                            std::string(name) == "BGRA";
    for (int p = 0; p < plan->planes; ++p) {
      const auto i = static_cast<size_t>(p);
      size_t bytes = picture.planes[i].size();
      if (alpha_last) bytes -= 1;
      if (std::string(name) == "UYVY") bytes -= 1; // the seventh luma comes before it
      EXPECT_EQ(planeBytes(*plan, p, picture.strides[i]), bytes) << p;
    }
    EXPECT_EQ(planeBytes(*plan, plan->planes, 100), 0u);
  }
}

TEST(PixelPlan, OfLumaOnlyReadsNoChroma) {
  auto plan = makePixelPlan(infoOf({"NV12", 8, 8}), {4, 4, TensorLayout::Nchw, TensorType::UInt8, 1}, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->planes, 1);
  EXPECT_EQ(planeBytes(*plan, 0, 16), 7u * 16 + 8);
  EXPECT_EQ(planeBytes(*plan, 1, 16), 0u);
}

TEST(PixelPlan, RefusesFramesThatPositionsDoNotReach) {
  EXPECT_TRUE(makePixelPlan(infoOf({"GRAY8", 1 << 22, 1}), {4, 4}, {}).ok());
  auto plan = makePixelPlan(infoOf({"GRAY8", (1 << 22) + 4, 1}), {4, 4}, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message().find("4194308x1"), std::string::npos) << plan.error().message();
}

// However large a region is: its middle is what counts, and nothing overflows.
TEST(PixelPlan, RegionsBeyondAllMeasure) {
  for (const auto scaling : {Scaling::Bilinear, Scaling::Area})
    for (const double side : {1e5, 1e7, 1e12, 1e30}) {
      Case c;
      c.caps = {"NV12", 17, 9};
      c.plan = {1, 1, TensorLayout::Nchw, TensorType::Float32};
      c.options.scaling = scaling;
      c.region = Region{-side / 2, -side / 2, side, side};
      auto plan = makePixelPlan(infoOf(c.caps), c.plan, c.options, c.region);
      ASSERT_TRUE(plan.ok());
      const reference::Picture picture = randomPicture(c.caps, 3, 7);
      const GuardedPicture guarded(picture, c.against);
      float pixel[3] = {-1, -1, -1};
      runKernel(*plan, planesOf(guarded), reinterpret_cast<uint8_t *>(pixel));
      for (const float v : pixel) EXPECT_TRUE(v >= 0 && v <= 255) << side << ": " << v;
    }
}

} // namespace
} // namespace gstzc::test
