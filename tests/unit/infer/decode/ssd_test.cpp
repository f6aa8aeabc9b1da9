// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ssd.h"

#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

const InputPlan kInput = picture(300, 300);
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expectPrior(const std::vector<Prior> &priors, size_t i, double cx, double cy, double width, double height) {
  SCOPED_TRACE(i);
  ASSERT_LT(i, priors.size());
  EXPECT_NEAR(priors[i].cx, cx, 1e-6);
  EXPECT_NEAR(priors[i].cy, cy, 1e-6);
  EXPECT_NEAR(priors[i].width, width, 1e-6);
  EXPECT_NEAR(priors[i].height, height, 1e-6);
}

const double kRoot2 = std::sqrt(2.0), kRoot3 = std::sqrt(3.0);

TEST(Priors, MobileNet) {
  const auto priors = mobileNetPriors(kInput);
  ASSERT_EQ(priors.size(), 1917u);
  expectPrior(priors, 0, 0.5 / 19, 0.5 / 19, 0.2, 0.2);
  expectPrior(priors, 1, 0.5 / 19, 0.5 / 19, 0.2 * kRoot2, 0.2 / kRoot2);
  expectPrior(priors, 2, 0.5 / 19, 0.5 / 19, 0.2 / kRoot2, 0.2 * kRoot2);
  expectPrior(priors, 3, 1.5 / 19, 0.5 / 19, 0.2, 0.2);
  expectPrior(priors, 3 * 19, 0.5 / 19, 1.5 / 19, 0.2, 0.2);
  expectPrior(priors, 1083, 0.05, 0.05, 0.35, 0.35);
  expectPrior(priors, 1084, 0.05, 0.05, std::sqrt(105.0 * 150) / 300, std::sqrt(105.0 * 150) / 300);
  expectPrior(priors, 1087, 0.05, 0.05, 0.35 * kRoot3, 0.35 / kRoot3);
  expectPrior(priors, 1916, 0.5, 0.5, 0.95 / kRoot3, 0.95 * kRoot3);
  EXPECT_TRUE(mobileNetPriors(picture(320, 320)).empty());
}

TEST(Priors, Vgg) {
  const auto priors = vggPriors(kInput);
  ASSERT_EQ(priors.size(), 8732u);
  expectPrior(priors, 0, 4 / 300.0, 4 / 300.0, 0.1, 0.1);
  expectPrior(priors, 1, 4 / 300.0, 4 / 300.0, std::sqrt(1800.0) / 300, std::sqrt(1800.0) / 300);
  expectPrior(priors, 2, 4 / 300.0, 4 / 300.0, 0.1 * kRoot2, 0.1 / kRoot2);
  expectPrior(priors, 4 * 37, 1, 4 / 300.0, 0.1, 0.1);
  expectPrior(priors, 5776, 8 / 300.0, 8 / 300.0, 0.2, 0.2);
  expectPrior(priors, 8731, 0.5, 0.5, 0.88 / kRoot2, 0.88 * kRoot2);
  EXPECT_TRUE(vggPriors(picture(512, 512)).empty());
}

TEST(Priors, TensorFlow) {
  const auto priors = tensorFlowPriors(kInput);
  ASSERT_EQ(priors.size(), 1917u);
  expectPrior(priors, 0, 0.5 / 19, 0.5 / 19, 0.1, 0.1);
  expectPrior(priors, 1, 0.5 / 19, 0.5 / 19, 0.2 * kRoot2, 0.2 / kRoot2);
  expectPrior(priors, 2, 0.5 / 19, 0.5 / 19, 0.2 / kRoot2, 0.2 * kRoot2);
  expectPrior(priors, 1083, 0.05, 0.05, 0.35, 0.35);
  expectPrior(priors, 1087, 0.05, 0.05, 0.35 * std::sqrt(0.3333), 0.35 / std::sqrt(0.3333));
  expectPrior(priors, 1088, 0.05, 0.05, std::sqrt(0.35 * 0.5), std::sqrt(0.35 * 0.5));
  expectPrior(priors, 1916, 0.5, 0.5, std::sqrt(0.95), std::sqrt(0.95));
  EXPECT_EQ(tensorFlowPriors(picture(320, 320)).size(), 2034u);
  EXPECT_TRUE(tensorFlowPriors(picture(320, 300)).empty());
  EXPECT_TRUE(tensorFlowPriors(picture(0, 0)).empty());
}

TEST(Priors, UltraFace) {
  const auto priors = ultraFacePriors(picture(320, 240));
  ASSERT_EQ(priors.size(), 4420u);
  expectPrior(priors, 0, 4 / 320.0, 4 / 240.0, 10 / 320.0, 10 / 240.0);
  expectPrior(priors, 3, 12 / 320.0, 4 / 240.0, 10 / 320.0, 10 / 240.0);
  expectPrior(priors, 3600, 8 / 320.0, 8 / 240.0, 32 / 320.0, 32 / 240.0);
  expectPrior(priors, 4419, 0.9, 224 / 240.0, 0.8, 1); // 256 of 240 pixels, clipped
  EXPECT_EQ(ultraFacePriors(picture(640, 480)).size(), 17640u);
}

