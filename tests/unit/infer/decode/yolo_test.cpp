// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolo.h"

#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// Cells of 64x32: 8x4 + 4x2 + 2x1 = 42.
const InputPlan kSmall = picture(64, 32);
constexpr int64_t kCells = 42;

// Number `n` of row `row` in a tensor of `size` numbers a row, however it lies.
struct Head {
  std::vector<float> &numbers;
  size_t rows, size;
  bool columns;
  void set(size_t row, std::initializer_list<float> values) {
    size_t n = 0;
    for (const float v : values) numbers[columns ? n * rows + row : row * size + n] = v, ++n;
  }
};

TEST(YoloV8, BoxesFromBothLayouts) {
  for (const bool columns : {true, false}) {
    for (const TensorType type : {TensorType::Float32, TensorType::Float16}) {
      SCOPED_TRACE(std::string(columns ? "columns " : "rows ") + tensorTypeName(type));
      TestOutputs t;
      auto dims = columns ? std::vector<int64_t>{1, 7, kCells} : std::vector<int64_t>{1, kCells, 7};
      Head head{t.add("output0", dims, 0, type), kCells, 7, columns};
      head.set(3, {20, 10, 8, 4, 0.125f, 0.75f, 0.25f});
      head.set(41, {0, 0, 16, 16, 0.5f, 0, 0.5f}); // the first of the best classes; leaves the picture
      head.set(20, {50, 16, 8, 8, 0.25f, 0.125f, 0.25f});
      auto decoder = decoderFor(DecoderKind::YoloV8, kSmall, t);
      ASSERT_NE(decoder, nullptr);
      EXPECT_EQ(decoder->classes(), 3);
      const auto found = detect(*decoder, t, {.threshold = 0.375f});
      ASSERT_EQ(found.size(), 2u);
      EXPECT_FLOAT_EQ(found[0].score, 0.75f);
      EXPECT_EQ(found[0].label, 1);
      expectBox(found[0], kSmall, 16, 8, 24, 12);
      EXPECT_FLOAT_EQ(found[1].score, 0.5f);
      EXPECT_EQ(found[1].label, 0);
      expectBox(found[1], kSmall, -8, -8, 8, 8);
    }
  }
}

TEST(YoloV8, ThresholdIsIncludedAndNumbersThatAreNoneAreNot) {
  TestOutputs t;
  Head head{t.add("output0", {1, 6, kCells}), kCells, 6, true};
  head.set(0, {8, 8, 4, 4, 0.5f, 0});
  head.set(1, {24, 8, 4, 4, 0, std::nextafter(0.5f, 0.0f)});
  head.set(2, {40, 8, 4, 4, kNan, 0.6f}); // the other class counts
  head.set(3, {56, 8, 4, 4, kNan, kNan});
  head.set(4, {8, 24, 4, 4, kInf, 0});
  head.set(5, {kNan, 24, 4, 4, 0.9f, 0});
  head.set(6, {24, 24, kInf, 4, 0.9f, 0});
  head.set(7, {40, 24, 0, 4, 0.9f, 0});
  head.set(8, {40, 24, 4, -4, 0.9f, 0});
  auto decoder = decoderFor(DecoderKind::YoloV8, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, t, {.threshold = 0.5f});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].score, 0.6f);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_FLOAT_EQ(found[1].score, 0.5f);
}

