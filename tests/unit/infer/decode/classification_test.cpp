// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/classification.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr InputPlan kInput{224, 224, TensorLayout::Nchw, TensorType::Float32};
constexpr DecoderWishes kNamed{.kind = DecoderKind::Classification};

TensorInfo info(std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {"logits", type, std::move(dims), {}};
}

template <typename T> Outputs outputs(std::vector<T> &values, TensorType type, std::vector<int64_t> dims = {}) {
  if (dims.empty()) dims = {1, static_cast<int64_t>(values.size())};
  Outputs o;
  o.tensors = {{type, std::move(dims), values.data(), values.size() * sizeof(T), MemorySpace::Host}};
  return o;
}

std::vector<Classification> classify(std::vector<float> values, const DecodeOptions &options = {.threshold = 0.1f}) {
  auto decoder = ClassificationDecoder::match(kNamed, kInput, {info({1, static_cast<int64_t>(values.size())})});
  if (decoder == nullptr) return {{-1, -1}};
  auto findings = decoder->decode(outputs(values, TensorType::Float32), options);
  EXPECT_TRUE(findings.ok());
  return findings.ok() ? findings->classifications : std::vector<Classification>{};
}

TEST(ClassificationMatch, Shapes) {
  struct {
    std::vector<TensorInfo> outputs;
    bool named, automatic;
    int classes;
  } const rows[] = {
      {{info({1, 1000})}, true, true, 1000},
      {{info({-1, 1000})}, true, true, 1000},
      {{info({1, 1000, 1, 1})}, true, true, 1000},
      {{info({1, 1, 1, 1000})}, true, true, 1000},
      {{info({1, 2}, TensorType::Float16)}, true, true, 2},
      {{info({1, 1001}, TensorType::UInt8)}, true, true, 1001},
      {{info({1, -1})}, true, false, 0},
      {{info({-1, 7})}, true, false, 7}, // boxes of an export with suppression
      {{info({-1, 8})}, true, true, 8},
      {{info({1, 1})}, false, false, 0},
      {{info({1, int64_t{1} << 40})}, false, false, 0},
      {{info({1, 1000}, TensorType::Int64)}, false, false, 0},
      {{info({8, 1000})}, false, false, 0},
      {{info({1000})}, false, false, 0},
      {{info({1, 10, 100})}, false, false, 0},
      {{info({1, 10, 7, 7})}, false, false, 0},
      {{info({1, 1000}), info({1, 1000})}, false, false, 0},
      {{}, false, false, 0},
  };
  for (const auto &row : rows) {
    const std::string shape = row.outputs.empty() ? "none" : row.outputs[0].describe();
    const auto named = ClassificationDecoder::match(kNamed, kInput, row.outputs);
    EXPECT_EQ(named != nullptr, row.named) << shape;
    if (named != nullptr) {
      EXPECT_EQ(named->classes(), row.classes) << shape;
    }
    EXPECT_EQ(ClassificationDecoder::match({}, kInput, row.outputs) != nullptr, row.automatic) << shape;
  }
}

TEST(ClassificationMatch, LabelsHaveToBeAsManyUnlessNamed) {
  const std::vector<TensorInfo> outputs = {info({1, 1000})};
  EXPECT_NE(ClassificationDecoder::match({.classes = 1000}, kInput, outputs), nullptr);
  EXPECT_EQ(ClassificationDecoder::match({.classes = 80}, kInput, outputs), nullptr);
  EXPECT_NE(ClassificationDecoder::match({.kind = DecoderKind::Classification, .classes = 80}, kInput, outputs),
            nullptr);
  EXPECT_NE(ClassificationDecoder::match({.classes = 7}, kInput, {info({-1, 7})}), nullptr);
}

TEST(ClassificationMatch, FixedBatches) {
  InputPlan four = kInput;
  four.batch = 4;
  EXPECT_NE(ClassificationDecoder::match({}, four, {info({4, 1000})}), nullptr);
  EXPECT_EQ(ClassificationDecoder::match({}, four, {info({3, 1000})}), nullptr);
}

