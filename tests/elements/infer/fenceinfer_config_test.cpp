// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model says of itself, a file beside it, a file of labels and properties: each seen in the results, and which
// of them counts.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr int kSide = 64, kCells = 8 * 8 + 4 * 4 + 2 * 2; // of the grids of strides 8, 16 and 32

// A YOLOv8 head with one object, 16x32 in the middle of a picture of 64x64, class 1; its score is the mean of the
// picture's red. The size is left open.
OnnxModel yolo() {
  std::vector<float> boxes(4 * kCells, 0.0f), weight(2 * kCells, 0.0f);
  boxes[0] = 32, boxes[kCells] = 32, boxes[2 * kCells] = 16, boxes[3 * kCells] = 32; // of the first cell
  weight[kCells] = 1;
  OnnxModel model;
  model.input("images", kOnnxFloat, {1, 3, "height", "width"})
      .node("ReduceMean", {"images"}, "means", {{"axes", {2, 3}}, OnnxAttribute::integer("keepdims", 1)})
      .constant("from", {1}, std::vector<int64_t>{0})
      .constant("to", {1}, std::vector<int64_t>{1})
      .constant("axis", {1}, std::vector<int64_t>{1})
      .node("Slice", {"means", "from", "to", "axis"}, "red")
      .constant("one", {3}, std::vector<int64_t>{1, 1, 1})
      .node("Reshape", {"red", "one"}, "mean")
      .constant("weight", {1, 2, kCells}, weight)
      .node("Mul", {"weight", "mean"}, "scores")
      .constant("boxes", {1, 4, kCells}, boxes)
      .node("Concat", {"boxes", "scores"}, "output0", {OnnxAttribute::integer("axis", 1)})
      .output("output0", kOnnxFloat, {1, 6, kCells});
  return model;
}

OnnxModel ultralytics() {
  OnnxModel model = yolo();
  model.metadata("description", "Ultralytics YOLOv8n model")
      .metadata("task", "detect")
      .metadata("stride", "32")
      .metadata("batch", "1")
      .metadata("imgsz", "[64, 64]")
      .metadata("names", "{0: 'cat', 1: 'dog'}");
  return model;
}

class Config : public FenceInferTest {
protected:
  // of a frame of one colour
  std::vector<Box> find(const std::string &properties, int width, int height, const std::vector<guint8> &rgb) {
    const std::string caps = "video/x-raw,format=RGB,width=" + std::to_string(width) +
                             ",height=" + std::to_string(height) + ",framerate=30/1";
    start(dir_.file("yolo.onnx"), caps.c_str(), properties);
    EXPECT_EQ(gst_harness_push(harness_, solid("RGB", width, height, rgb)), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    const auto boxes = out != nullptr ? boxesOf(out) : std::vector<Box>();
    gst_clear_buffer(&out);
    stop();
    return boxes;
  }
  void write(const char *name, const std::string &text) { std::ofstream(dir_.file(name)) << text; }
  void modelInfo(const std::string &ranges, const std::string &caps = "RGBP") {
    write("yolo.onnx.modelinfo",
          "[modelinfo]\nversion=1.1\n\n[images]\ndir=input\ntype=float32\ndims=1,3,-1,-1\nranges=" + ranges +
              "\ncaps=video/x-raw,format=" + caps + "\n");
  }
};

// Nothing but the file: size, letterbox, range, decoder and names are its own.
TEST_F(Config, AnExportedModelNeedsNoProperty) {
  save(ultralytics(), "yolo.onnx");
  const auto boxes = find("threshold=0.1", 128, 64, {204, 0, 0});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].label, "dog");
  // half of the picture is the frame, half padding of 114
  EXPECT_NEAR(boxes[0].score, (204 + 114) / 2.0 / 255, 1e-3);
  EXPECT_EQ(boxes[0].x, 48);
  EXPECT_EQ(boxes[0].y, 0) << "y 16 to 48 of the picture is all of the frame's height";
  EXPECT_EQ(boxes[0].w, 32);
  EXPECT_EQ(boxes[0].h, 64);
}

// Each source above the one before it, in a frame without padding: 102 of 255.
TEST_F(Config, WhichSourceCounts) {
  write("labels.txt", "first\nsecond\n");
  const std::string labels = "labels-file=\"" + dir_.file("labels.txt") + "\" ";
  const std::string size = "input-width=64 input-height=64 ";
  const struct {
    const char *what;
    bool metadata;
    std::string ranges, properties; // no ranges: no modelinfo
    std::string label;
    double score;
  } rows[] = {
      {"the family", false, "", "decoder=yolov8 " + size, "", 0.4},
      {"the metadata", true, "", "", "dog", 0.4},
      {"the modelinfo", true, "0.0,2.0;0.0,2.0;0.0,2.0", "", "dog", 0.8},
      {"of each channel", true, "0.0,2.0;0.0,1.0;0.0,1.0", "", "dog", 0.8},
      {"from a number on", true, "0.5,1.0", "", "dog", 0.7},
      {"a property", true, "0.0,2.0;0.0,2.0;0.0,2.0", "scale=0.005", "dog", 0.51},
      {"a property and the file", true, "0.5,1.0", "mean=0", "dog", 0.2},
      {"three of them", true, "", "scale=0.002,0.7,0.9", "dog", 0.204},
      {"labels", true, "", labels, "second", 0.4},
      {"labels and the family", false, "", "decoder=yolov8 " + size + labels, "second", 0.4},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    save(row.metadata ? ultralytics() : yolo(), "yolo.onnx");
    std::remove(dir_.file("yolo.onnx.modelinfo").c_str());
    if (!row.ranges.empty()) modelInfo(row.ranges);
    const auto boxes = find("threshold=0.05 " + row.properties, kSide, kSide, {102, 102, 102});
    ASSERT_EQ(boxes.size(), 1u);
    EXPECT_NEAR(boxes[0].score, row.score, 1e-3);
    if (!row.label.empty()) {
      EXPECT_EQ(boxes[0].label, row.label);
    }
  }
}