// The first prior of the cell in the middle.
constexpr size_t kRow = 3 * (19 * 9 + 9); // centre (0.5, 0.5), 0.2x0.2

struct Ssd {
  TestOutputs outputs;
  std::vector<float> &boxes, &scores;
  explicit Ssd(size_t rows, int64_t classes, float background, const char *box_name = "loc",
               const char *score_name = "conf")
      : boxes(outputs.add(box_name, {1, static_cast<int64_t>(rows), 4})),
        scores(outputs.add(score_name, {1, static_cast<int64_t>(rows), classes})) {
    for (size_t row = 0; row < rows; ++row) scores[row * static_cast<size_t>(classes)] = background;
  }
  void set(size_t row, const std::vector<float> &box, const std::vector<float> &score) {
    std::copy(box.begin(), box.end(), boxes.begin() + static_cast<std::ptrdiff_t>(row * 4));
    std::copy(score.begin(), score.end(), scores.begin() + static_cast<std::ptrdiff_t>(row * score.size()));
  }
};

TEST(Ssd, ProbabilitiesAndVariances) {
  const float log2 = std::log(2.0f);
  Ssd ssd(1917, 3, 1);
  ssd.set(kRow, {0, 0, 0, 0}, {0.25f, 0.125f, 0.625f});
  // centre 0.5 + 0.1 * 5 * 0.2, width 0.2 * exp(0.2 * 5 log 2), height half
  ssd.set(kRow + 3, {5, -5, 5 * log2, -5 * log2}, {0, 1, 0});
  ssd.set(100, {0, 0, kNan, 0}, {0, 1, 0});
  ssd.set(200, {0, 0, 1000, 0}, {0, 1, 0});
  ssd.set(300, {0, 0, 0, 0}, {0, kNan, kNan});
  ssd.set(400, {0, 0, 0, 0}, {0.875f, 0.125f, 0});
  auto decoder = decoderFor(DecoderKind::Auto, kInput, ssd.outputs);
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "ssd");
  EXPECT_EQ(decoder->classes(), 2);
  const auto found = detect(*decoder, ssd.outputs);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].score, 1);
  EXPECT_EQ(found[0].label, 0);
  const double cx = 10.5 / 19 + 0.1;
  expectBox(found[0], kInput, (cx - 0.2) * 300, (0.4 - 0.05) * 300, (cx + 0.2) * 300, (0.4 + 0.05) * 300);
  EXPECT_FLOAT_EQ(found[1].score, 0.625f);
  EXPECT_EQ(found[1].label, 1);
  expectBox(found[1], kInput, 120, 120, 180, 180);
}

TEST(Ssd, LogitsAreSoftmaxed) {
  Ssd ssd(1917, 3, 8);
  ssd.set(kRow, {0, 0, 0, 0}, {1, 3, 2});
  ssd.set(0, {0, 0, 0, 0}, {3.5f, 3, 3});
  auto decoder = decoderFor(DecoderKind::Auto, kInput, ssd.outputs);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, ssd.outputs, {.threshold = 0.25f});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].score, std::exp(3.0) / (std::exp(1.0) + std::exp(3.0) + std::exp(2.0)), 1e-6);
  EXPECT_NEAR(found[1].score, std::exp(3.0) / (std::exp(3.5) + 2 * std::exp(3.0)), 1e-6);
}

TEST(Ssd, TensorFlowHasRowsFirstAndSigmoids) {
  const float log2 = std::log(2.0f);
  const std::vector<float> box = {5, -5, 5 * log2, 0}; // y, x, height, width
  // by the names, by the input's layout; the finest layer's first box is 0.1 wide there
  for (const bool names : {true, false}) {
    const InputPlan input = picture(300, 300, names ? TensorLayout::Nchw : TensorLayout::Nhwc);
    Ssd ssd(1917, 3, -4, names ? "raw_outputs/box_encodings" : "Identity",
            names ? "raw_outputs/class_predictions" : "Identity_1");
    for (float &score : ssd.scores) score = -4;
    ssd.set(kRow, box, {-4, 1, 2});
    auto decoder = decoderFor(DecoderKind::Auto, input, ssd.outputs);
    ASSERT_NE(decoder, nullptr);
    EXPECT_STREQ(decoder->name(), "ssd");
    const auto found = detect(*decoder, ssd.outputs);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NEAR(found[0].score, 1 / (1 + std::exp(-2.0)), 1e-6);
    EXPECT_EQ(found[0].label, 1);
    // centre y 0.5 + 0.1 * 5 * 0.1, x 0.5 - 0.05; 0.1 wide, 0.2 high
    expectBox(found[0], kInput, 120, 135, 150, 195);
  }
}

