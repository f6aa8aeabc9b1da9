// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/segmentation.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr DecoderWishes kNamed{.kind = DecoderKind::Segmentation};
using enum TensorType;

InputPlan input(int width, int height, TensorLayout layout = TensorLayout::Nchw) { return {width, height, layout}; }

TensorInfo info(std::vector<int64_t> dims, TensorType type = Float32) { return {"out", type, std::move(dims), {}}; }

template <typename T> Outputs outputs(std::vector<T> &values, TensorType type, std::vector<int64_t> dims) {
  Outputs o;
  o.tensors = {{type, std::move(dims), values.data(), values.size() * sizeof(T), MemorySpace::Host}};
  return o;
}

// The map of a tensor of that shape; empty where it is not understood.
template <typename T>
std::vector<int> decode(std::vector<T> values, TensorType type, std::vector<int64_t> dims, float threshold = 0.5f) {
  auto decoder = SegmentationDecoder::match(kNamed, input(4, 2), {info(dims, type)});
  if (decoder == nullptr) return {};
  auto findings = decoder->decode(outputs(values, type, dims), {.threshold = threshold});
  if (!findings.ok() || !findings->segmentation) return {};
  EXPECT_EQ(findings->segmentation->width, 4);
  EXPECT_EQ(findings->segmentation->height, 2);
  return {findings->segmentation->classes.begin(), findings->segmentation->classes.end()};
}

TEST(SegmentationMatch, Shapes) {
  const InputPlan plan = input(512, 256);
  struct {
    TensorInfo output;
    bool named, automatic;
    int classes;
  } const rows[] = {
      {info({1, 21, 256, 512}), true, true, 21},
      {info({-1, 21, 256, 512}), true, true, 21},
      {info({1, 21, 256, 512}, Float16), true, true, 21},
      {info({1, 256, 512, 21}), true, true, 21}, // channels last behind a planar input
      {info({1, 19, 64, 128}), true, true, 19},  // a quarter
      {info({1, 19, 32, 64}), true, true, 19},   // an eighth
      {info({1, 19, 33, 65}), true, true, 19},   // the same, rounded up with one more
      {info({1, 85, 16, 32}), true, false, 85},  // a detector's grid
      {info({1, 19, 64, 64}), true, false, 19},  // another shape than the input
      {info({1, 19, -1, -1}), true, true, 19},
      {info({1, 3, 256, 512}), true, false, 3}, // a picture?
      {info({1, 2, 256, 512}), true, true, 2},
      {info({1, 255, 256, 512}), true, true, 255},
      {info({1, 256, 256, 512}), false, false, 0}, // more than a byte and "no class" hold
      {info({1, 256, 512}, Int64), true, true, 0},
      {info({1, 1, 256, 512}, Int32), true, true, 0},
      {info({1, 256, 512, 1}, UInt8), true, true, 0},
      {info({1, 256, 512}, Float32), true, false, 0}, // a depth?
      {info({1, 1, 256, 512}, Float16), true, false, 0},
      {info({1, 8400, 84}, Float32), true, false, 0},
      {info({1, 100, 4}, Int64), true, false, 0},
      {info({1, 21, 256, 512}, Int64), false, false, 0},
      {info({1, 21, 256, 512}, Int8), false, false, 0},
      {info({2, 21, 256, 512}), false, false, 0},
      {info({1, 21, 1, 1}), false, false, 0},
      {info({1, 21}), false, false, 0},
      {info({256, 512}, Int64), false, false, 0},
      {info({}, Int64), false, false, 0},
      {info({1, -1, 256, 512}), false, false, 0},
  };
  for (const auto &row : rows) {
    const auto named = SegmentationDecoder::match(kNamed, plan, {row.output});
    EXPECT_EQ(named != nullptr, row.named) << row.output.describe();
    if (named != nullptr) {
      EXPECT_EQ(named->classes(), row.classes) << row.output.describe();
    }
    EXPECT_EQ(SegmentationDecoder::match({}, plan, {row.output}) != nullptr, row.automatic) << row.output.describe();
  }
  EXPECT_EQ(SegmentationDecoder::match(kNamed, plan, {}), nullptr);
}

