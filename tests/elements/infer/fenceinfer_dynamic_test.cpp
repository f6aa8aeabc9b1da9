// SPDX-License-Identifier: LGPL-2.1-or-later
// Models that leave their batch or their picture's size open, or fix a batch.
#include "tests/elements/infer/fixture.h"

#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=64,height=48,framerate=30/1";

class Dynamic : public FenceInferTest {
protected:
  void start(const OnnxModel &model, const std::string &properties) {
    FenceInferTest::start(save(model), kCaps, "decoder=none output=tensor-meta mean=0 scale=1 " + properties);
  }
  void push(guint8 value) {
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 64, 48, {value, value, value})), GST_FLOW_OK);
  }
  // Dimensions and first number of the tensor on the frame that leaves next.
  std::pair<std::vector<gsize>, float> pull() {
    GstBuffer *out = gst_harness_pull(harness_);
    GstTensorMeta *meta = out != nullptr ? gst_buffer_get_tensor_meta(out) : nullptr;
    std::pair<std::vector<gsize>, float> found = {{}, -1};
    if (meta != nullptr) {
      const GstTensor *tensor = gst_tensor_meta_get(meta, 0);
      found.first.assign(tensor->dims, tensor->dims + tensor->num_dims);
      gst_buffer_extract(tensor->data, 0, &found.second, sizeof found.second);
    }
    gst_clear_buffer(&out);
    return found;
  }
  std::string errorOf(const OnnxModel &model, const std::string &properties) {
    const std::string line =
        "fenceinfer decoder=none output=tensor-meta model-file=\"" + save(model) + "\" " + properties;
    GstElement *element = gst_parse_launch(line.c_str(), nullptr);
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    std::string text;
    if (gst_element_set_state(element, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE) {
      GstMessage *posted = message(GST_MESSAGE_ERROR, 0);
      if (posted != nullptr) {
        GError *error = nullptr;
        gst_message_parse_error(posted, &error, nullptr);
        text = error->message;
        g_error_free(error);
        gst_message_unref(posted);
      }
      EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr) << "a second error";
    }
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(element);
    gst_clear_object(&bus_);
    return text;
  }
};

TEST_F(Dynamic, OpenSizesAreThoseAskedFor) {
  const struct {
    const char *what;
    OnnxModel::Dims dims;
    const char *properties;
    std::vector<gsize> came;
  } rows[] = {
      {"named", {1, 3, "height", "width"}, "input-width=32 input-height=24", {1, 3, 24, 32}},
      {"without names", {1, 3, -1, -1}, "input-width=32 input-height=24", {1, 3, 24, 32}},
      {"one name for both", {1, 3, "side", "side"}, "input-width=24 input-height=24", {1, 3, 24, 24}},
      {"one name for two sizes", {1, 3, "side", "side"}, "input-width=32 input-height=24", {1, 3, 24, 32}},
      {"the last ones are colours", {1, "height", "width", 3}, "input-width=32 input-height=24", {1, 24, 32, 3}},
      {"the height only", {1, 3, "height", 32}, "input-height=24", {1, 3, 24, 32}},
      {"the batch too", {"batch", 3, "height", "width"}, "input-width=32 input-height=24", {1, 3, 24, 32}},
      {"all of one name", {"any", 3, "any", "any"}, "input-width=32 input-height=24", {1, 3, 24, 32}},
      {"in batches",
       {"batch", 3, "height", "width"},
       "input-width=32 input-height=24 batch-size=4 workers=1",
       {1, 3, 24, 32}},
      {"fixed, and asked for", {1, 3, 24, 32}, "input-width=32 input-height=24", {1, 3, 24, 32}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    start(copyOfThePicture(kOnnxFloat, row.dims), row.properties);
    for (guint8 i = 1; i < 6; ++i) push(i);
    gst_harness_push_event(harness_, gst_event_new_eos());
    for (guint8 i = 1; i < 6; ++i) {
      const auto [dims, first] = pull();
      EXPECT_EQ(dims, row.came);
      EXPECT_FLOAT_EQ(first, static_cast<float>(i));
    }
    EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
    stop();
  }
}

TEST_F(Dynamic, WhatIsMissingOrDoesNotFitIsNamed) {
  const struct {
    const char *what;
    OnnxModel::Dims dims;
    const char *properties;
    std::vector<const char *> says;
  } rows[] = {
      {"nothing said", {1, 3, -1, -1}, "", {"image (float32 [1,3,?,?])", "input-width", "input-height"}},
      {"named", {1, 3, "height", "width"}, "", {"image (float32 [1,3,", "input-width", "input-height"}},
      {"half of it", {1, 3, -1, -1}, "input-height=24", {"image", "leaves its width open", "input-width"}},
      {"another width", {1, 3, 24, 32}, "input-width=64", {"image (float32 [1,3,24,32])", "fixes its width", "64"}},
      {"another height", {1, 24, 32, 3}, "input-height=48", {"image (float32 [1,24,32,3])", "fixes its height", "48"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    const std::string text = errorOf(copyOfThePicture(kOnnxFloat, row.dims), row.properties);
    EXPECT_NE(text.find(dir_.file("model.onnx")), std::string::npos) << text;
    for (const char *words : row.says) EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
  }
}

// Of four pictures; six frames are one run and a half. Nothing has to be asked for, nothing is lost or mixed up.
TEST_F(Dynamic, AFixedBatch) {
  for (const char *properties : {"workers=1 batch-timeout=10000", "workers=1", "workers=2", "batch-size=2"}) {
    SCOPED_TRACE(properties);
    start(colourClassifier({4, 3, 16, 16}), properties);
    for (guint8 i = 0; i < 6; ++i) push(i);
    gst_harness_push_event(harness_, gst_event_new_eos());
    for (guint8 i = 0; i < 6; ++i) {
      const auto [dims, mean] = pull();
      EXPECT_EQ(dims, (std::vector<gsize>{1, 3})) << "of one picture";
      EXPECT_FLOAT_EQ(mean, static_cast<float>(i));
    }
    EXPECT_EQ(stat("inferred"), 6u);
    stop();
  }
}

TEST_F(Dynamic, ABatchThatTheModelDoesNotHave) {
  // one picture is what it takes: no complaint, one by one
  start(colourClassifier({1, 3, 16, 16}), "batch-size=4 workers=1");
  for (guint8 i = 0; i < 6; ++i) push(i);
  gst_harness_push_event(harness_, gst_event_new_eos());
  for (guint8 i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(pull().second, static_cast<float>(i));
  EXPECT_EQ(stat("batches"), 6u);
  stop();
  // open, but its output is of all pictures together
  OnnxModel model;
  model.input("image", kOnnxFloat, {"batch", 3, 16, 16})
      .node("ReduceMean", {"image"}, "mean", {{"axes", {0, 1, 2, 3}}})
      .output("mean", kOnnxFloat, {1, 1, 1, 1});
  const std::string text = errorOf(model, "batch-size=4");
  for (const char *words : {"mean (float32 [1,1,1,1])", "4 pictures", "batch-size=1"})
    EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
  EXPECT_EQ(errorOf(model, "batch-size=1"), "");
}

} // namespace
} // namespace gstzc::test
