// SPDX-License-Identifier: LGPL-2.1-or-later
// Which decoder is chosen for a model, from nothing but its tensors and what is known of it.
#include "gst/infer/decode/decoder.h"

#include <algorithm>

#include "gst/infer/decode/blazeface.h"
#include "gst/infer/decode/detr.h"
#include "gst/infer/decode/ssd.h"
#include "gst/infer/decode/ssd_postprocess.h"
#include "gst/infer/decode/ultraface.h"
#include "gst/infer/decode/yolo.h"
#include "gst/infer/decode/yolox.h"
#include "gst/infer/decode/yunet.h"
#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

using Dims = std::vector<int64_t>;

std::vector<TensorInfo> tensors(const std::vector<std::pair<const char *, Dims>> &list) {
  std::vector<TensorInfo> infos;
  for (const auto &[name, dims] : list) infos.push_back(tensorInfo(name, dims));
  return infos;
}

std::vector<TensorInfo> yunet(int width, int height, int64_t batch, bool open) {
  std::vector<TensorInfo> infos;
  const std::pair<const char *, int64_t> kinds[] = {{"cls", 1}, {"obj", 1}, {"bbox", 4}, {"kps", 10}};
  for (const auto &[name, last] : kinds)
    for (const int s : {8, 16, 32})
      infos.push_back(tensorInfo(std::string(name) + "_" + std::to_string(s),
                                 {batch, open ? -1 : int64_t{width / s} * (height / s), last}));
  return infos;
}

struct Row {
  const char *model;
  InputPlan input;
  std::vector<TensorInfo> outputs;
  DecoderWishes wishes;
  const char *expected; // "": none, so an error
  int classes = 0;
};

const InputPlan k640 = picture(640, 640), k416 = picture(416, 416), k300 = picture(300, 300);
const InputPlan kTf300 = picture(300, 300, TensorLayout::Nhwc);