// The score is of the first channel, red unless somebody says blue.
TEST_F(Config, OrderOfColours) {
  const struct {
    const char *what, *caps, *properties;
    double score;
  } rows[] = {
      {"the metadata's", "", "", 0.8},
      {"the modelinfo's", "BGRP", "", 0.2},
      {"a property's", "", "channel-order=bgr", 0.2},
      {"a property's above the modelinfo's", "BGRP", "channel-order=rgb", 0.8},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    save(ultralytics(), "yolo.onnx");
    std::remove(dir_.file("yolo.onnx.modelinfo").c_str());
    if (*row.caps != 0) modelInfo("0.0,1.0;0.0,1.0;0.0,1.0", row.caps);
    const auto boxes = find(std::string("threshold=0.05 ") + row.properties, kSide, kSide, {204, 102, 51});
    ASSERT_EQ(boxes.size(), 1u);
    EXPECT_NEAR(boxes[0].score, row.score, 1e-3);
  }
}

// A divisor for each channel, as models of ImageNet want it: each moves its own channel only.
TEST_F(Config, ADivisorForEachChannel) {
  const std::array<EncodedFace, 3> faces = {EncodedFace{0, 0, 0, 8, 8}, EncodedFace{14, 0, 0, 8, 8},
                                            EncodedFace{28, 0, 0, 8, 8}};
  const std::string file = save(channelMeans(128, faces, true), "means.onnx");
  start(file, "video/x-raw,format=RGB,width=128,height=128,framerate=30/1",
        "mean=123.675,116.28,103.53 scale=0.0171,0.0175,0.0174 threshold=0");
  const double pixel[] = {200, 100, 50}, mean[] = {123.675, 116.28, 103.53}, scale[] = {0.0171, 0.0175, 0.0174};
  ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 128, 128, {200, 100, 50})), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  const auto boxes = boxesOf(out);
  gst_buffer_unref(out);
  for (size_t c = 0; c < 3; ++c) {
    const double score = 1 / (1 + std::exp(-(pixel[c] - mean[c]) * scale[c]));
    const bool found =
        std::any_of(boxes.begin(), boxes.end(), [&](const Box &b) { return std::abs(b.score - score) < 1e-4; });
    EXPECT_TRUE(found) << "no face of score " << score << " for channel " << c;
  }
}

// Boxes at and over the edge of what the letterbox shows: cut at the frame, not lost.
TEST_F(Config, LetterboxedBoxesAtTheEdge) {
  const int width = 128, height = 64; // shown at y 32 to 96 of a picture of 128x128
  const struct {
    const char *what, *mode;
    PlacedObject object; // in parts of the picture
    Box expected;
  } rows[] = {
      {"inside", "letterbox", {0.375f, 0.25f, 0.625f, 0.5f}, {32, 16, 32, 32}},
      {"just over the top", "letterbox", {0.2344f, 0.25f, 0.5f, 0.5f}, {32, 0, 32, 32}},
      {"just over the bottom", "letterbox", {0.5f, 0.25f, 0.7656f, 0.5f}, {32, 32, 32, 32}},
      {"over both", "letterbox", {0, 0, 1, 1}, {0, 0, width, height}},
      {"over the left edge", "letterbox", {0.375f, -0.1f, 0.625f, 0.5f}, {0, 16, 64, 32}},
      {"over the right edge", "letterbox", {0.375f, 0.5f, 0.625f, 1.1f}, {64, 16, 64, 32}},
      {"the last pixel", "letterbox", {0.7422f, 0.9922f, 0.75f, 1}, {127, 63, 1, 1}},
      {"at the top", "letterbox-topleft", {0, 0, 0.25f, 0.25f}, {0, 0, 32, 32}},
      {"over the bottom", "letterbox-topleft", {0.25f, 0, 0.6f, 0.25f}, {0, 32, 32, 32}},
      {"stretched", "stretch", {0.5f, 0, 1, 0.25f}, {0, 32, 32, 32}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    PlacedObject object = row.object;
    object.score = 0.9f;
    start(save(placedObjects(128, {object}), "placed.onnx"),
          "video/x-raw,format=RGB,width=128,height=64,framerate=30/1", std::string("resize-mode=") + row.mode);
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", width, height, {1, 2, 3})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    const auto boxes = boxesOf(out);
    gst_buffer_unref(out);
    stop();
    ASSERT_EQ(boxes.size(), 1u) << "lost";
    EXPECT_EQ(boxes[0].x, row.expected.x);
    EXPECT_EQ(boxes[0].y, row.expected.y);
    EXPECT_EQ(boxes[0].w, row.expected.w);
    EXPECT_EQ(boxes[0].h, row.expected.h);
  }
}

// A box in the padding alone is of nothing in the frame.
TEST_F(Config, BoxesInThePaddingAreNone) {
  start(save(placedObjects(128, {{0, 0.25f, 0.2f, 0.5f}, {0.8f, 0.25f, 1, 0.5f}}), "placed.onnx"),
        "video/x-raw,format=RGB,width=128,height=64,framerate=30/1", "resize-mode=letterbox");
  ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 128, 64, {1, 2, 3})), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_TRUE(boxesOf(out).empty());
  gst_buffer_unref(out);
}

} // namespace
} // namespace gstzc::test