TEST(ClassificationMatch, TheFactoryChoosesIt) {
  auto decoder = makeDecoder({}, kInput, {info({1, 1000})});
  ASSERT_TRUE(decoder.ok());
  EXPECT_STREQ((*decoder)->name(), "classification");
  auto wrong = makeDecoder(kNamed, kInput, {info({1, 4420, 2})});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("classification"), std::string::npos);
}

TEST(ClassificationDefaults, ByTheInputsKind) {
  struct {
    TensorLayout layout;
    TensorType type;
    int channels;
    float black, white; // of red
  } const rows[] = {
      {TensorLayout::Nchw, TensorType::Float32, 3, -0.485f / 0.229f, (1 - 0.485f) / 0.229f},
      {TensorLayout::Nchw, TensorType::Float16, 3, -0.485f / 0.229f, (1 - 0.485f) / 0.229f},
      {TensorLayout::Nhwc, TensorType::Float32, 3, -1, 1},
      {TensorLayout::Nchw, TensorType::Float32, 1, 0, 1},
  };
  for (const auto &row : rows) {
    const InputPlan plan{224, 224, row.layout, row.type, row.channels};
    auto decoder = ClassificationDecoder::match({}, plan, {info({1, 10})});
    ASSERT_NE(decoder, nullptr);
    const PreprocessOptions &options = decoder->defaults().preprocess;
    EXPECT_EQ(options.resize, ResizeMode::Crop);
    EXPECT_FALSE(options.normalisation.bgr);
    EXPECT_NEAR((0 - options.normalisation.mean[0]) * options.normalisation.scale[0], row.black, 1e-5);
    EXPECT_NEAR((255 - options.normalisation.mean[0]) * options.normalisation.scale[0], row.white, 1e-5);
  }
}

TEST(Classification, ProbabilitiesStayAsTheyAre) {
  const auto found = classify({0.1f, 0.05f, 0.6f, 0.05f, 0.2f});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].label, 2);
  EXPECT_FLOAT_EQ(found[0].score, 0.6f);
  EXPECT_EQ(found[1].label, 4);
  EXPECT_EQ(found[2].label, 0);
  EXPECT_FLOAT_EQ(found[2].score, 0.1f); // exactly the threshold
}

TEST(Classification, LogitsBecomeProbabilities) {
  // e^0, e^1, e^2 over their sum 11.1073
  const auto found = classify({0, 2, 1}, {.threshold = 0});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_NEAR(found[0].score, 0.665241, 1e-6);
  EXPECT_NEAR(found[1].score, 0.244728, 1e-6);
  EXPECT_NEAR(found[2].score, 0.090031, 1e-6);
}

TEST(Classification, SumDecidesWhichTheyAre) {
  EXPECT_FLOAT_EQ(classify({0.3f, 0.695f})[0].score, 0.695f); // rounding of a softmax
  EXPECT_NEAR(classify({0.5f, 0.9f})[0].score, 1 / (1 + std::exp(-0.4)), 1e-6);
  EXPECT_NEAR(classify({-0.5f, 1.5f})[0].score, 1 / (1 + std::exp(-2.0)), 1e-6); // sum 1, but not in 0..1
  EXPECT_FLOAT_EQ(classify({0, 1})[0].score, 1);
}

TEST(Classification, ManyThatAreAllProbabilitiesAreSeveralClassesOfAPicture) {
  std::vector<float> scores(16, 0.01f);
  scores[3] = 0.9f, scores[7] = 0.8f;
  const auto found = classify(scores);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].score, 0.9f);
  EXPECT_FLOAT_EQ(found[1].score, 0.8f);
  scores.pop_back(); // few may be logits
  EXPECT_LT(classify(scores)[0].score, 0.2f);
  scores.assign(1000, 0.5f);
  scores[999] = 9; // no probability: logits
  EXPECT_NEAR(classify(scores)[0].score, 1 / (1 + 999 * std::exp(-8.5)), 1e-6);
}