std::vector<Row> rows() {
  const auto one = [](Dims dims) { return tensors({{"output0", std::move(dims)}}); };
  const auto segmenting = [](Dims dims) {
    return tensors({{"output0", std::move(dims)}, {"output1", {1, 32, 160, 160}}});
  };
  return {
      {"YOLOv5s", k640, one({1, 25200, 85}), {}, "yolov5", 80},
      {"YOLOv5s with its grids",
       k640,
       tensors({{"output", {1, 25200, 85}},
                {"350", {1, 3, 80, 80, 85}},
                {"416", {1, 3, 40, 40, 85}},
                {"482", {1, 3, 20, 20, 85}}}),
       {},
       "yolov5",
       80},
      {"YOLOv5 of one class", k640, one({1, 25200, 6}), {}, "yolov5", 1},
      {"YOLOv5n6", picture(1280, 1280), one({1, 102000, 85}), {}, "yolov5", 80},
      {"YOLOv5 wide", picture(640, 384), one({1, 15120, 85}), {}, "yolov5", 80},
      {"YOLOv5 in batches", k640, one({4, 25200, 85}), {}, "yolov5", 80},
      {"YOLOv5-seg", k640, segmenting({1, 25200, 117}), {}, "yolov5", 80},
      {"YOLOv5 for other labels", k640, one({1, 25200, 85}), {.classes = 20}, "", 0},
      {"YOLOv5 one row short", k640, one({1, 25199, 85}), {}, "", 0},
      {"YOLOv5 of another input", k416, one({1, 25200, 85}), {}, "", 0},
      {"YOLOv5, open rows", k640, one({1, -1, 85}), {}, "", 0},
      {"the same, named", k640, one({1, -1, 85}), {.kind = DecoderKind::YoloV5}, "yolov5", 80},

      {"YOLOv8n", k640, one({1, 84, 8400}), {}, "yolov8", 80},
      {"YOLOv8n with labels", k640, one({1, 84, 8400}), {.classes = 80}, "yolov8", 80},
      {"YOLO11 of one class", k640, one({1, 5, 8400}), {}, "yolov8", 1},
      {"YOLOv8 of an open size", k640, one({-1, 84, -1}), {}, "", 0}, // the loader asks again with what came
      {"YOLOv8 of an open batch and size, named", k640, one({-1, 84, -1}), {.kind = DecoderKind::YoloV8}, "yolov8", 80},
      {"YOLOX decoded in the net", k416, one({1, 3549, 85}), {.kind = DecoderKind::YoloV5}, "yolov5", 80},
      {"YOLOv8 with all open", k640, one({-1, -1, -1}), {.classes = 80}, "", 0},
      {"YOLOv8-p6", picture(1280, 1280), one({1, 84, 34000}), {}, "yolov8", 80},
      {"YOLOv8-p2", k640, one({1, 84, 34000}), {}, "yolov8", 80},
      {"YOLOv8 turned", k640, one({1, 8400, 84}), {}, "yolov8", 80},
      {"YOLOv8 turned, two classes", k640, one({1, 8400, 6}), {.classes = 2}, "yolov8", 2},
      {"YOLOX or YOLOv8 turned", k640, one({1, 8400, 6}), {}, "", 0},
      {"YOLOv8-pose", k640, one({1, 56, 8400}), {.classes = 1, .keypoints = 17, .keypoint_values = 3}, "yolov8", 1},
      {"YOLOv8-pose, classes not known",
       k640,
       one({1, 56, 8400}),
       {.keypoints = 17, .keypoint_values = 3},
       "yolov8",
       1},
      {"YOLOv8-pose, values not known", k640, one({1, 39, 8400}), {.classes = 1, .keypoints = 17}, "yolov8", 1},
      {"YOLOv8-pose without a word of keypoints", k640, one({1, 56, 8400}), {.classes = 1}, "", 0},
      {"YOLOv8-obb: an angle too many", k640, one({1, 20, 8400}), {.classes = 15}, "", 0},
      {"YOLOv8-seg", k640, segmenting({1, 116, 8400}), {}, "yolov8", 80},
      {"YOLOv8-seg with labels", k640, segmenting({1, 116, 8400}), {.classes = 80}, "yolov8", 80},
      {"YOLOv8-seg turned", k640, segmenting({1, 8400, 116}), {}, "yolov8", 80},
      {"YOLOv8-seg without prototypes", k640, one({1, 116, 8400}), {.classes = 80}, "", 0},
      {"prototypes of another size",
       k640,
       tensors({{"output0", {1, 116, 8400}}, {"output1", {1, 32, 80, 80}}}),
       {},
       "",
       0},
      // 32x32 has 21 cells: the grid tells which side is which
      {"YOLOv8, 17 classes, 21 cells", picture(32, 32), one({1, 21, 21}), {}, "yolov8", 17},
      {"YOLOv8, more classes than cells", picture(32, 32), one({1, 30, 21}), {}, "yolov8", 26},

      {"YOLOv10n", k640, one({1, 300, 6}), {}, "yolov10", 0},
      {"YOLO26n with labels", k640, one({1, 300, 6}), {.classes = 80}, "yolov10", 0},
      {"YOLO26-pose", k640, one({1, 300, 57}), {.classes = 1, .keypoints = 17, .keypoint_values = 3}, "yolov10", 0},
      {"YOLO26-pose without a word of keypoints", k640, one({1, 300, 57}), {.classes = 1}, "", 0},
      {"YOLO26-seg", k640, segmenting({1, 300, 38}), {.classes = 80}, "yolov10", 0},
      {"too many objects", k640, one({1, 1001, 6}), {}, "", 0},
      {"the same, named", k640, one({1, 1001, 6}), {.kind = DecoderKind::YoloV10}, "yolov10", 0},

      {"YOLOX-nano", k416, one({1, 3549, 85}), {}, "yolox", 80},
      {"YOLOX-s", k640, one({1, 8400, 85}), {}, "yolox", 80},
      {"YOLOX-s of two classes", k640, one({1, 8400, 7}), {.classes = 2}, "yolox", 2},
      {"YOLOX named", k640, one({1, 8400, 7}), {.kind = DecoderKind::YoloX}, "yolox", 2},
      {"81 classes after all", k640, one({1, 8400, 85}), {.classes = 81}, "yolov8", 81},

      {"RFB-320", picture(320, 240), tensors({{"scores", {1, 4420, 2}}, {"boxes", {1, 4420, 4}}}), {}, "ultraface", 1},
      {"RFB-320 by its rows",
       picture(320, 240),
       tensors({{"a", {1, 4420, 4}}, {"b", {1, 4420, 2}}}),
       {},
       "ultraface",
       1},
      {"faces with other rows and names",
       picture(320, 240),
       tensors({{"a", {1, 4419, 4}}, {"b", {1, 4419, 2}}}),
       {},
       "",
       0},
      {"the same, named",
       picture(320, 240),
       tensors({{"a", {1, 4419, 4}}, {"b", {1, 4419, 2}}}),
       {.kind = DecoderKind::UltraFace},
       "ultraface",
       1},
      {"mb1-ssd of pytorch-ssd",
       k300,
       tensors({{"scores", {1, 3000, 91}}, {"boxes", {1, 3000, 4}}}),
       {},
       "ultraface",
       90},
      {"rows that differ", picture(320, 240), tensors({{"scores", {1, 4420, 2}}, {"boxes", {1, 4400, 4}}}), {}, "", 0},

      {"YuNet", picture(640, 640), yunet(640, 640, 1, false), {}, "yunet", 1},
      {"YuNet, open", picture(320, 256), yunet(0, 0, -1, true), {}, "yunet", 1},
      {"YuNet of another input", picture(320, 320), yunet(640, 640, 1, false), {}, "", 0},

      {"MobileNet-SSD",
       k300,
       tensors({{"mbox_loc", {1, 1917, 4}}, {"mbox_conf_softmax", {1, 1917, 21}}}),
       {},
       "ssd",
       20},
      {"SSD300", k300, tensors({{"conf", {1, 8732, 21}}, {"loc", {1, 8732, 4}}}), {}, "ssd", 20},
      {"TensorFlow's SSD",
       kTf300,
       tensors({{"Squeeze", {1, 1917, 4}}, {"convert_scores", {1, 1917, 91}}}),
       {},
       "ssd",
       90},
      {"TensorFlow's SSD, 320",
       picture(320, 320, TensorLayout::Nhwc),
       tensors({{"Squeeze", {1, 2034, 4}}, {"convert_scores", {1, 2034, 91}}}),
       {},
       "ssd",
       90},
      {"SSD with other priors", k300, tensors({{"loc", {1, 2000, 4}}, {"conf", {1, 2000, 21}}}), {}, "", 0},
      {"SSD that brings its priors",
       k300,
       tensors({{"loc", {1, 2000, 4}}, {"conf", {1, 2000, 21}}, {"anchors", {2000, 4}}}),
       {},
       "ssd",
       20},
      {"TensorFlow's post-processing",
       kTf300,
       tensors({{"detection_boxes", {1, 100, 4}},
                {"detection_classes", {1, 100}},
                {"detection_scores", {1, 100}},
                {"num_detections", {1}},
                {"raw_detection_boxes", {1, 1917, 4}},
                {"raw_detection_scores", {1, 1917, 91}}}),
       {},
       "ssd-postprocess",
       0},
      {"TFLite's post-processing",
       kTf300,
       tensors({{"TFLite_Detection_PostProcess", {1, 10, 4}},
                {"TFLite_Detection_PostProcess:1", {1, 10}},
                {"TFLite_Detection_PostProcess:2", {1, 10}},
                {"TFLite_Detection_PostProcess:3", {1}}}),
       {},
       "ssd-postprocess",
       0},

      {"DETR", picture(800, 800), tensors({{"logits", {1, 100, 92}}, {"pred_boxes", {1, 100, 4}}}), {}, "detr", 91},
      {"DETR of one class",
       picture(800, 800),
       tensors({{"logits", {1, 100, 2}}, {"pred_boxes", {1, 100, 4}}}),
       {},
       "detr",
       1},
      {"RT-DETR", k640, tensors({{"logits", {1, 300, 80}}, {"pred_boxes", {1, 300, 4}}}), {}, "detr", 80},
      {"RF-DETR", picture(560, 560), tensors({{"dets", {1, 300, 4}}, {"labels", {1, 300, 91}}}), {}, "detr", 91},
      {"RT-DETR of Ultralytics", k640, one({1, 300, 84}), {.classes = 80}, "detr", 80},
      {"the same without labels", k640, one({1, 300, 84}), {}, "", 0},
      {"RT-DETR of Ultralytics, two classes: as YOLO26", k640, one({1, 300, 6}), {.classes = 2}, "yolov10", 0},

      {"BlazeFace",
       picture(128, 128, TensorLayout::Nhwc),
       tensors({{"a", {1, 896, 1}}, {"b", {1, 896, 16}}}),
       {},
       "blazeface",
       1},
      {"raw maps",
       k640,
       tensors({{"a", {1, 255, 80, 80}}, {"b", {1, 255, 40, 40}}, {"c", {1, 255, 20, 20}}}),
       {},
       "",
       0},
      {"integers", k640, {tensorInfo("output0", {1, 84, 8400}, TensorType::Int32)}, {}, "", 0},
      {"half precision", k640, {tensorInfo("output0", {1, 84, 8400}, TensorType::Float16)}, {}, "yolov8", 80},
      {"nothing", k640, {}, {}, "", 0},
      {"a scalar", k640, one({}), {}, "", 0},
      {"sizes of nothing", k640, one({1, 0, 0}), {}, "", 0},
      {"huge sizes", k640, one({1, int64_t{1} << 62, int64_t{1} << 62}), {}, "", 0},
      {"huge classes", k640, one({1, int64_t{1} << 40, 8400}), {}, "", 0},
      {"strange wishes",
       k640,
       one({1, 84, 8400}),
       {.classes = -5, .keypoints = -1, .keypoint_values = 1 << 30},
       "yolov8",
       80},
      {"more keypoints than numbers",
       k640,
       one({1, 84, 8400}),
       {.keypoints = 1 << 20, .keypoint_values = 1 << 20},
       "",
       0},
  };
}

