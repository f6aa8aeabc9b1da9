// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ssd_postprocess.h"

#include <algorithm>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

const InputPlan kInput = picture(400, 200, TensorLayout::Nhwc, TensorType::UInt8);
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Names = std::array<const char *, 4>; // boxes, classes, scores, count
constexpr Names kTensorFlow = {"detection_boxes", "detection_classes", "detection_scores", "num_detections"};
constexpr Names kTensorFlowPorts = {"x/detection_boxes:0", "x/detection_classes:0", "x/detection_scores:0",
                                    "x/num_detections:0"};
constexpr Names kLite = {"TFLite_Detection_PostProcess", "TFLite_Detection_PostProcess:1",
                         "TFLite_Detection_PostProcess:2", "TFLite_Detection_PostProcess:3"};
constexpr Names kOther = {"a", "b", "c", "d"};

struct Detections {
  TestOutputs outputs;
  std::vector<float> &boxes, &classes, &scores, &count;
  explicit Detections(const Names &names, TensorType classes_type = TensorType::Float32, float valid = 5)
      : boxes(outputs.add(names[0], {1, 6, 4})), classes(outputs.add(names[1], {1, 6}, 0, classes_type)),
        scores(outputs.add(names[2], {1, 6})), count(outputs.add(names[3], {1}, valid)) {
    for (size_t i = 0; i < 6; ++i) {
      const float n = static_cast<float>(i);
      const float corners[] = {0.125f * n, 0.0625f * n, 0.125f * n + 0.25f, 0.0625f * n + 0.5f};
      std::copy_n(corners, 4, boxes.begin() + static_cast<std::ptrdiff_t>(4 * i));
      classes[i] = n;
      scores[i] = 0.9f - 0.0625f * n;
    }
  }
};

std::vector<int> labels(const std::vector<Detection> &found) {
  std::vector<int> result;
  for (const Detection &d : found) result.push_back(d.label);
  return result;
}

// Label 0 is the first object. TensorFlow counts its classes from 1, so its class 0 is none.
TEST(SsdPostprocess, ClassesOfEachNaming) {
  const struct {
    Names names;
    TensorType classes;
    std::vector<int> labels;
  } rows[] = {
      {kTensorFlow, TensorType::Float32, {0, 1, 2, 3}},
      {kTensorFlow, TensorType::Int64, {0, 1, 2, 3}},
      {kTensorFlowPorts, TensorType::Float32, {0, 1, 2, 3}},
      {kLite, TensorType::Float32, {0, 1, 2, 3, 4}},
      {kOther, TensorType::Int32, {0, 1, 2, 3, 4}},
      {{"boxes", "class_ids", "conf", "n"}, TensorType::Float32, {0, 1, 2, 3, 4}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.names[1]);
    Detections d(row.names, row.classes);
    auto decoder = decoderFor(DecoderKind::Auto, kInput, d.outputs);
    ASSERT_NE(decoder, nullptr);
    EXPECT_STREQ(decoder->name(), "ssd-postprocess");
    const auto found = detect(*decoder, d.outputs);
    EXPECT_EQ(labels(found), row.labels); // 5 are valid
    const double i = row.labels.size() == 4 ? 1 : 0;
    expectBox(found[0], kInput, 25 * i, 25 * i, 25 * i + 200, 25 * i + 50); // top comes before left
  }
}

TEST(SsdPostprocess, OutputsInAnyOrder) {
  for (const Names &names : {kTensorFlow, kLite}) {
    Detections d(names);
    Outputs outputs = d.outputs.outputs();
    std::vector<TensorInfo> infos = d.outputs.infos;
    std::reverse(infos.begin(), infos.end());
    std::reverse(outputs.tensors.begin(), outputs.tensors.end());
    auto made = makeDecoder({}, kInput, infos);
    ASSERT_TRUE(made.ok()) << made.error().message();
    auto findings = (*made)->decode(outputs, {.threshold = 0.8f});
    ASSERT_TRUE(findings.ok()) << findings.error().message();
    ASSERT_FALSE(findings->detections.empty());
    EXPECT_NEAR(findings->detections[0].score, names == kLite ? 0.9f : 0.8375f, 1e-6);
  }
}

TEST(SsdPostprocess, RawOnesAreOthers) {
  Detections d(kTensorFlow);
  std::vector<TensorInfo> infos = d.outputs.infos;
  infos.insert(infos.begin(),
               {tensorInfo("raw_detection_boxes", {1, 6, 4}), tensorInfo("raw_detection_scores", {1, 6})});
  Outputs outputs = d.outputs.outputs();
  outputs.tensors.insert(outputs.tensors.begin(), 2, {}); // reading them would be an error
  auto made = makeDecoder({}, kInput, infos);
  ASSERT_TRUE(made.ok()) << made.error().message();
  auto findings = (*made)->decode(outputs, {});
  ASSERT_TRUE(findings.ok()) << findings.error().message();
  EXPECT_EQ(findings->detections.size(), 4u);
}