TEST(YoloV8, SuppressionIsPerClass) {
  TestOutputs t;
  Head head{t.add("output0", {1, 6, kCells}), kCells, 6, true};
  head.set(0, {16, 16, 8, 8, 0.9f, 0});
  head.set(1, {17, 16, 8, 8, 0.8f, 0});
  head.set(2, {16, 16, 8, 8, 0, 0.7f});
  auto decoder = decoderFor(DecoderKind::YoloV8, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(detect(*decoder, t).size(), 2u);
  EXPECT_EQ(detect(*decoder, t, {.iou_threshold = 0.99f}).size(), 3u);
  EXPECT_EQ(detect(*decoder, t, {.max_detections = 1}).size(), 1u);
}

TEST(YoloV8, MoreRowsThanABlockAndAllClasses) {
  const InputPlan input = picture(640, 640);
  TestOutputs t;
  auto &numbers = t.add("output0", {1, 84, 8400});
  // one object in each corner of the blocks that are scanned, each of another class
  const size_t rows[] = {0, 1023, 1024, 2047, 2048, 8191, 8192, 8399};
  int label = 0;
  for (const size_t row : rows) {
    numbers[0 * 8400 + row] = 40.0f + 70.0f * static_cast<float>(label);
    numbers[1 * 8400 + row] = 100;
    numbers[2 * 8400 + row] = numbers[3 * 8400 + row] = 20;
    numbers[static_cast<size_t>(4 + 11 * label) * 8400 + row] = 0.9f - 0.05f * static_cast<float>(label);
    ++label;
  }
  auto decoder = decoderFor(DecoderKind::Auto, input, t);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, t, {.threshold = 0.25f});
  ASSERT_EQ(found.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(found[i].label, 11 * i);
    expectBox(found[i], input, 30 + 70 * i, 90, 50 + 70 * i, 110);
  }
}

TEST(YoloV8, Poses) {
  for (const int values : {2, 3}) {
    TestOutputs t;
    const int64_t size = 4 + 1 + 2 * values;
    Head head{t.add("output0", {1, size, kCells}), kCells, static_cast<size_t>(size), true};
    if (values == 3) {
      head.set(9, {16, 16, 8, 8, 0.75f, 12, 20, 0.25f, 70, -4, 1.5f});
      head.set(10, {48, 16, 8, 8, 0.5f, 12, 20, 0.25f, kNan, 4, 1});   // a point without a place
      head.set(11, {48, 8, 8, 8, 0.5f, 12, 20, kNan, 16, 4, -0.125f}); // points without a score
    } else {
      head.set(9, {16, 16, 8, 8, 0.75f, 12, 20, 70, -4});
    }
    for (const int wished : {0, values}) {
      auto decoder =
          decoderFor(DecoderKind::YoloV8, kSmall, t, {.classes = 1, .keypoints = 2, .keypoint_values = wished});
      ASSERT_NE(decoder, nullptr);
      EXPECT_EQ(decoder->classes(), 1);
      const auto found = detect(*decoder, t);
      ASSERT_EQ(found.size(), values == 3 ? 2u : 1u);
      ASSERT_EQ(found[0].keypoints.size(), 2u);
      EXPECT_NEAR(found[0].keypoints[0].x * 64, 12, 1e-4);
      EXPECT_NEAR(found[0].keypoints[0].y * 32, 20, 1e-4);
      EXPECT_FLOAT_EQ(found[0].keypoints[0].score, values == 3 ? 0.25f : 1.0f);
      EXPECT_NEAR(found[0].keypoints[1].x * 64, 70, 1e-4);
      EXPECT_NEAR(found[0].keypoints[1].y * 32, -4, 1e-4);
      EXPECT_FLOAT_EQ(found[0].keypoints[1].score, 1);
      if (values == 3) {
        EXPECT_FLOAT_EQ(found[1].keypoints[0].score, 0);
        EXPECT_FLOAT_EQ(found[1].keypoints[1].score, 0);
      }
    }
  }
}

// Two prototypes of 16x8 cells, 4x4 pixels each: the left half of the picture, the top half.
void addPrototypes(TestOutputs &t, TensorType type = TensorType::Float32) {
  auto &numbers = t.add("output1", {1, 2, 8, 16}, 0, type);
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 16; ++x) {
      numbers[y * 16 + x] = x < 8 ? 1.0f : -1.0f;
      numbers[128 + y * 16 + x] = y < 4 ? 1.0f : -1.0f;
    }
}