TEST(SegmentationMatch, LabelsTellAPictureFromClasses) {
  const InputPlan plan = input(64, 64);
  EXPECT_NE(SegmentationDecoder::match({.classes = 3}, plan, {info({1, 3, 64, 64})}), nullptr);
  EXPECT_EQ(SegmentationDecoder::match({.classes = 80}, plan, {info({1, 21, 64, 64})}), nullptr);
}

TEST(SegmentationMatch, FurtherOutputs) {
  const InputPlan plan = input(64, 64);
  const TensorInfo out = info({1, 21, 64, 64});
  EXPECT_NE(SegmentationDecoder::match({}, plan, {out, out}), nullptr);
  EXPECT_EQ(SegmentationDecoder::match({}, plan, {out, info({1, 2, 64, 64})}), nullptr); // centres and offsets, say
  EXPECT_NE(SegmentationDecoder::match(kNamed, plan, {out, info({1, 2, 64, 64})}), nullptr);
}

TEST(SegmentationMatch, TheFactoryChoosesItForDeepLab) {
  auto decoder = makeDecoder({}, input(257, 257, TensorLayout::Nhwc), {info({1, 257, 257, 21})});
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  EXPECT_STREQ((*decoder)->name(), "segmentation");
  EXPECT_EQ((*decoder)->classes(), 21);
  const PreprocessOptions &options = (*decoder)->defaults().preprocess;
  EXPECT_EQ(options.resize, ResizeMode::Stretch);
  EXPECT_FLOAT_EQ(options.normalisation.mean[1], 127.5f);
  EXPECT_FLOAT_EQ(options.normalisation.scale[2], 1 / 127.5f);
}

TEST(Segmentation, PlanesAndPixelsGiveTheSame) {
  const std::vector<int> expected = {0, 1, 2, 0, 2, 2, 1, 0};
  std::vector<float> planes(3 * 8, -1.0f), pixels(8 * 3, -1.0f);
  for (size_t i = 0; i < 8; ++i) {
    planes[static_cast<size_t>(expected[i]) * 8 + i] = 0.5f;
    pixels[i * 3 + static_cast<size_t>(expected[i])] = 0.5f;
  }
  EXPECT_EQ(decode(planes, Float32, {1, 3, 2, 4}), expected);
  EXPECT_EQ(decode(pixels, Float32, {1, 2, 4, 3}), expected);
  std::vector<uint16_t> half_planes, half_pixels;
  for (const float v : planes) half_planes.push_back(v > 0 ? 0x3800 : 0xbc00);
  for (const float v : pixels) half_pixels.push_back(v > 0 ? 0x3800 : 0xbc00);
  EXPECT_EQ(decode(half_planes, Float16, {1, 3, 2, 4}), expected);
  EXPECT_EQ(decode(half_pixels, Float16, {1, 2, 4, 3}), expected);
}

TEST(Segmentation, TheFirstOfEqualsAndWhatIsNotANumber) {
  // class 0 and 1 of eight places
  EXPECT_EQ(decode<float>({1, 1, kNan, kNan, -kInf, kInf, 0, -3e38f, //
                           1, 2, 0, kNan, -kInf, 5, kNan, 3e38f},
                          Float32, {1, 2, 2, 4}),
            (std::vector<int>{0, 1, 1, 255, 255, 0, 0, 1}));
}

TEST(Segmentation, LargeMapsAgainstALoop) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> score(-4, 4);
  const int width = 61, height = 37, classes = 255; // more places than are looked at together, and not a multiple
  const size_t places = static_cast<size_t>(width) * height;
  std::vector<float> planes(places * classes), pixels(places * classes);
  std::vector<uint8_t> expected(places);
  for (size_t i = 0; i < places; ++i) {
    float best = -100;
    for (size_t c = 0; c < classes; ++c) {
      const float v = score(random);
      planes[c * places + i] = pixels[i * classes + c] = v;
      if (v <= best) continue;
      best = v;
      expected[i] = static_cast<uint8_t>(c);
    }
  }
  for (const bool last : {false, true}) {
    const std::vector<int64_t> dims =
        last ? std::vector<int64_t>{1, height, width, classes} : std::vector<int64_t>{1, classes, height, width};
    auto decoder = SegmentationDecoder::match({}, input(width, height), {info(dims)});
    ASSERT_NE(decoder, nullptr);
    auto found = decoder->decode(outputs(last ? pixels : planes, Float32, dims), {});
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->segmentation->classes, expected);
  }
}

