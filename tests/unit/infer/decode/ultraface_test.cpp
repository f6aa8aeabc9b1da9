// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ultraface.h"

#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

const InputPlan kInput = picture(320, 240);

TEST(UltraFace, BoxesAsTheyAre) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const TensorType type : {TensorType::Float32, TensorType::Float16}) {
    TestOutputs t;
    auto &scores = t.add("scores", {1, 4420, 2}, 0, type);
    auto &boxes = t.add("boxes", {1, 4420, 4}, 0, type);
    const auto face = [&](size_t row, float score, float l, float top, float r, float b) {
      scores[row * 2] = 1 - score;
      scores[row * 2 + 1] = score;
      const float corners[] = {l, top, r, b};
      std::copy_n(corners, 4, boxes.begin() + static_cast<std::ptrdiff_t>(row * 4));
    };
    face(0, 0.75f, 0.25f, 0.125f, 0.5f, 0.375f);
    face(4419, 0.875f, -0.125f, -0.25f, 0.125f, 0.25f); // leaves the picture
    face(9, 0.8125f, 0.25f, 0.125f, 0.53125f, 0.375f);  // better than the first, nearly the same
    face(10, 0.625f, 0.7f, 0.7f, 0.8f, 0.8f);           // below the threshold
    face(11, 0.99f, 0.8f, 0.7f, 0.7f, 0.8f);
    face(12, 0.99f, nan, 0.7f, 0.9f, 0.8f);
    face(13, nan, 0.7f, 0.7f, 0.9f, 0.8f);
    auto decoder = decoderFor(DecoderKind::Auto, kInput, t);
    ASSERT_NE(decoder, nullptr);
    EXPECT_STREQ(decoder->name(), "ultraface");
    EXPECT_EQ(decoder->classes(), 1);
    const FamilyDefaults &defaults = decoder->defaults();
    EXPECT_EQ(defaults.labels, std::vector<std::string>{"face"});
    EXPECT_FLOAT_EQ(defaults.preprocess.normalisation.mean[0], 127);
    EXPECT_FLOAT_EQ(defaults.preprocess.normalisation.scale[0], 1 / 128.0f);
    const auto found = detect(*decoder, t, {.threshold = defaults.threshold, .iou_threshold = defaults.iou_threshold});
    ASSERT_EQ(found.size(), 2u);
    expectBox(found[0], kInput, -40, -60, 40, 60);
    EXPECT_FLOAT_EQ(found[1].score, 0.8125f);
    EXPECT_EQ(found[1].label, 0);
    expectBox(found[1], kInput, 80, 30, 170, 90);
  }
}

TEST(UltraFace, MoreClassesByName) {
  TestOutputs t;
  auto &boxes = t.add("boxes", {1, 3000, 4}); // in the other order
  auto &scores = t.add("scores", {1, 3000, 5});
  scores[5 * 7] = 0.1f;
  scores[5 * 7 + 3] = 0.6f;
  scores[5 * 8] = 0.9f; // background
  boxes[4 * 7 + 2] = boxes[4 * 7 + 3] = boxes[4 * 8 + 2] = boxes[4 * 8 + 3] = 0.5f;
  const InputPlan input = picture(300, 300);
  auto decoder = decoderFor(DecoderKind::Auto, input, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->classes(), 4);
  EXPECT_TRUE(decoder->defaults().labels.empty());
  auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 2);
  // a labels file that begins with the background
  decoder = decoderFor(DecoderKind::Auto, input, t, {.classes = 5});
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->classes(), 5);
  found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].label, 3);
}

TEST(UltraFace, OpenRowsHaveToAgree) {
  auto made = makeDecoder({}, kInput, {tensorInfo("scores", {-1, -1, 2}), tensorInfo("boxes", {-1, -1, 4})});
  ASSERT_TRUE(made.ok()) << made.error().message();
  TestOutputs t;
  t.add("scores", {1, 20, 2});
  t.add("boxes", {1, 19, 4});
  auto findings = (*made)->decode(t.outputs(), {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("boxes (float32 [?,?,4])"), std::string::npos)
      << findings.error().message();
  EXPECT_NE(findings.error().message().find("20 rows"), std::string::npos) << findings.error().message();
}

} // namespace
