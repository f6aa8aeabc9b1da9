// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/tensor_tags.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

// Has a name and one class, and nothing else.
class Named : public Decoder {
public:
  explicit Named(DecoderKind kind) : name_(decoderName(kind)) {}
  const char *name() const override { return name_; }
  int classes() const override { return 1; }
  const FamilyDefaults &defaults() const override { return defaults_; }
  gstzc::Result<Findings> decode(const Outputs &, const DecodeOptions &) const override { return Findings(); }

private:
  const char *name_;
  FamilyDefaults defaults_;
};

TensorInfo output(const char *name, std::vector<int64_t> dims) {
  return {name, TensorType::Float32, std::move(dims), {}};
}

TEST(TensorTags, OfEachFamily) {
  const std::string ssd = "ssd-mobilenet-v1-variant-1-out", count = "generic-variant-1-out-count";
  const std::string face = "ultra-lightweight-face-detection-rfb-320-v1-variant-1-out";
  const std::string masks = "yolo-v8-segmentation-out";
  const std::vector<TensorInfo> post = {output("detection_boxes:0", {1, 100, 4}),
                                        output("detection_classes:0", {1, 100}), output("detection_scores:0", {1, 100}),
                                        output("num_detections:0", {1})};
  const std::vector<TensorTag> post_tags = {
      {ssd + "-boxes", ssd, false}, {ssd + "-classes", ssd, false}, {ssd + "-scores", ssd, false}, {count, ssd, false}};
  struct {
    const char *says;
    DecoderKind kind;
    std::vector<TensorInfo> outputs;
    int keypoints;
    bool softmaxed;
    std::vector<TensorTag> tags;
  } const rows[] = {
      {"ssd", DecoderKind::SsdPostprocess, post, 0, false, post_tags},
      {"none", DecoderKind::None, post, 0, false, post_tags},
      {"none, other names", DecoderKind::None, {output("boxes", {1, 9, 4})}, 0, false, {{}}},
      {"face",
       DecoderKind::UltraFace,
       {output("scores", {1, 4420, 2}), output("boxes", {1, 4420, 4})},
       0,
       false,
       {{face + "-scores", face, false}, {ssd + "-boxes", face, false}}},
      {"boxes",
       DecoderKind::YoloV8,
       {output("output0", {1, 84, 8400})},
       0,
       false,
       {{"yolo-v8-out", "yolo-v8-out", true}}},
      {"poses",
       DecoderKind::YoloV8,
       {output("output0", {1, 56, 8400})},
       17,
       false,
       {{"yolo-v8-pose-out", "yolo-v8-pose-out", true}}},
      {"masks",
       DecoderKind::YoloV8,
       {output("output1", {1, 32, 160, 160}), output("output0", {1, 116, 8400})},
       0,
       false,
       {{masks + "-protos", masks, true}, {masks + "-detections", masks, true}}},
      {"v10",
       DecoderKind::YoloV10,
       {output("output0", {1, 300, 6})},
       0,
       false,
       {{"yolo-26-end2end-out", "yolo-26-end2end-out", false}}},
      {"v10 with points", DecoderKind::YoloV10, {output("output0", {1, 300, 57})}, 17, false, {{}}},
      {"x: of its raw grid there is none", DecoderKind::YoloX, {output("output", {1, 3549, 85})}, 0, false, {{}}},
      {"logits",
       DecoderKind::Classification,
       {output("logits", {1, 1000})},
       0,
       false,
       {{"classification-generic-out", "classification-generic-out", false}}},
      {"probabilities",
       DecoderKind::Classification,
       {output("prob", {1, 1000})},
       0,
       true,
       {{"classification-generic-softmaxed-out", "classification-generic-softmaxed-out", false}}},
      {"unregistered",
       DecoderKind::YuNet,
       {output("cls_8", {1, 1600, 1}), output("obj_8", {1, 1600, 1})},
       5,
       false,
       {{}, {}}},
      {"no outputs", DecoderKind::YoloV8, {}, 0, false, {}},
      {"no rank", DecoderKind::UltraFace, {output("scores", {})}, 0, false, {{}}},
  };
  for (const auto &row : rows) {
    const Named decoder(row.kind);
    const bool none = row.kind == DecoderKind::None;
    EXPECT_EQ(defaultTags(none ? nullptr : &decoder, row.outputs, row.keypoints, row.softmaxed), row.tags) << row.says;
  }
}

// The ids are of tensors with all candidates of a number together.
TEST(TensorTags, NoneOfATurnedYolo) {
  InputPlan input;
  input.width = input.height = 640;
  for (const bool turned : {false, true}) {
    const std::vector<TensorInfo> outputs = {
        output("output0", turned ? std::vector<int64_t>{1, 8400, 84} : std::vector<int64_t>{1, 84, 8400})};
    const auto decoder = makeDecoder({}, input, outputs);
    ASSERT_TRUE(decoder.ok());
    EXPECT_STREQ((*decoder)->name(), "yolov8");
    EXPECT_EQ(defaultTags(decoder->get(), outputs)[0].id, turned ? "" : "yolo-v8-out");
  }
}

// Faces have two scores a box, the background's and the face's.
TEST(TensorTags, NoneOfAnSsdOfManyClasses) {
  InputPlan input;
  input.width = input.height = 300;
  const std::vector<TensorInfo> outputs = {output("scores", {1, 3000, 21}), output("boxes", {1, 3000, 4})};
  const auto decoder = makeDecoder({}, input, outputs);
  ASSERT_TRUE(decoder.ok());
  EXPECT_STREQ((*decoder)->name(), "ultraface");
  EXPECT_EQ(defaultTags(decoder->get(), outputs), std::vector<TensorTag>(2));
}

} // namespace
