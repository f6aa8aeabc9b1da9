// SPDX-License-Identifier: LGPL-2.1-or-later
// Every format, with everything else drawn by chance, against another implementation of the preprocessing.
#include "gst/infer/preprocess/preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/reference/preprocess_reference.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/preprocess/cases.h"

namespace gstzc::test {
namespace {

using namespace gstzc::infer;

// How far from the exact number, limited to what the type holds, the tensor's may be: the rounding of its type, and
// what single precision loses of a colour, far below the 1/255 that anybody would see.
double tolerance(double exact, double scale, TensorType type) {
  const double arithmetic = 0.005 * std::abs(scale);
  switch (type) {
  case TensorType::UInt8:
  case TensorType::Int8: return 0.5 + arithmetic;
  case TensorType::Float16: return std::abs(exact) / 2048 + std::ldexp(1, -25) + arithmetic;
  default: return arithmetic;
  }
}

void check(const Case &c, unsigned seed) {
  SCOPED_TRACE(testing::Message() << c << ", seed " << seed);
  const reference::Picture picture = randomPicture(c.caps, c.padding, seed);
  const GuardedPicture guarded(picture, c.against);
  auto preprocessor = Preprocessor::create(infoOf(c.caps), c.plan, c.options, c.region);
  ASSERT_TRUE(preprocessor.ok()) << preprocessor.error().message();
  const GuardedMemory tensor(c.plan.bytes(), c.against);
  std::memset(tensor.data(), 0xff, tensor.size()); // NaN, where nothing is written
  preprocessor->run(guarded.planes(), tensor.data());

  const std::vector<double> exact = reference::preprocess(picture, targetOf(c));
  ASSERT_EQ(exact.size() * tensorTypeSize(c.plan.type), tensor.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    double expected = exact[i];
    if (c.plan.type == TensorType::UInt8) expected = std::clamp(expected, 0.0, 255.0);
    if (c.plan.type == TensorType::Int8) expected = std::clamp(expected, -128.0, 127.0);
    const double found = numberAt(tensor.data(), i, c.plan.type);
    const double allowed = tolerance(expected, scaleOf(c, i), c.plan.type);
    ASSERT_LE(std::abs(found - expected), allowed) << "number " << i << ": " << found << " instead of " << expected;
    ASSERT_FALSE(std::isnan(found)) << "number " << i;
  }
}

class EveryFormat : public testing::TestWithParam<GstVideoFormat> {
protected:
  const char *format() const { return gst_video_format_to_string(GetParam()); }
};

TEST_P(EveryFormat, WhateverElseIsAsked) {
  const int n = rounds(200);
  for (int i = 0; i < n; ++i) {
    const auto seed = static_cast<unsigned>(i) * 1009 + static_cast<unsigned>(GetParam());
    check(drawCase(format(), seed), seed);
    if (HasFatalFailure()) return;
  }
}

// From one pixel to four of them, at both guarded pages: no neighbour is there to be read.
TEST_P(EveryFormat, SmallestFrames) {
  for (const int width : {1, 2, 3, 4})
    for (const int height : {1, 2, 3})
      for (const auto against : {GuardedMemory::Against::Front, GuardedMemory::Against::Back})
        for (const auto scaling : {Scaling::Bilinear, Scaling::Area}) {
          Case c;
          c.caps = {format(), width, height};
          c.plan = {2, 5, TensorLayout::Nhwc, TensorType::Float32};
          c.options.scaling = scaling;
          c.against = against;
          check(c, 5);
          if (HasFatalFailure()) return;
        }
}

TEST_P(EveryFormat, LargeFrames) {
  if (rounds(10) < 10) GTEST_SKIP() << "too slow here";
  Case c;
  c.caps = {format(), 1921, 1079, GST_VIDEO_COLOR_MATRIX_BT709};
  c.padding = 127;
  c.plan = {320, 240, TensorLayout::Nchw, TensorType::Float32};
  c.options = {
      .resize = ResizeMode::Letterbox,
      .normalisation = {.mean = {127, 127, 127}, .scale = {1 / 128.0f, 1 / 128.0f, 1 / 128.0f}, .padding = 114}};
  check(c, 11);
}

// Not only the best one that this processor has.
class EveryInstructionSet : public testing::TestWithParam<int64_t> {
protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "this processor does not have it";
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().DeInit(); // the next call chooses again
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
};

TEST_P(EveryInstructionSet, WhateverIsAsked) {
  const int n = rounds(30);
  for (const GstVideoFormat format : readableFormats())
    for (int i = 0; i < n; ++i) {
      const auto seed = static_cast<unsigned>(i) * 9176 + static_cast<unsigned>(format);
      check(drawCase(gst_video_format_to_string(format), seed), seed);
      if (HasFatalFailure()) return;
    }
}

#if HWY_ARCH_X86
INSTANTIATE_TEST_SUITE_P(Against, EveryInstructionSet, testing::Values(HWY_SSE2, HWY_SSE4, HWY_AVX2, HWY_AVX3),
                         [](const auto &instance) { return std::string(hwy::TargetName(instance.param)); });
#else
INSTANTIATE_TEST_SUITE_P(Against, EveryInstructionSet, testing::Values(HWY_STATIC_TARGET),
                         [](const auto &instance) { return std::string(hwy::TargetName(instance.param)); });
#endif

INSTANTIATE_TEST_SUITE_P(Against, EveryFormat, testing::ValuesIn(readableFormats().begin(), readableFormats().end()),
                         [](const auto &instance) { return std::string(gst_video_format_to_string(instance.param)); });

} // namespace
} // namespace gstzc::test
