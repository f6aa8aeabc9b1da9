// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/detr.h"

#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

const InputPlan kInput = picture(800, 600);
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void setRow(std::vector<float> &numbers, size_t row, const std::vector<float> &values) {
  std::copy(values.begin(), values.end(), numbers.begin() + static_cast<std::ptrdiff_t>(row * values.size()));
}

TEST(Detr, SoftmaxWithNoObject) {
  TestOutputs t;
  auto &logits = t.add("logits", {1, 100, 4});
  auto &boxes = t.add("pred_boxes", {1, 100, 4});
  for (size_t row = 0; row < 100; ++row) setRow(logits, row, {0, 0, 0, 10});
  setRow(logits, 5, {1, 3, 2, 0});
  setRow(boxes, 5, {0.5f, 0.5f, 0.25f, 0.5f});
  setRow(logits, 6, {1, 3.5f, 2, 0}); // better, the same place: the model means both
  setRow(boxes, 6, {0.5f, 0.5f, 0.25f, 0.5f});
  setRow(logits, 7, {2, 0, 0, 2.5f}); // "no object" is the best; 0.33 for class 0
  setRow(boxes, 7, {0.125f, 0.25f, 0.5f, 0.25f});
  setRow(logits, 8, {80, 0, kNan, 0});
  setRow(boxes, 8, {0.5f, 0.5f, 0.25f, 0.5f});
  setRow(logits, 9, {90, 0, 0, 0});
  setRow(boxes, 9, {0.5f, kNan, 0.25f, 0.5f});
  setRow(logits, 10, {90, 0, 0, 0});
  setRow(boxes, 10, {0.5f, 0.5f, 0, 0.5f});
  auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "detr");
  EXPECT_EQ(decoder->classes(), 3);
  const auto found = detect(*decoder, t, {.threshold = 0.3f});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NEAR(found[0].score, std::exp(3.5) / (std::exp(1.0) + std::exp(3.5) + std::exp(2.0) + 1), 1e-6);
  EXPECT_EQ(found[0].label, 1);
  expectBox(found[0], kInput, 300, 150, 500, 450);
  EXPECT_NEAR(found[1].score, std::exp(3.0) / (std::exp(1.0) + std::exp(3.0) + std::exp(2.0) + 1), 1e-6);
  const double third = std::exp(2.0) / (std::exp(2.0) + 2 + std::exp(2.5));
  EXPECT_NEAR(found[2].score, third, 1e-6);
  EXPECT_EQ(found[2].label, 0);
  expectBox(found[2], kInput, -100, 75, 300, 225);
  // to the edge: what is just above the threshold counts
  EXPECT_EQ(detect(*decoder, t, {.threshold = static_cast<float>(third - 1e-5)}).size(), 3u);
  EXPECT_EQ(detect(*decoder, t, {.threshold = static_cast<float>(third + 1e-5)}).size(), 2u);
}

TEST(Detr, SigmoidOfEachClass) {
  TestOutputs t;
  auto &boxes = t.add("pred_boxes", {1, 300, 4});
  auto &logits = t.add("logits", {1, 300, 3}, -20);
  setRow(logits, 0, {-1, 0.5f, 0.25f});
  setRow(boxes, 0, {0.5f, 0.5f, 1, 1});
  setRow(logits, 299, {-1, 0, 2});
  setRow(boxes, 299, {0.25f, 0.25f, 0.5f, 0.5f});
  setRow(logits, 100, {kNan, kNan, kNan});
  setRow(boxes, 100, {0.5f, 0.5f, 0.5f, 0.5f});
  auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->classes(), 3);
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(found[0].label, 2);
  expectBox(found[0], kInput, 0, 0, 400, 300);
  EXPECT_NEAR(found[1].score, 1 / (1 + std::exp(-0.5)), 1e-6);
  EXPECT_EQ(found[1].label, 1);
  // a threshold of 0 takes all rows but the one without scores and those without a box
  EXPECT_EQ(detect(*decoder, t, {.threshold = 0}).size(), 2u);
}

TEST(Detr, WhichKindOfScores) {
  const struct {
    const char *logits, *boxes;
    int64_t queries, scores;
    int wished;
    int classes; // 0: no match
    bool image_net;
  } rows[] = {
      {"logits", "pred_boxes", 100, 92, 0, 91, true},       // DETR, YOLOS
      {"pred_logits", "pred_boxes", 100, 92, 91, 91, true}, // with its labels
      {"logits", "pred_boxes", 300, 80, 0, 80, false},      // RT-DETR
      {"logits", "pred_boxes", 300, 80, 80, 80, false},
      {"logits", "pred_boxes", 100, 80, 80, 80, false}, // the labels say more than the number of queries
      {"logits", "pred_boxes", 300, 81, 80, 80, true},
      {"labels", "dets", 300, 91, 0, 91, true}, // RF-DETR
      {"labels", "dets", 100, 91, 0, 91, true}, // with masks: has no "no object" for all its 100 queries
      {"labels", "dets", 300, 4, 3, 3, true},   // of own classes
      {"logits", "pred_boxes", 300, 80, 20, 0, false},
      {"logits", "pred_boxes", 100, 1, 0, 0, false}, // nothing but "no object"
      {"logits", "pred_boxes", 300, 1, 0, 1, false},
      {"scores", "pred_boxes", 300, 80, 0, 0, false},
      {"logits", "pred_boxes", 100, 4, 0, 3, true}, // both tensors have the same shape
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(std::string(row.logits) + " " + std::to_string(row.scores) + " " + std::to_string(row.wished));
    const auto decoder = DetrDecoder::match(
        {.classes = row.wished}, kInput,
        {tensorInfo(row.logits, {1, row.queries, row.scores}), tensorInfo(row.boxes, {1, row.queries, 4})});
    ASSERT_EQ(decoder != nullptr, row.classes > 0);
    if (!decoder) continue;
    EXPECT_EQ(decoder->classes(), row.classes);
    const Normalisation &norm = decoder->defaults().preprocess.normalisation;
    EXPECT_NEAR(norm.mean[0], row.image_net ? 0.485 * 255 : 0, 1e-3);
    EXPECT_NEAR(norm.scale[2], row.image_net ? 1 / (0.225 * 255) : 1 / 255.0, 1e-7);
    EXPECT_EQ(decoder->defaults().preprocess.resize, ResizeMode::Stretch);
  }
}

TEST(Detr, BothInOneTensor) {
  TestOutputs t;
  auto &numbers = t.add("output0", {1, 300, 7});
  setRow(numbers, 17, {0.5f, 0.5f, 0.25f, 0.5f, 0.25f, 0.125f, 0.75f});
  setRow(numbers, 18, {0.5f, 0.5f, 0.25f, 0.5f, 0.25f, 0.125f, 0.375f});
  auto decoder = decoderFor(DecoderKind::Auto, kInput, t, {.classes = 3});
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "detr");
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found[0].score, 0.75f);
  EXPECT_EQ(found[0].label, 2);
  expectBox(found[0], kInput, 300, 150, 500, 450);
}

TEST(Detr, AsManyBoxesAsScores) {
  auto made = makeDecoder({}, kInput, {tensorInfo("logits", {-1, -1, 80}), tensorInfo("pred_boxes", {-1, -1, 4})});
  ASSERT_TRUE(made.ok()) << made.error().message();
  TestOutputs t;
  t.add("logits", {1, 30, 80});
  t.add("pred_boxes", {1, 29, 4});
  auto findings = (*made)->decode(t.outputs(), {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("pred_boxes"), std::string::npos) << findings.error().message();
}

} // namespace
