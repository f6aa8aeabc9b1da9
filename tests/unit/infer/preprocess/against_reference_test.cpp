// SPDX-License-Identifier: LGPL-2.1-or-later
// Every format, with everything else drawn by chance, against another implementation of the preprocessing.
#include "gst/infer/preprocess/preprocess.h"

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/reference/preprocess_reference.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/preprocess/pictures.h"

namespace gstzc::test {
namespace {

using namespace gstzc::infer;

struct Case {
  Caps caps;
  int padding = 0;
  InputPlan plan;
  PreprocessOptions options;
  std::optional<Region> region;
  GuardedMemory::Against against = GuardedMemory::Against::Back;
};

std::ostream &operator<<(std::ostream &out, const Case &c) {
  out << c.caps.format << " " << c.caps.width << "x" << c.caps.height << " + " << c.padding << " matrix "
      << c.caps.matrix << (c.caps.full_range ? " full" : "") << (c.caps.chroma_left ? " left" : "")
      << (c.caps.chroma_top ? " top" : "") << " to " << c.plan.width << "x" << c.plan.height << "x" << c.plan.channels
      << " " << tensorTypeName(c.plan.type) << (c.plan.layout == TensorLayout::Nchw ? " nchw" : " nhwc") << " resize "
      << static_cast<int>(c.options.resize) << (c.options.scaling == Scaling::Area ? " area" : "")
      << (c.options.normalisation.bgr ? " bgr" : "");
  if (c.region)
    out << " region " << c.region->width << "x" << c.region->height << " at " << c.region->x << "," << c.region->y;
  return out;
}

// IEEE 754 binary16.
double halfAt(const uint8_t *bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -value : value;
}

double numberAt(const uint8_t *tensor, size_t i, TensorType type) {
  float value;
  switch (type) {
  case TensorType::UInt8: return tensor[i];
  case TensorType::Int8: return static_cast<int8_t>(tensor[i]);
  case TensorType::Float16: return halfAt(tensor + 2 * i);
  default: std::memcpy(&value, tensor + 4 * i, sizeof value); return static_cast<double>(value);
  }
}

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

reference::Target targetOf(const Case &c) {
  reference::Target target;
  target.width = c.plan.width;
  target.height = c.plan.height;
  target.channels = c.plan.channels;
  switch (c.options.resize) {
  case ResizeMode::Stretch: target.fit = reference::Fit::Stretch; break;
  case ResizeMode::Letterbox: target.fit = reference::Fit::Letterbox; break;
  case ResizeMode::LetterboxTopLeft: target.fit = reference::Fit::LetterboxTopLeft; break;
  case ResizeMode::Crop: target.fit = reference::Fit::Crop; break;
  }
  target.area = c.options.scaling == Scaling::Area;
  target.nchw = c.plan.layout == TensorLayout::Nchw;
  if (c.region) {
    target.left = c.region->x, target.top = c.region->y;
    target.shown_width = c.region->width, target.shown_height = c.region->height;
  }
  const Normalisation &norm = c.options.normalisation;
  target.bgr = norm.bgr;
  target.padding = static_cast<double>(norm.padding);
  for (size_t i = 0; i < 3; ++i) {
    target.mean[i] = static_cast<double>(norm.mean[i]);
    target.scale[i] = static_cast<double>(norm.scale[i]);
  }
  return target;
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
  const bool nchw = c.plan.layout == TensorLayout::Nchw;
  const size_t channels = static_cast<size_t>(c.plan.channels), pixels = exact.size() / channels;
  for (size_t i = 0; i < exact.size(); ++i) {
    const size_t channel = nchw ? i / pixels : i % channels;
    const size_t colour = c.options.normalisation.bgr && channels == 3 ? 2 - channel : channel;
    double expected = exact[i];
    if (c.plan.type == TensorType::UInt8) expected = std::clamp(expected, 0.0, 255.0);
    if (c.plan.type == TensorType::Int8) expected = std::clamp(expected, -128.0, 127.0);
    const double found = numberAt(tensor.data(), i, c.plan.type);
    const double allowed = tolerance(expected, static_cast<double>(c.options.normalisation.scale[colour]), c.plan.type);
    ASSERT_LE(std::abs(found - expected), allowed) << "number " << i << ": " << found << " instead of " << expected;
    ASSERT_FALSE(std::isnan(found)) << "number " << i;
  }
}

class Draw {
public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <typename T> T of(std::initializer_list<T> choices) { return choices.begin()[random_() % choices.size()]; }
  bool coin() { return random_() % 2 != 0; }
  double between(double low, double high) { return low + (high - low) * (random_() / 4294967295.0); }

private:
  std::mt19937 random_;
};

Case drawCase(const char *format, unsigned seed) {
  Draw draw(seed);
  Case c;
  const auto side = [&] { return draw.of({1, 2, 3, 4, 5, 7, 16, 17, 18, 33, 64, 65, 101, 150}); };
  const auto tensor_side = [&] { return draw.of({1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 50}); };
  c.caps = {format, side(), side()};
  c.caps.matrix = draw.of({GST_VIDEO_COLOR_MATRIX_BT601, GST_VIDEO_COLOR_MATRIX_BT709, GST_VIDEO_COLOR_MATRIX_BT2020});
  c.caps.full_range = draw.coin();
  c.caps.chroma_left = draw.coin();
  c.caps.chroma_top = draw.coin();
  c.padding = draw.of({0, 1, 3, 27, 64});
  c.plan = {tensor_side(), tensor_side(), draw.of({TensorLayout::Nchw, TensorLayout::Nhwc}),
            draw.of({TensorType::Float32, TensorType::Float16, TensorType::UInt8, TensorType::Int8}),
            draw.of({1, 3, 3})};
  c.options.resize =
      draw.of({ResizeMode::Stretch, ResizeMode::Letterbox, ResizeMode::LetterboxTopLeft, ResizeMode::Crop});
  c.options.scaling = draw.of({Scaling::Bilinear, Scaling::Area});
  Normalisation &norm = c.options.normalisation;
  norm.bgr = draw.coin();
  norm.padding = draw.of({0.0f, 114.0f, 255.0f});
  switch (c.plan.type) {
  case TensorType::UInt8:
    if (draw.coin()) norm.mean = {-40, 10, 60}, norm.scale = {1.5f, 0.9f, 1.0f};
    break;
  case TensorType::Int8: norm.mean = {128, 130, 100}, norm.scale = {1, 1.2f, -0.5f}; break;
  default: norm.mean = {123.7f, 116.3f, 103.5f}, norm.scale = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f}; break;
  }
  if (draw.coin()) {
    const double w = c.caps.width, h = c.caps.height;
    c.region = Region{draw.between(-0.5 * w, w), draw.between(-0.5 * h, h), draw.between(0.3, 1.5 * w),
                      draw.between(0.3, 1.5 * h)};
  }
  c.against = draw.of({GuardedMemory::Against::Front, GuardedMemory::Against::Back});
  return c;
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