TEST(Segmentation, MapsOfClasses) {
  const std::vector<int> expected = {0, 1, 20, 254, 255, 255, 255, 3};
  EXPECT_EQ(decode<int64_t>({0, 1, 20, 254, 255, -1, int64_t{1} << 40, 3}, Int64, {1, 2, 4}), expected);
  EXPECT_EQ(decode<int32_t>({0, 1, 20, 254, 256, -1000, 1 << 30, 3}, Int32, {1, 1, 2, 4}), expected);
  EXPECT_EQ(decode<uint8_t>({0, 1, 20, 254, 255, 255, 255, 3}, UInt8, {1, 2, 4, 1}), expected);
  EXPECT_EQ(decode<float>({0, 1, 20, 254, 255, -1, 1e30f, 3}, Float32, {1, 2, 4}), expected);
  EXPECT_EQ(decode<float>({0, 1, 20, 254, kNan, kInf, -kInf, 3}, Float32, {1, 2, 4}), expected);
}

TEST(Segmentation, OneScoreForEachPlace) {
  // logits
  EXPECT_EQ(decode<float>({-5, -0.1f, 0, 0.1f, 5, 1e30f, -1e30f, kNan}, Float32, {1, 1, 2, 4}),
            (std::vector<int>{0, 0, 1, 1, 1, 1, 0, 255}));
  // probabilities
  EXPECT_EQ(decode<float>({0, 0.25f, 0.49f, 0.5f, 0.75f, 1, 0.1f, 0.9f}, Float32, {1, 2, 4, 1}),
            (std::vector<int>{0, 0, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(decode<float>({0, 0.25f, 0.49f, 0.5f, 0.75f, 1, 0.1f, 0.9f}, Float32, {1, 2, 4, 1}, 0.8f),
            (std::vector<int>{0, 0, 0, 0, 0, 1, 0, 1}));
  // sigmoid(1) = 0.731, sigmoid(1.5) = 0.818
  EXPECT_EQ(decode<float>({-1, 0, 1, 1.5f, 2, 0, 0, 0}, Float32, {1, 1, 2, 4}, 0.8f),
            (std::vector<int>{0, 0, 0, 1, 1, 0, 0, 0}));
}

TEST(Segmentation, OpenSizesComeWithTheTensor) {
  auto decoder = SegmentationDecoder::match({}, input(4, 2), {info({-1, 2, -1, -1})});
  ASSERT_NE(decoder, nullptr);
  std::vector<float> values = {0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1};
  auto found = decoder->decode(outputs(values, Float32, {1, 2, 2, 3}), {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->segmentation->width, 3);
  EXPECT_EQ(found->segmentation->height, 2);
  EXPECT_EQ(found->segmentation->classes, (std::vector<uint8_t>{1, 0, 1, 1, 1, 1}));
}

TEST(Segmentation, AnotherTensorThanDeclaredIsAnError) {
  auto decoder = SegmentationDecoder::match(kNamed, input(4, 2), {info({1, 3, -1, -1})});
  ASSERT_NE(decoder, nullptr);
  std::vector<float> values(3 * 2 * 4);
  const Outputs good = outputs(values, Float32, {1, 3, 2, 4});
  EXPECT_TRUE(decoder->decode(good, {}).ok());
  const auto changed = [&](auto &&change) {
    Outputs o = good;
    change(o.tensors[0]);
    return decoder->decode(o, {}).ok();
  };
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 2, 2, 4}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {2, 3, 2, 2}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 3, 8}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 3, 0, 4}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 3, -2, -4}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 3, int64_t{1} << 33, int64_t{1} << 33}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.bytes -= 4; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.data = nullptr; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.type = Float16; }));
  EXPECT_FALSE(decoder->decode({}, {}).ok());
}

} // namespace
