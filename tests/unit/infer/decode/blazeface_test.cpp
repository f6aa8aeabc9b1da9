// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/blazeface.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gst/infer/decode/nms.h"

using namespace gstzc::infer;

namespace {

constexpr InputPlan kFront{128, 128, TensorLayout::Nhwc, TensorType::Float32};

TensorInfo info(std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {"t" + std::to_string(dims.size() > 1 ? dims[1] : 0), type, std::move(dims)};
}

std::vector<TensorInfo> split() {
  return {info({1, 512, 1}), info({1, 384, 1}), info({1, 512, 16}), info({1, 384, 16})};
}

// The four outputs of the real model, all anchors without a face.
struct Tensors {
  std::vector<float> scores = std::vector<float>(896, -50.0f);
  std::vector<float> numbers = std::vector<float>(896 * 16, 0.0f);

  void face(int anchor, float raw, float dx, float dy, float w, float h) {
    scores[anchor] = raw;
    float *const n = &numbers[anchor * 16];
    n[0] = dx, n[1] = dy, n[2] = w, n[3] = h;
    for (int k = 0; k < 6; ++k) n[4 + 2 * k] = static_cast<float>(k), n[5 + 2 * k] = static_cast<float>(-k);
  }
  Outputs asSplit() {
    Outputs outputs;
    outputs.tensors = {view({1, 512, 1}, scores.data()), view({1, 384, 1}, scores.data() + 512),
                       view({1, 512, 16}, numbers.data()), view({1, 384, 16}, numbers.data() + 512 * 16)};
    return outputs;
  }
  Outputs asWhole() {
    Outputs outputs;
    outputs.tensors = {view({1, 896, 16}, numbers.data()), view({1, 896, 1}, scores.data())};
    return outputs;
  }
  static TensorView view(std::vector<int64_t> dims, float *data) {
    const size_t bytes = static_cast<size_t>(dims[1] * dims[2]) * sizeof(float);
    return {TensorType::Float32, std::move(dims), data, bytes, MemorySpace::Host};
  }
};

TEST(BlazeFace, MatchesByShapeInAnyOrder) {
  EXPECT_NE(BlazeFaceDecoder::match({}, kFront, split()), nullptr);
  EXPECT_NE(BlazeFaceDecoder::match({}, {256, 256, TensorLayout::Nchw, TensorType::Float32}, split()), nullptr);
  EXPECT_NE(BlazeFaceDecoder::match({}, {128, 128, TensorLayout::Nhwc, TensorType::Float16}, split()), nullptr);
  auto reversed = split();
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_NE(BlazeFaceDecoder::match({}, kFront, reversed), nullptr);
  EXPECT_NE(BlazeFaceDecoder::match({}, kFront, {info({-1, 896, 16}), info({-1, 896, 1})}), nullptr);
}

TEST(BlazeFace, DoesNotMatchOthers) {
  EXPECT_EQ(BlazeFaceDecoder::match({}, kFront, {}), nullptr);
  EXPECT_EQ(BlazeFaceDecoder::match({}, {128, 96, TensorLayout::Nhwc, TensorType::Float32}, split()), nullptr);
  EXPECT_EQ(BlazeFaceDecoder::match({}, kFront, {info({1, 4420, 2}), info({1, 4420, 4})}), nullptr);
  EXPECT_EQ(BlazeFaceDecoder::match({}, kFront, {info({1, 896, 1}, TensorType::Int64), info({1, 896, 16})}), nullptr);
  auto lacking = split();
  lacking.pop_back();
  EXPECT_EQ(BlazeFaceDecoder::match({}, kFront, lacking), nullptr);
}

TEST(BlazeFace, FactoryNamesTheShapes) {
  auto decoder = makeDecoder({.kind = DecoderKind::BlazeFace}, kFront, {info({1, 4420, 2}), info({1, 4420, 4})});
  ASSERT_FALSE(decoder.ok());
  const std::string text = decoder.error().message();
  EXPECT_NE(text.find("[1,4420,2]"), std::string::npos) << text;
  EXPECT_NE(text.find("128x128"), std::string::npos) << text;
  EXPECT_NE(text.find("[1,896,16]"), std::string::npos) << text;
  auto fits = makeDecoder({.kind = DecoderKind::BlazeFace}, kFront, split());
  ASSERT_TRUE(fits.ok());
  EXPECT_STREQ((*fits)->name(), "blazeface");
  EXPECT_EQ((*fits)->defaults().labels, std::vector<std::string>{"face"});
}

TEST(BlazeFace, Anchors) {
  struct {
    int index;
    float x, y; // pixels of 128
  } const rows[] = {{0, 4, 4},   {1, 4, 4},   {2, 12, 4},   {31, 124, 4}, {32, 4, 12},    {511, 124, 124},
                    {512, 8, 8}, {517, 8, 8}, {518, 24, 8}, {560, 8, 24}, {895, 120, 120}};
  for (const auto &row : rows) {
    const Point at = BlazeFaceDecoder::anchor(row.index);
    EXPECT_FLOAT_EQ(at.x * 128, row.x) << row.index;
    EXPECT_FLOAT_EQ(at.y * 128, row.y) << row.index;
  }
}

TEST(BlazeFace, OneFaceOfEachGrid) {
  Tensors tensors;
  tensors.face(2 * (16 * 3 + 5), 2.0f, 1, -2, 20, 24);          // column 5, row 3: anchor (44, 28)
  tensors.face(512 + 6 * (8 * 6 + 6) + 4, 1.0f, -4, 4, 32, 16); // column 6, row 6: anchor (104, 104)
  for (const bool whole : {false, true}) {
    const auto infos = whole ? std::vector{info({1, 896, 16}), info({1, 896, 1})} : split();
    auto decoder = BlazeFaceDecoder::match({}, kFront, infos);
    ASSERT_NE(decoder, nullptr);
    auto faces = decoder->decode(whole ? tensors.asWhole() : tensors.asSplit(), {});
    ASSERT_TRUE(faces.ok()) << faces.error().message();
    ASSERT_EQ(faces->detections.size(), 2u);
    const Detection &a = faces->detections[0], &b = faces->detections[1];
    EXPECT_NEAR(a.score, 1 / (1 + std::exp(-2.0)), 1e-6);
    EXPECT_NEAR(a.left * 128, 45 - 10, 1e-4);
    EXPECT_NEAR(a.right * 128, 45 + 10, 1e-4);
    EXPECT_NEAR(a.top * 128, 26 - 12, 1e-4);
    EXPECT_NEAR(a.bottom * 128, 26 + 12, 1e-4);
    ASSERT_EQ(a.keypoints.size(), 6u);
    EXPECT_NEAR(a.keypoints[5].x * 128, 44 + 5, 1e-4); // relative to the anchor, not to the box
    EXPECT_NEAR(a.keypoints[5].y * 128, 28 - 5, 1e-4);
    EXPECT_NEAR(b.score, 1 / (1 + std::exp(-1.0)), 1e-6);
    EXPECT_NEAR(b.left * 128, 100 - 16, 1e-4);
    EXPECT_NEAR(b.bottom * 128, 108 + 8, 1e-4);
  }
}

TEST(BlazeFace, BackModelHasPixelsOf256) {
  Tensors tensors;
  tensors.face(0, 2.0f, 8, 8, 16, 16);
  auto decoder = BlazeFaceDecoder::match({}, {256, 256, TensorLayout::Nhwc, TensorType::Float32}, split());
  auto faces = decoder->decode(tensors.asSplit(), {});
  ASSERT_TRUE(faces.ok());
  ASSERT_EQ(faces->detections.size(), 1u);
  EXPECT_NEAR(faces->detections[0].left * 256, 8, 1e-3);
  EXPECT_NEAR(faces->detections[0].right * 256, 24, 1e-3);
}

TEST(BlazeFace, ThresholdClippingAndNumbersThatAreNone) {
  auto decoder = BlazeFaceDecoder::match({}, kFront, split());
  Tensors tensors;
  tensors.face(0, 0.0f, 0, 0, 10, 10);     // exactly 0.5
  tensors.face(100, -0.01f, 0, 0, 10, 10); // just below
  tensors.face(200, 1e30f, 0, 0, 10, 10);  // clipped: exactly 1
  tensors.face(300, std::numeric_limits<float>::quiet_NaN(), 0, 0, 10, 10);
  tensors.face(400, 5.0f, 0, 0, std::numeric_limits<float>::infinity(), 10);
  tensors.face(440, 5.0f, 0, 0, -3, 10);
  auto faces = decoder->decode(tensors.asSplit(), {.threshold = 0.5f});
  ASSERT_TRUE(faces.ok());
  ASSERT_EQ(faces->detections.size(), 2u);
  EXPECT_FLOAT_EQ(faces->detections[0].score, 1.0f);
  EXPECT_FLOAT_EQ(faces->detections[1].score, 0.5f);
}

TEST(BlazeFace, PlacesThatNoFloatHoldsAreLeftOut) {
  auto decoder = BlazeFaceDecoder::match({}, kFront, split());
  Tensors tensors;
  for (int anchor = 0; anchor < 400; ++anchor) tensors.face(anchor, 9, 3e38f, 3e38f, 3e38f, 3e38f); // one for all
  tensors.face(500, 2, 0, 0, 10, 10);
  auto faces = decoder->decode(tensors.asSplit(), {});
  ASSERT_TRUE(faces.ok());
  ASSERT_EQ(faces->detections.size(), 1u);
  EXPECT_NEAR(faces->detections[0].score, 0.880797, 1e-6);
}

TEST(BlazeFace, OtherShapesThanDeclaredAreAnError) {
  auto decoder = BlazeFaceDecoder::match({}, kFront, split());
  Tensors tensors;
  Outputs outputs = tensors.asSplit();
  outputs.tensors[2].dims = {1, 511, 16};
  auto findings = decoder->decode(outputs, {});
  ASSERT_FALSE(findings.ok());
  const std::string text = findings.error().message();
  EXPECT_NE(text.find("[1,511,16]"), std::string::npos) << text;
  EXPECT_NE(text.find("t512 (float32 [1,512,16])"), std::string::npos) << text;
  outputs = tensors.asSplit();
  outputs.tensors[3].bytes -= 1;
  EXPECT_FALSE(decoder->decode(outputs, {}).ok());
  outputs = tensors.asSplit();
  outputs.tensors.pop_back();
  EXPECT_FALSE(decoder->decode(outputs, {}).ok());
}

Detection box(float score, float left, float top, float right, float bottom) {
  Detection d;
  d.score = score;
  d.left = left, d.top = top, d.right = right, d.bottom = bottom;
  d.keypoints = {{left, top}};
  return d;
}

TEST(Blend, AveragesByScore) {
  // IoU of the two: 9 / 11
  auto result = blendOverlapping({box(0.6f, 0.1f, 0, 1.1f, 1), box(0.9f, 0, 0, 1, 1), box(0.7f, 5, 5, 6, 6)}, 0.3f, 10);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_FLOAT_EQ(result[0].score, 0.9f);
  EXPECT_NEAR(result[0].left, 0.1 * 0.6 / 1.5, 1e-6);
  EXPECT_NEAR(result[0].right, (0.9 + 1.1 * 0.6) / 1.5, 1e-6);
  EXPECT_NEAR(result[0].keypoints[0].x, 0.1 * 0.6 / 1.5, 1e-6);
  EXPECT_FLOAT_EQ(result[1].score, 0.7f);
  EXPECT_FLOAT_EQ(result[1].left, 5);
}

TEST(Blend, OverlapIsMeasuredAgainstTheBestBoxOnly) {
  // b overlaps a, c overlaps b but not a
  auto result =
      blendOverlapping({box(0.9f, 0, 0, 10, 10), box(0.8f, 5, 0, 15, 10), box(0.7f, 10, 0, 20, 10)}, 0.3f, 10);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_FLOAT_EQ(result[1].left, 10);
}

TEST(Blend, BoundAndEmpty) {
  EXPECT_TRUE(blendOverlapping({}, 0.3f, 10).empty());
  auto result = blendOverlapping({box(0.5f, 0, 0, 1, 1), box(0.9f, 2, 2, 3, 3), box(0.7f, 4, 4, 5, 5)}, 0.3f, 2);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_FLOAT_EQ(result[0].score, 0.9f);
  EXPECT_FLOAT_EQ(result[1].score, 0.7f);
}

TEST(IntersectionOverUnion, Table) {
  EXPECT_FLOAT_EQ(intersectionOverUnion(box(1, 0, 0, 2, 2), box(1, 0, 0, 2, 2)), 1);
  EXPECT_FLOAT_EQ(intersectionOverUnion(box(1, 0, 0, 2, 2), box(1, 1, 1, 3, 3)), 1.0f / 7);
  EXPECT_FLOAT_EQ(intersectionOverUnion(box(1, 0, 0, 2, 2), box(1, 2, 0, 4, 2)), 0);
  EXPECT_FLOAT_EQ(intersectionOverUnion(box(1, 0, 0, 0, 0), box(1, 0, 0, 0, 0)), 0);
  EXPECT_FLOAT_EQ(intersectionOverUnion(box(1, -3e38f, -3e38f, 3e38f, 3e38f), box(1, -3e38f, 0, 3e38f, 3e38f)), 0.5f);
}

} // namespace