TEST(Classification, HugeLogitsDoNotOverflow) {
  const auto found = classify({3e38f, -3e38f, 1000});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_FLOAT_EQ(found[0].score, 1);
  EXPECT_NEAR(classify({-1000, -1001})[0].score, 1 / (1 + std::exp(-1.0)), 1e-6);
}

TEST(Classification, WhatIsNotFiniteIsLeftOut) {
  const auto found = classify({kNan, 0.25f, kInf, 0.75f, -kInf});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].label, 3);
  EXPECT_FLOAT_EQ(found[0].score, 0.75f);
  const auto logits = classify({5, kNan, 5}, {.threshold = 0});
  ASSERT_EQ(logits.size(), 2u);
  EXPECT_FLOAT_EQ(logits[0].score, 0.5f);
  EXPECT_TRUE(classify({kNan, kInf}, {.threshold = 0}).empty());
}

TEST(Classification, TheBestOnesOnly) {
  std::vector<float> equal(200, 0.005f);
  const auto found = classify(equal, {.threshold = 0, .max_detections = 3});
  ASSERT_EQ(found.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found[i].label, i); // equal scores in the order of the classes
  EXPECT_TRUE(classify(equal, {.threshold = 0, .max_detections = 0}).empty());
  EXPECT_TRUE(classify(equal, {.threshold = 0, .max_detections = -5}).empty());
}

TEST(Classification, HalfAndBytes) {
  auto half = ClassificationDecoder::match({}, kInput, {info({1, 3, 1, 1}, TensorType::Float16)});
  ASSERT_NE(half, nullptr);
  std::vector<uint16_t> numbers = {0x3400, 0x3800, 0x3400}; // 0.25, 0.5, 0.25
  auto found = half->decode(outputs(numbers, TensorType::Float16, {1, 3, 1, 1}), {.threshold = 0.3f});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->classifications.size(), 1u);
  EXPECT_EQ(found->classifications[0].label, 1);
  EXPECT_FLOAT_EQ(found->classifications[0].score, 0.5f);

  auto bytes = ClassificationDecoder::match({}, kInput, {info({1, 3}, TensorType::UInt8)});
  ASSERT_NE(bytes, nullptr);
  std::vector<uint8_t> scores = {51, 255, 0};
  found = bytes->decode(outputs(scores, TensorType::UInt8), {.threshold = 0.1f});
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->classifications.size(), 2u);
  EXPECT_FLOAT_EQ(found->classifications[0].score, 1);
  EXPECT_FLOAT_EQ(found->classifications[1].score, 0.2f);
}

TEST(Classification, OpenClassesComeWithTheTensor) {
  auto decoder = ClassificationDecoder::match(kNamed, kInput, {info({-1, -1})});
  ASSERT_NE(decoder, nullptr);
  std::vector<float> values = {0.25f, 0.75f};
  auto found = decoder->decode(outputs(values, TensorType::Float32), {.threshold = 0.5f});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->classifications.size(), 1u);
}

TEST(Classification, AnotherTensorThanDeclaredIsAnError) {
  auto decoder = ClassificationDecoder::match(kNamed, kInput, {info({-1, 4})});
  ASSERT_NE(decoder, nullptr);
  std::vector<float> values = {1, 2, 3, 4};
  const Outputs good = outputs(values, TensorType::Float32);
  EXPECT_TRUE(decoder->decode(good, {}).ok());
  const auto changed = [&](auto &&change) {
    Outputs o = good;
    change(o.tensors[0]);
    return decoder->decode(o, {}).ok();
  };
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 3}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {2, 4}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.dims = {1, 4, 1, 1}; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.type = TensorType::Float16; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.bytes = 15; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.data = nullptr; }));
  EXPECT_FALSE(changed([](TensorView &v) { v.space = MemorySpace::Device; }));
  EXPECT_FALSE(decoder->decode({}, {}).ok());
}

} // namespace