TEST(Ssd, LabelsThatBeginWithTheBackground) {
  Ssd ssd(8732, 21, 1);
  std::vector<float> score(21, 0);
  score[15] = 1;
  ssd.set(0, {0, 0, 0, 0}, score);
  for (const int known : {0, 20, 21}) {
    auto decoder = decoderFor(DecoderKind::Auto, kInput, ssd.outputs, {.classes = known});
    ASSERT_NE(decoder, nullptr);
    EXPECT_EQ(decoder->classes(), known == 21 ? 21 : 20);
    const auto found = detect(*decoder, ssd.outputs);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].label, known == 21 ? 15 : 14);
    expectBox(found[0], kInput, 4 - 15, 4 - 15, 4 + 15, 4 + 15);
  }
}

TEST(Ssd, PriorBoxesOfTheModel) {
  TestOutputs t; // as Caffe's layers give them, flat
  auto &priors = t.add("mbox_priorbox", {1, 2, 12});
  auto &scores = t.add("mbox_conf", {1, 6});
  auto &boxes = t.add("mbox_loc", {1, 12});
  priors = {0, 0, 0.5f, 0.25f, /**/ 0.25f, 0.5f, 0.75f, 1, /**/ 0, 0, 1, 1,
            // variances
            0.1f, 0.1f, 0.2f, 0.2f, /**/ 0.5f, 0.25f, 1, 1, /**/ 0.1f, 0.1f, 0.2f, 0.2f};
  scores = {0.25f, 0.75f, 0.125f, 0.875f, 1, 0};
  boxes[4] = 1, boxes[5] = -1, boxes[6] = std::log(2.0f);
  auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "ssd");
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 2u);
  // centre (0.5 + 0.5 * 1 * 0.5, 0.75 - 0.25 * 0.5), 1 wide, 0.5 high
  expectBox(found[0], kInput, 75, 112.5, 375, 262.5);
  expectBox(found[1], kInput, 0, 0, 150, 75);
}

TEST(Ssd, CentrePriorsOfTheModel) {
  for (const bool batched : {true, false}) {
    TestOutputs t;
    auto &boxes = t.add("loc", {1, 3, 4});
    auto &scores = t.add("conf", {1, 3, 2});
    auto &priors = t.add("priors", batched ? std::vector<int64_t>{1, 3, 4} : std::vector<int64_t>{3, 4});
    priors = {0.5f, 0.25f, 0.5f, 0.125f, 0.5f, 0.5f, 1, 1, 0.5f, 0.5f, 1, 1};
    boxes[0] = 2;
    scores = {0.25f, 0.75f, 1, 0, 1, 0};
    auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
    ASSERT_NE(decoder, nullptr);
    EXPECT_STREQ(decoder->name(), "ssd");
    const auto found = detect(*decoder, t);
    ASSERT_EQ(found.size(), 1u);
    expectBox(found[0], kInput, (0.6 - 0.25) * 300, (0.25 - 0.0625) * 300, (0.6 + 0.25) * 300, (0.25 + 0.0625) * 300);
  }
}

TEST(Ssd, RawFacesOnlyByName) {
  const InputPlan input = picture(320, 240);
  Ssd ssd(4420, 2, 1, "boxes", "scores");
  ssd.set(4419, {0, 0, 0, 0}, {0, 1});
  auto decoder = decoderFor(DecoderKind::Ssd, input, ssd.outputs);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, ssd.outputs);
  ASSERT_EQ(found.size(), 1u);
  expectBox(found[0], input, (0.9 - 0.4) * 320, 224 - 120, (0.9 + 0.4) * 320, 224 + 120);
  EXPECT_STREQ(decoderFor(DecoderKind::Auto, input, ssd.outputs)->name(), "ultraface");
}

TEST(Ssd, SameShapesAreToldApartByNames) {
  Ssd ssd(1917, 4, 1);
  EXPECT_NE(SsdDecoder::match({}, kInput, ssd.outputs.infos), nullptr);
  std::vector<TensorInfo> infos = ssd.outputs.infos;
  std::swap(infos[0], infos[1]);
  EXPECT_NE(SsdDecoder::match({}, kInput, infos), nullptr);
  infos[0].name = "a", infos[1].name = "b";
  EXPECT_EQ(SsdDecoder::match({.kind = DecoderKind::Ssd}, kInput, infos), nullptr);
}

TEST(Ssd, AnotherNumberOfPriorsIsAnErrorThatNamesThose) {
  Ssd ssd(1916, 21, 1);
  auto made = makeDecoder({.kind = DecoderKind::Ssd}, kInput, ssd.outputs.infos);
  ASSERT_FALSE(made.ok());
  const std::string text = made.error().message();
  EXPECT_NE(text.find("decoder=ssd does not fit"), std::string::npos) << text;
  EXPECT_NE(text.find("[1,1916,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("1917"), std::string::npos) << text;
  EXPECT_NE(text.find("decoder=none"), std::string::npos) << text;
}

} // namespace
