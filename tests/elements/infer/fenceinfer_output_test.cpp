// SPDX-License-Identifier: LGPL-2.1-or-later
// What is attached to frames: results, tensors or both; and who reads the tensors behind us.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <fstream>

#include "tests/elements/infer/pipeline.h"
#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=640,height=480,framerate=30/1";
const std::vector<PlacedObject> kBird = {{0.25f, 0.125f, 0.75f, 0.5f, 1, 0.9f}, {0, 0, 0.1f, 0.1f, 0, 0.1f}};

std::vector<std::string> idsOf(GstBuffer *buffer) {
  std::vector<std::string> ids;
  GstTensorMeta *meta = gst_buffer_get_tensor_meta(buffer);
  for (gsize i = 0; meta != nullptr && i < meta->num_tensors; ++i)
    ids.push_back(g_quark_to_string(gst_tensor_meta_get(meta, i)->id));
  return ids;
}

std::vector<float> floatsOf(const GstTensor *tensor) {
  std::vector<float> values(gst_buffer_get_size(tensor->data) / sizeof(float));
  gst_buffer_extract(tensor->data, 0, values.data(), values.size() * sizeof(float));
  return values;
}

class Output : public FenceInferTest {
protected:
  std::string bird() {
    std::ofstream(dir_.file("labels.txt")) << "cat\nbird\n";
    return save(placedObjects(32, kBird));
  }
  std::string labels() { return "labels-file=\"" + dir_.file("labels.txt") + "\" "; }

  GstBuffer *next() {
    EXPECT_EQ(gst_harness_push(harness_, solid("RGB", 640, 480, {1, 2, 3})), GST_FLOW_OK);
    return gst_harness_pull(harness_);
  }
  std::string warning() {
    GstMessage *posted = message(GST_MESSAGE_WARNING, 0);
    if (posted == nullptr) return "";
    GError *error = nullptr;
    gst_message_parse_warning(posted, &error, nullptr);
    EXPECT_TRUE(g_error_matches(error, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS));
    const std::string text = error->message;
    g_error_free(error);
    gst_message_unref(posted);
    return text;
  }
};

TEST_F(Output, ResultsTensorsOrBoth) {
  const struct {
    const char *properties;
    size_t boxes, tensors;
  } rows[] = {
      {"", 1, 0},
      {"output=relation-meta", 1, 0},
      {"output=tensor-meta", 0, 4},
      {"output=both", 1, 4},
      {"output=tensor-meta decoder=none", 0, 4},
      {"output=both decoder=none", 0, 4},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.properties);
    start(bird(), kCaps, labels() + row.properties);
    GstBuffer *out = next();
    const auto boxes = boxesOf(out);
    ASSERT_EQ(boxes.size(), row.boxes);
    if (!boxes.empty()) {
      EXPECT_EQ(boxes[0].label, "bird");
      EXPECT_EQ(boxes[0].x, 80);
      EXPECT_EQ(boxes[0].y, 120);
      EXPECT_EQ(boxes[0].w, 240);
      EXPECT_EQ(boxes[0].h, 240);
    }
    ASSERT_EQ(idsOf(out).size(), row.tensors);
    if (row.tensors > 0) {
      const GstTensor *tensor = gst_tensor_meta_get(gst_buffer_get_tensor_meta(out), 0);
      EXPECT_EQ(tensor->data_type, GST_TENSOR_DATA_TYPE_FLOAT32);
      EXPECT_EQ(tensor->dims_order, GST_TENSOR_DIM_ORDER_ROW_MAJOR);
      EXPECT_EQ(std::vector<gsize>(tensor->dims, tensor->dims + tensor->num_dims), (std::vector<gsize>{1, 2, 4}));
      EXPECT_EQ(floatsOf(tensor), (std::vector<float>{0.25f, 0.125f, 0.75f, 0.5f, 0, 0, 0.1f, 0.1f}));
    }
    EXPECT_EQ(warning(), "");
    gst_buffer_unref(out);
    stop();
  }
}