constexpr DecoderKind kAll[] = {DecoderKind::BlazeFace, DecoderKind::Ssd,     DecoderKind::SsdPostprocess,
                                DecoderKind::UltraFace, DecoderKind::YuNet,   DecoderKind::YoloV5,
                                DecoderKind::YoloV8,    DecoderKind::YoloV10, DecoderKind::YoloX,
                                DecoderKind::Detr};

TEST(MakeDecoder, ChoosesByTensorsAndWishes) {
  for (const Row &row : rows()) {
    SCOPED_TRACE(row.model);
    auto made = makeDecoder(row.wishes, row.input, row.outputs);
    if (*row.expected == '\0') {
      EXPECT_FALSE(made.ok()) << (*made)->name();
      continue;
    }
    ASSERT_TRUE(made.ok()) << made.error().message();
    ASSERT_NE(*made, nullptr);
    EXPECT_STREQ((*made)->name(), row.expected);
    EXPECT_EQ((*made)->classes(), row.classes);
    EXPECT_GT((*made)->defaults().threshold, 0);
  }
}

// No shape is taken by two, so the order in which they are asked does not matter.
TEST(MakeDecoder, ChoicesAreUnambiguous) {
  for (const Row &row : rows()) {
    if (row.wishes.kind != DecoderKind::Auto) continue;
    SCOPED_TRACE(row.model);
    std::string fitting;
    const auto ask = [&](const auto &match) {
      if (const auto decoder = match(row.wishes, row.input, row.outputs)) fitting += decoder->name();
    };
    ask(BlazeFaceDecoder::match);
    ask(SsdDecoder::match);
    ask(SsdPostprocessDecoder::match);
    ask(UltraFaceDecoder::match);
    ask(YuNetDecoder::match);
    ask(YoloV5Decoder::match);
    ask(YoloV8Decoder::match);
    ask(YoloV10Decoder::match);
    ask(YoloXDecoder::match);
    ask(DetrDecoder::match);
    EXPECT_EQ(fitting, row.expected);
  }
}

