// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

using Metadata = std::map<std::string, std::string>;
using Labels = std::vector<std::string>;

// As ultralytics 8.4 writes it for a detector.
Metadata detector() {
  return {
      {"description", "Ultralytics YOLO11n model trained on /usr/src/ultralytics/ultralytics/cfg/datasets/coco.yaml"},
      {"author", "Ultralytics"},
      {"date", "2026-02-03T10:11:12.131415"},
      {"version", "8.4.1"},
      {"license", "AGPL-3.0 License (https://ultralytics.com/license)"},
      {"docs", "https://docs.ultralytics.com"},
      {"stride", "32"},
      {"task", "detect"},
      {"head", "Detect"},
      {"batch", "1"},
      {"imgsz", "[480, 640]"},
      {"names", "{0: 'person', 1: 'bicycle', 2: 'car'}"},
      {"args", "{'batch': 1, 'half': False, 'dynamic': False, 'simplify': True, 'opset': None, 'nms': False}"},
      {"channels", "3"},
      {"end2end", "False"},
  };
}

Metadata with(Metadata metadata, const Metadata &changes) {
  for (const auto &[key, value] : changes) metadata[key] = value;
  return metadata;
}

TEST(Metadata, OfAnUltralyticsDetector) {
  const ModelConfig config = configFromMetadata(detector());
  EXPECT_EQ(config.labels, (Labels{"person", "bicycle", "car"}));
  EXPECT_EQ(config.classes, 3);
  EXPECT_EQ(config.height, 480);
  EXPECT_EQ(config.width, 640);
  EXPECT_EQ(config.resize, ResizeMode::Letterbox);
  EXPECT_EQ(config.padding, 114.0f);
  EXPECT_EQ(config.mean, (std::array{0.0f, 0.0f, 0.0f}));
  ASSERT_TRUE(config.scale);
  for (const float scale : *config.scale) EXPECT_FLOAT_EQ(scale * 255, 1.0f);
  EXPECT_EQ(config.bgr, false);
  EXPECT_EQ(config.decoder, DecoderKind::YoloV8);
  EXPECT_FALSE(config.keypoints);
  EXPECT_FALSE(config.layout);
  EXPECT_FALSE(config.scaling);
  EXPECT_TRUE(config.tensors.empty());
}

TEST(Metadata, TasksAndHeads) {
  constexpr auto letterbox = ResizeMode::Letterbox;
  struct {
    const char *says;
    Metadata changes;
    std::optional<ResizeMode> resize;
    std::optional<DecoderKind> decoder;
  } const rows[] = {
      {"masks", {{"task", "segment"}}, letterbox, DecoderKind::YoloV8},
      {"26", {{"head", "Detect26"}, {"end2end", "True"}}, letterbox, DecoderKind::YoloV10},
      {"nms in the model", {{"args", "{'nms': True}"}}, letterbox, DecoderKind::YoloV10},
      {"poses that suppress", {{"task", "pose"}, {"end2end", "True"}}, letterbox, DecoderKind::YoloV10},
      {"unreadable args", {{"args", "{'nms': True"}}, letterbox, DecoderKind::YoloV8},
      {"unreadable end2end", {{"end2end", "maybe"}}, letterbox, {}},
      {"end2end of another type", {{"end2end", "1"}}, letterbox, {}},
      {"transformer", {{"head", "RTDETRDecoder"}}, ResizeMode::Stretch, DecoderKind::Detr},
      {"transformer by name", {{"description", "Ultralytics rtdetr-l model"}}, ResizeMode::Stretch, DecoderKind::Detr},
      {"classes", {{"task", "classify"}}, ResizeMode::Crop, DecoderKind::Classification},
      {"turned boxes", {{"task", "obb"}}, letterbox, {}},
      {"another task", {{"task", "translate"}}, {}, {}},
  };
  for (const auto &row : rows) {
    const ModelConfig config = configFromMetadata(with(detector(), row.changes));
    EXPECT_EQ(config.resize, row.resize) << row.says;
    EXPECT_EQ(config.decoder, row.decoder) << row.says;
    EXPECT_EQ(config.padding.has_value(), row.resize && *row.resize != ResizeMode::Crop) << row.says;
    EXPECT_EQ(config.scale.has_value(), row.resize.has_value()) << row.says;
    EXPECT_EQ(config.classes, 3) << row.says;
  }
}

TEST(Metadata, OlderExportersLeaveTheDecoderToTheShapes) {
  Metadata metadata = detector();
  metadata.erase("end2end");
  metadata.erase("head");
  metadata.erase("args");
  EXPECT_FALSE(configFromMetadata(metadata).decoder);
  EXPECT_EQ(configFromMetadata(metadata).resize, ResizeMode::Letterbox);

  const ModelConfig config = configFromMetadata({{"stride", "32"}, {"names", "['face', 'hand']"}}); // YOLOv5
  EXPECT_EQ(config.labels, (Labels{"face", "hand"}));
  EXPECT_FALSE(config.resize);
  EXPECT_FALSE(config.decoder);
}