TEST_F(Output, WhatLeavesFramesAsTheyCameIsWarnedOfOnce) {
  const struct {
    const char *properties;
    std::vector<const char *> says;
  } rows[] = {
      {"decoder=none", {"decoder=none", "output=relation-meta attaches nothing", "Set output=tensor-meta"}},
      {"output=tensor-meta inference-region=objects", {"attaches nothing", "Set output=relation-meta"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.properties);
    start(bird(), kCaps, row.properties);
    for (int i = 0; i < 2; ++i) {
      GstBuffer *out = next();
      EXPECT_TRUE(boxesOf(out).empty());
      EXPECT_TRUE(idsOf(out).empty());
      gst_buffer_unref(out);
    }
    const std::string text = warning();
    for (const char *words : row.says) EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
    EXPECT_EQ(warning(), "") << "a second one";
    stop();
  }
}

// The name of a tensor is the last resort.
TEST_F(Output, IdsOfTensors) {
  const auto copy = [] { return copyOfThePicture(kOnnxFloat, {1, 8, 8, 3}); };
  std::ofstream(dir_.file("file.onnx.modelinfo")) << "[modelinfo]\nversion=1.0\ngroup-id=group\n\n"
                                                     "[copy]\nid=from-file\ndims=1,8,8,3\ndir=output\ntype=float32\n";
  const struct {
    const char *what;
    std::string file, properties, id;
  } rows[] = {
      {"the name", save(copy(), "plain.onnx"), "decoder=none", "copy"},
      {"metadata", save(copy().metadata("copy", "from-metadata"), "metadata.onnx"), "decoder=none", "from-metadata"},
      {"modelinfo above metadata", save(copy().metadata("copy", "from-metadata"), "file.onnx"), "decoder=none",
       "from-file"},
      {"the decoder's", save(colourClassifier({1, 3, 8, 8}), "colours.onnx"), "", "classification-generic-out"},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    start(row.file, kCaps, "output=tensor-meta " + row.properties);
    GstBuffer *out = next();
    EXPECT_EQ(idsOf(out), std::vector<std::string>{row.id});
    gst_buffer_unref(out);
    stop();
  }
}

// One meta for each model, whatever elements between them do with the frame.
TEST_F(Output, TwoModelsOneBehindTheOther) {
  const std::string first = save(copyOfThePicture(kOnnxFloat, {1, 8, 8, 3}), "first.onnx");
  const std::string second = save(colourClassifier({1, 3, 8, 8}), "second.onnx");
  Pipeline pipeline("videotestsrc num-buffers=3 ! " + std::string(kCaps) + " ! fenceinfer model-file=\"" + first +
                    "\" decoder=none output=tensor-meta ! tee name=t t. ! queue ! fakesink async=false t. ! queue ! "
                    "fenceinfer model-file=\"" +
                    second + "\" output=both ! fakesink name=out async=false");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  ASSERT_EQ(pipeline.kept().size(), 3u);
  for (GstBuffer *buffer : pipeline.kept()) {
    std::vector<std::string> ids;
    gpointer state = nullptr;
    while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_TENSOR_META_API_TYPE))
      ids.push_back(g_quark_to_string(gst_tensor_meta_get(reinterpret_cast<GstTensorMeta *>(meta), 0)->id));
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, (std::vector<std::string>{"classification-generic-out", "copy"}));
  }
}

TEST_F(Output, AStockDecoderBehindATee) {
  guint major, minor, micro, nano;
  gst_version(&major, &minor, &micro, &nano);
  if (minor > 26) GTEST_SKIP() << "ssdobjectdetector takes these ids up to GStreamer 1.26";
  GstElementFactory *factory = gst_element_factory_find("ssdobjectdetector");
  if (factory == nullptr) GTEST_SKIP() << "no ssdobjectdetector";
  gst_object_unref(factory);
  std::ofstream(dir_.file("labels.txt")) << "background\ncat\nbird\n"; // their classes count it
  OnnxModel model = placedObjects(32, kBird);
  model.metadata("detection_boxes", "Gst.Model.ObjectDetector.Boxes")
      .metadata("detection_classes", "Gst.Model.ObjectDetector.Classes")
      .metadata("detection_scores", "Gst.Model.ObjectDetector.Scores")
      .metadata("num_detections", "Gst.Model.ObjectDetector.NumDetections");
  Pipeline pipeline("videotestsrc num-buffers=3 ! " + std::string(kCaps) + " ! fenceinfer model-file=\"" + save(model) +
                    "\" output=tensor-meta decoder=none ! tee name=t t. ! queue ! fakesink name=plain async=false "
                    "t. ! queue ! ssdobjectdetector label-file=\"" +
                    dir_.file("labels.txt") + "\" ! fakesink name=out async=false");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  ASSERT_EQ(pipeline.kept().size(), 3u);
  for (GstBuffer *buffer : pipeline.kept()) {
    const auto boxes = boxesOf(buffer);
    ASSERT_EQ(boxes.size(), 1u) << "the other is below its threshold";
    EXPECT_EQ(boxes[0].label, "bird");
    EXPECT_FLOAT_EQ(boxes[0].score, 0.9f);
    EXPECT_EQ(boxes[0].x, 80);
    EXPECT_EQ(boxes[0].y, 120);
    EXPECT_EQ(boxes[0].w, 240);
    EXPECT_EQ(boxes[0].h, 240);
  }
}

} // namespace
} // namespace gstzc::test