void expectHalf(const Detection &object, bool left) {
  ASSERT_TRUE(object.mask.has_value());
  const BoxMask &mask = *object.mask;
  ASSERT_EQ(mask.values.size(), static_cast<size_t>(mask.width * mask.height));
  ASSERT_GT(mask.width, 2);
  ASSERT_GT(mask.height, 2);
  EXPECT_EQ(mask.values.front(), 255);
  EXPECT_EQ(mask.values.back(), 0);
  EXPECT_EQ(mask.values[static_cast<size_t>(mask.width - 1)], left ? 0 : 255);                 // right top
  EXPECT_EQ(mask.values[static_cast<size_t>((mask.height - 1) * mask.width)], left ? 255 : 0); // left bottom
}

TEST(YoloV8, InstanceMasks) {
  for (const TensorType type : {TensorType::Float32, TensorType::Float16}) {
    TestOutputs t;
    Head head{t.add("output0", {1, 4 + 2 + 2, kCells}), kCells, 8, true};
    head.set(5, {32, 16, 32, 24, 0.75f, 0, 1, 0});
    head.set(6, {32, 16, 32, 24, 0, 0.5f, 0, 1});
    addPrototypes(t, type);
    auto decoder = decoderFor(DecoderKind::Auto, kSmall, t);
    ASSERT_NE(decoder, nullptr);
    EXPECT_EQ(decoder->classes(), 2);
    const auto found = detect(*decoder, t);
    ASSERT_EQ(found.size(), 2u);
    expectHalf(found[0], true);
    expectHalf(found[1], false);
  }
}

TEST(YoloV5, ScoreIsTheProductOfBoth) {
  TestOutputs t;
  Head head{t.add("output0", {1, 3 * kCells, 8}), 3 * kCells, 8, false};
  head.set(0, {16, 16, 8, 8, 0.5f, 0.25f, 0.75f, 0});
  head.set(77, {40, 16, 8, 4, 1.0f, 0.25f, 0.125f, 0.5f});
  head.set(125, {50, 16, 8, 4, 0.25f, 1, 1, 1});
  head.set(60, {20, 6, 8, 4, kNan, 1, 1, 1});
  head.set(61, {20, 6, 8, 4, 1, kNan, 0, kNan});
  auto decoder = decoderFor(DecoderKind::Auto, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "yolov5");
  EXPECT_EQ(decoder->classes(), 3);
  const auto found = detect(*decoder, t, {.threshold = 0.3125f});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].score, 0.5f);
  EXPECT_EQ(found[0].label, 2);
  expectBox(found[0], kSmall, 36, 14, 44, 18);
  EXPECT_FLOAT_EQ(found[1].score, 0.375f);
  EXPECT_EQ(found[1].label, 1);
}

TEST(YoloV5, MasksAndMapsOfTheSingleGrids) {
  TestOutputs t;
  Head head{t.add("output0", {1, 3 * kCells, 5 + 2 + 2}), 3 * kCells, 9, false};
  head.set(5, {32, 16, 32, 24, 1, 0.75f, 0, 1, 0});
  addPrototypes(t);
  t.add("361", {1, 3, 4, 8, 7});
  auto decoder = decoderFor(DecoderKind::Auto, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(decoder->classes(), 2);
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 1u);
  expectHalf(found[0], true);
}

TEST(YoloV10, CornersWithoutSuppression) {
  TestOutputs t;
  Head head{t.add("output0", {1, 300, 6}), 300, 6, false};
  head.set(0, {10, 4, 30, 20, 0.75f, 2});
  head.set(1, {10, 4, 30, 20, 0.5f, 2});     // the model has suppressed: both are meant
  head.set(2, {-4, -2, 70, 34, 0.625f, 79}); // out of order
  head.set(3, {30, 4, 10, 20, 0.9f, 1});
  head.set(4, {10, 4, 30, 20, 0.9f, -1});
  head.set(5, {10, 4, 30, 20, 0.9f, kNan});
  head.set(6, {10, kNan, 30, 20, 0.9f, 1});
  head.set(7, {10, 4, 30, 20, 0.25f, 1});
  auto decoder = decoderFor(DecoderKind::Auto, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "yolov10");
  EXPECT_EQ(decoder->classes(), 0);
  const auto found = detect(*decoder, t);
  ASSERT_EQ(found.size(), 3u);
  expectBox(found[0], kSmall, 10, 4, 30, 20);
  EXPECT_EQ(found[0].label, 2);
  EXPECT_EQ(found[1].label, 79);
  expectBox(found[1], kSmall, -4, -2, 70, 34);
  EXPECT_FLOAT_EQ(found[2].score, 0.5f);
  EXPECT_EQ(detect(*decoder, t, {.max_detections = 2}).size(), 2u);
}