TEST(Metadata, TurnedBoxesNameTheirTensor) {
  const ModelConfig open = configFromMetadata(with(detector(), {{"task", "obb"}}));
  ASSERT_TRUE(open.tensors.contains("output0"));
  EXPECT_EQ(open.tensors.at("output0"), (TensorTag{"yolo-v8-obb-out", "yolo-v8-obb-out", true}));
  EXPECT_TRUE(configFromMetadata(with(detector(), {{"task", "obb"}, {"end2end", "True"}})).tensors.empty());
}

TEST(Metadata, ATaskAloneSaysNothing) {
  EXPECT_EQ(configFromMetadata({{"task", "detect"}}), ModelConfig());
  EXPECT_EQ(configFromMetadata({}), ModelConfig());
}

TEST(Metadata, Names) {
  struct {
    const char *names;
    Labels labels;
  } const rows[] = {
      {"{0: \"driver's seat\", 1: 'a, b: {c}', 2: 'caf\\xe9', 3: '\xe4\xba\xba'}",
       {"driver's seat", "a, b: {c}", "caf\xc3\xa9", "\xe4\xba\xba"}},
      {"{0: 'a', 3: 'd'}", {"a", "", "", "d"}},
      {"{2: 'c', 0: 'a', 1: 'b'}", {"a", "b", "c"}},
      {R"({"0": "a", "1": "b"})", {"a", "b"}},
      {"('a', 'b')", {"a", "b"}},
      {"{0: ''}", {""}},
      // what cannot be read is left out
      {"{}", {}},
      {"[]", {}},
      {"'person'", {}},
      {"{0: 1}", {}},
      {"{-1: 'a'}", {}},
      {"{65536: 'a'}", {}},
      {"{0: 'a', 99999999999: 'b'}", {}},
      {"{'a': 0}", {}},
      {"['a', 1]", {}},
      {"{0: 'a'", {}},
      {"{0: '\xff'}", {}},
      {"", {}},
  };
  for (const auto &row : rows) {
    const ModelConfig config = configFromMetadata({{"names", row.names}});
    EXPECT_EQ(config.labels, row.labels) << row.names;
    EXPECT_EQ(config.classes.has_value(), !row.labels.empty()) << row.names;
    EXPECT_EQ(config.classes.value_or(0), static_cast<int>(row.labels.size())) << row.names;
  }
  EXPECT_TRUE(configFromMetadata({{"names", "['" + std::string(2 << 20, 'a') + "']"}}).labels.empty());
}

TEST(Metadata, Sizes) {
  struct {
    const char *imgsz;
    std::optional<int> height, width;
  } const rows[] = {
      {"[640, 320]", 640, 320},  {"(640, 320)", 640, 320}, {"640", 640, 640},     {"[640]", {}, {}},
      {"[640, 640, 3]", {}, {}}, {"[0, 640]", {}, {}},     {"[640, -1]", {}, {}}, {"[16385, 640]", {}, {}},
      {"[640.0, 640]", {}, {}},  {"640x640", {}, {}},      {"None", {}, {}},      {"[99999999999999999999, 1]", {}, {}},
  };
  for (const auto &row : rows) {
    const ModelConfig config = configFromMetadata({{"imgsz", row.imgsz}});
    EXPECT_EQ(config.height, row.height) << row.imgsz;
    EXPECT_EQ(config.width, row.width) << row.imgsz;
  }
}

TEST(Metadata, Keypoints) {
  struct {
    const char *shape;
    std::optional<int> points, values;
  } const rows[] = {
      {"[17, 3]", 17, 3},  {"(4, 2)", 4, 2},    {"[17]", {}, {}},      {"17", {}, {}},        {"[0, 3]", {}, {}},
      {"[17, 4]", {}, {}}, {"[17, 1]", {}, {}}, {"[1025, 3]", {}, {}}, {"[17, '3']", {}, {}}, {"[17, 3", {}, {}},
  };
  for (const auto &row : rows) {
    const ModelConfig config = configFromMetadata({{"kpt_shape", row.shape}});
    EXPECT_EQ(config.keypoints, row.points) << row.shape;
    EXPECT_EQ(config.keypoint_values, row.values) << row.shape;
  }
}

// As GStreamer 1.26's onnxinference reads them.
TEST(Metadata, IdsOfTensors) {
  const ModelConfig config = configFromMetadata({
      {"detection_boxes:0", "ssd-mobilenet-v1-variant-1-out-boxes"},
      {"num_detections:0", "generic-variant-1-out-count"},
      {"author", "somebody"},
      {"comment", "made on a Sunday"},
      {"empty", ""},
      {"long", std::string(200, 'x')},
  });
  const std::map<std::string, TensorTag> expected = {
      {"detection_boxes:0", {"ssd-mobilenet-v1-variant-1-out-boxes", "", false}},
      {"num_detections:0", {"generic-variant-1-out-count", "", false}},
  };
  EXPECT_EQ(config.tensors, expected);
}

} // namespace