// What is chosen can also be named, and naming another one never gives that one.
TEST(MakeDecoder, NamesOnlyGiveWhatTheySay) {
  for (const Row &row : rows()) {
    for (const DecoderKind kind : kAll) {
      SCOPED_TRACE(std::string(row.model) + " as " + decoderName(kind));
      DecoderWishes wishes = row.wishes;
      wishes.kind = kind;
      auto made = makeDecoder(wishes, row.input, row.outputs);
      EXPECT_TRUE(!made.ok() || (*made)->name() == std::string(decoderName(kind)));
      EXPECT_TRUE(made.ok() || row.expected != std::string(decoderName(kind)));
    }
  }
}

TEST(MakeDecoder, ErrorsSayWhatIsKnownAndWhatToDo) {
  auto made = makeDecoder({.classes = 20}, k640, tensors({{"output0", {1, 84, 8400}}}));
  ASSERT_FALSE(made.ok());
  const std::string text = made.error().message();
  for (const char *part : {"640x640", "20 classes", "output0 (float32 [1,84,8400])", "decoder=none output=tensor-meta"})
    EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
  for (const DecoderKind kind : kAll) EXPECT_NE(text.find(decoderName(kind)), std::string::npos) << decoderName(kind);
  EXPECT_EQ(text.find("labels-file"), std::string::npos) << text; // the classes are known
  EXPECT_LT(text.size(), 480u) << text;                           // four lines of a terminal
  made = makeDecoder({}, k640, tensors({{"output0", {1, 8400, 6}}}));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("labels-file"), std::string::npos) << made.error().message();
  made = makeDecoder({}, k640, std::vector<TensorInfo>(500, tensorInfo("map", {1, 255, 20, 20})));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("and 488 more"), std::string::npos) << made.error().message();

  made = makeDecoder({.kind = DecoderKind::YoloX}, k640, tensors({{"output0", {1, 84, 8400}}}));
  ASSERT_FALSE(made.ok());
  const std::string named = made.error().message();
  EXPECT_EQ(named.find("decoder=yolox does not fit"), 0u) << named;
  EXPECT_NE(named.find("[1,N,5+classes]"), std::string::npos) << named;
  EXPECT_EQ(named.find("yunet"), std::string::npos) << named; // only what was asked for
}

TEST(MakeDecoder, NoneIsNoDecoder) {
  auto made = makeDecoder({.kind = DecoderKind::None}, k640, tensors({{"output0", {1, 84, 8400}}}));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made, nullptr);
}

TEST(MakeDecoder, NamesOfKindsDiffer) {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(DecoderKind::Segmentation); ++kind)
    names.push_back(decoderName(static_cast<DecoderKind>(kind)));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(std::count(names.begin(), names.end(), "unknown"), 0);
}

} // namespace