TEST(YoloV10, PosesAndMasks) {
  TestOutputs poses;
  Head pose{poses.add("output0", {1, 20, 6 + 6}), 20, 12, false};
  pose.set(0, {10, 4, 30, 20, 0.75f, 0, 16, 8, 0.5f, 32, 16, 1});
  auto decoder = decoderFor(DecoderKind::Auto, kSmall, poses, {.classes = 1, .keypoints = 2});
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "yolov10");
  auto found = detect(*decoder, poses);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].keypoints.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].keypoints[0].x, 0.25f);
  EXPECT_FLOAT_EQ(found[0].keypoints[0].score, 0.5f);

  TestOutputs masks;
  Head mask{masks.add("output0", {1, 20, 6 + 2}), 20, 8, false};
  mask.set(0, {16, 4, 48, 28, 0.75f, 0, 0, 1});
  addPrototypes(masks);
  decoder = decoderFor(DecoderKind::Auto, kSmall, masks, {.classes = 5});
  ASSERT_NE(decoder, nullptr);
  EXPECT_STREQ(decoder->name(), "yolov10");
  found = detect(*decoder, masks);
  ASSERT_EQ(found.size(), 1u);
  expectHalf(found[0], false);
}

TEST(Yolo, OpenRowsAreCountedWhenTheyCome) {
  TestOutputs t;
  Head head{t.add("output0", {1, 6, kCells}), kCells, 6, true};
  head.set(40, {16, 16, 8, 8, 0.9f, 0});
  auto made = makeDecoder({.kind = DecoderKind::YoloV8}, kSmall, {tensorInfo("output0", {-1, 6, -1})});
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(detect(**made, t).size(), 1u);
  TestOutputs empty;
  empty.add("output0", {1, 6, 0});
  EXPECT_TRUE(detect(**made, empty).empty());
}

TEST(Yolo, OtherShapesThanDeclaredAreErrors) {
  TestOutputs t;
  t.add("output0", {1, 8, kCells});
  addPrototypes(t);
  auto decoder = decoderFor(DecoderKind::YoloV8, kSmall, t);
  ASSERT_NE(decoder, nullptr);
  Outputs outputs = t.outputs();
  outputs.tensors[1].dims = {1, 1, 8, 16};
  auto findings = decoder->decode(outputs, {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("output1 (float32 [1,2,8,16])"), std::string::npos);
  outputs.tensors.pop_back();
  EXPECT_FALSE(decoder->decode(outputs, {}).ok());
  outputs = t.outputs();
  outputs.tensors[0].dims = {1, 8, kCells - 1};
  EXPECT_FALSE(decoder->decode(outputs, {}).ok());
}

TEST(Yolo, Defaults) {
  TestOutputs t;
  t.add("output0", {1, 6, kCells});
  const FamilyDefaults floats = decoderFor(DecoderKind::YoloV8, kSmall, t)->defaults();
  EXPECT_EQ(floats.preprocess.resize, ResizeMode::Letterbox);
  EXPECT_FLOAT_EQ(floats.preprocess.normalisation.padding, 114);
  EXPECT_FLOAT_EQ(floats.preprocess.normalisation.scale[2], 1 / 255.0f);
  EXPECT_FALSE(floats.preprocess.normalisation.bgr);
  EXPECT_TRUE(floats.labels.empty());
}

} // namespace