TEST(SsdPostprocess, CountThresholdAndLimit) {
  Detections d(kLite);
  auto decoder = decoderFor(DecoderKind::SsdPostprocess, kInput, d.outputs);
  ASSERT_NE(decoder, nullptr);
  const struct {
    float count;
    size_t found;
  } rows[] = {{6, 6}, {1000, 6}, {1e30f, 6}, {2, 2}, {2.9f, 2}, {0, 0}, {-1, 0}, {kNan, 0}};
  for (const auto &row : rows) {
    d.count[0] = row.count;
    EXPECT_EQ(detect(*decoder, d.outputs).size(), row.found) << row.count;
  }
  d.count[0] = 6;
  EXPECT_EQ(detect(*decoder, d.outputs, {.threshold = 0.8f}).size(), 2u);
  EXPECT_EQ(detect(*decoder, d.outputs, {.max_detections = 3}).size(), 3u);
}

TEST(SsdPostprocess, NumbersThatAreNone) {
  Detections d(kLite, TensorType::Float32, 6);
  d.classes[0] = kNan;
  d.classes[1] = -1;
  d.scores[2] = kNan;
  d.boxes[4 * 3] = kNan;
  d.boxes[4 * 4 + 2] = d.boxes[4 * 4];
  auto decoder = decoderFor(DecoderKind::SsdPostprocess, kInput, d.outputs);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(labels(detect(*decoder, d.outputs)), std::vector<int>{5});
}

TEST(SsdPostprocess, OpenSizesHaveToAgree) {
  Detections d(kTensorFlow);
  std::vector<TensorInfo> open = {tensorInfo(kTensorFlow[0], {-1, -1, 4}), tensorInfo(kTensorFlow[1], {-1, -1}),
                                  tensorInfo(kTensorFlow[2], {-1, -1}), tensorInfo(kTensorFlow[3], {-1})};
  auto made = makeDecoder({}, kInput, open);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(detect(**made, d.outputs).size(), 4u);
  Outputs outputs = d.outputs.outputs();
  outputs.tensors[2].dims = {1, 5};
  auto findings = (*made)->decode(outputs, {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("detection_scores"), std::string::npos) << findings.error().message();
  outputs = d.outputs.outputs();
  outputs.tensors[3].dims = {0};
  EXPECT_FALSE((*made)->decode(outputs, {}).ok());
}

TEST(SsdPostprocess, WithoutACountAllAreMeant) {
  Detections d(kTensorFlow);
  d.outputs.infos.pop_back();
  auto made = makeDecoder({}, kInput, d.outputs.infos);
  ASSERT_TRUE(made.ok()) << made.error().message();
  d.outputs.infos.push_back(tensorInfo(kTensorFlow[3], {1}));
  EXPECT_EQ(detect(**made, d.outputs).size(), 5u); // class 0 is none
}

TEST(SsdPostprocess, DoesNotMatchOthers) {
  const auto fits = [](const std::vector<TensorInfo> &outputs) {
    return SsdPostprocessDecoder::match({}, kInput, outputs) != nullptr;
  };
  const TensorInfo boxes = tensorInfo("a", {1, 10, 4}), classes = tensorInfo("b", {1, 10}, TensorType::Int64),
                   scores = tensorInfo("c", {1, 10}), count = tensorInfo("d", {1});
  EXPECT_TRUE(fits({boxes, classes, scores, count}));
  EXPECT_TRUE(fits({scores, tensorInfo("d", {1, 1}, TensorType::Int32), classes, boxes}));
  EXPECT_FALSE(fits({boxes, classes, scores})); // corners in another order are common without a count
  EXPECT_FALSE(fits({boxes, tensorInfo("b", {1, 10}), scores, count})); // which of the two are scores?
  EXPECT_FALSE(fits({boxes, classes, tensorInfo("c", {1, 9}), count}));
  EXPECT_FALSE(fits({tensorInfo("a", {1, 10, 5}), classes, scores, count}));
  EXPECT_FALSE(fits({}));
  EXPECT_FALSE(fits({tensorInfo("detection_boxes", {1, 10, 4}), tensorInfo("detection_classes", {1, 10}),
                     tensorInfo("detection_scores", {1, 10, 91})}));
}

} // namespace
