// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolox.h"

#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

// Cells of 96x64: 12x8 + 6x4 + 3x2 = 126.
const InputPlan kInput = picture(96, 64);

void setRow(std::vector<float> &numbers, size_t size, size_t row, std::initializer_list<float> values) {
  std::copy(values.begin(), values.end(), numbers.begin() + static_cast<std::ptrdiff_t>(row * size));
}

TEST(YoloX, CellsOfEachGrid) {
  const float log2 = std::log(2.0f);
  TestOutputs t;
  auto &numbers = t.add("output", {1, 126, 7});
  setRow(numbers, 7, 0, {0.5f, 0.25f, 0, log2, 1, 0.5f, 0});              // stride 8, cell (0, 0)
  setRow(numbers, 7, 95, {0.5f, 0.5f, log2, 0, 0.75f, 0, 0.8f});          // stride 8, cell (11, 7), the last
  setRow(numbers, 7, 96 + 6 * 2 + 4, {-1, 2, 0, 0, 0.9f, 0.5f, 0.9f});    // stride 16, cell (4, 2)
  setRow(numbers, 7, 96 + 24 + 3 + 1, {0, 0, log2, log2, 0.7f, 1, 0.1f}); // stride 32, cell (1, 1)
  auto decoder = decoderFor(DecoderKind::Auto, kInput, t, {.classes = 2});
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "yolox");
  EXPECT_EQ(decoder->classes(), 2);
  const auto found = detect(*decoder, t, {.threshold = 0.3f});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_NEAR(found[0].score, 0.81, 1e-6);
  EXPECT_EQ(found[0].label, 1);
  expectBox(found[0], kInput, (4 - 1) * 16 - 8, (2 + 2) * 16 - 8, (4 - 1) * 16 + 8, (2 + 2) * 16 + 8);
  EXPECT_NEAR(found[1].score, 0.7, 1e-6);
  EXPECT_EQ(found[1].label, 0);
  expectBox(found[1], kInput, 32 - 32, 32 - 32, 32 + 32, 32 + 32);
  EXPECT_NEAR(found[2].score, 0.6, 1e-6);
  expectBox(found[2], kInput, 11.5 * 8 - 8, 7.5 * 8 - 4, 11.5 * 8 + 8, 7.5 * 8 + 4);
  EXPECT_NEAR(found[3].score, 0.5, 1e-6);
  expectBox(found[3], kInput, 4 - 4, 2 - 8, 4 + 4, 2 + 8);
}

TEST(YoloX, NumbersThatAreNoneAndSizesThatOverflow) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  TestOutputs t;
  auto &numbers = t.add("output", {1, 126, 7});
  setRow(numbers, 7, 0, {0, 0, 1000, 0, 1, 1, 0});  // exp: infinite
  setRow(numbers, 7, 1, {0, 0, -1000, 0, 1, 1, 0}); // exp: 0
  setRow(numbers, 7, 2, {nan, 0, 0, 0, 1, 1, 0});
  setRow(numbers, 7, 3, {0, 0, 0, 0, nan, 1, 0});
  setRow(numbers, 7, 4, {0, 0, 0, 0, 1, nan, nan});
  setRow(numbers, 7, 5, {0, 0, 0, 0, 1, nan, 0.75f});
  auto decoder = decoderFor(DecoderKind::YoloX, kInput, t);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 1);
}

TEST(YoloX, AnOpenNumberOfRowsIsChecked) {
  auto made = makeDecoder({.kind = DecoderKind::YoloX}, kInput, {tensorInfo("output", {1, -1, 7})});
  ASSERT_TRUE(made.ok()) << made.error().message();
  TestOutputs fits, other;
  fits.add("output", {1, 126, 7});
  other.add("output", {1, 125, 7}, 1);
  EXPECT_TRUE(detect(**made, fits).empty());
  auto findings = (*made)->decode(other.outputs(), {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("[1,125,7]"), std::string::npos) << findings.error().message();
  EXPECT_NE(findings.error().message().find("126 rows"), std::string::npos) << findings.error().message();
}

TEST(YoloX, Defaults) {
  TestOutputs t;
  t.add("output", {1, 126, 85});
  const auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
  ASSERT_NE(decoder, nullptr);
  const FamilyDefaults &defaults = decoder->defaults();
  EXPECT_EQ(defaults.preprocess.resize, ResizeMode::LetterboxTopLeft);
  EXPECT_TRUE(defaults.preprocess.normalisation.bgr);
  EXPECT_FLOAT_EQ(defaults.preprocess.normalisation.scale[0], 1);
  EXPECT_FLOAT_EQ(defaults.preprocess.normalisation.padding, 114);
}

} // namespace
