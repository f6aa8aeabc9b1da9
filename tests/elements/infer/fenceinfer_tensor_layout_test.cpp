// SPDX-License-Identifier: LGPL-2.1-or-later
// What upstream is asked for where the model takes frames as they are.
#include "tests/elements/infer/fixture.h"

namespace gstzc::test {
namespace {

class TensorLayoutTest : public FenceInferTest {
protected:
  // Takes 16x8 RGB as it is.
  std::string bytes() {
    OnnxModel model;
    model.input("image", kOnnxUInt8, {1, 8, 16, 3})
        .node("Cast", {"image"}, "numbers", {OnnxAttribute::integer("to", kOnnxFloat)})
        .node("ReduceMean", {"numbers"}, "mean", {{"axes", {1, 2, 3}}, OnnxAttribute::integer("keepdims", 0)})
        .output("mean", kOnnxFloat, {1});
    return save(model, "bytes.onnx");
  }
  static std::string element(const std::string &model, const std::string &properties) {
    return "fenceinfer decoder=none output=tensor-meta model-file=\"" + model + "\" " + properties;
  }
};

TEST_F(TensorLayoutTest, UpstreamIsAskedForTheTensorWhereNobodySeesTheFrames) {
  const std::string model = bytes();
  const std::string next = element(model, "layout=frame ! fakesink");
  struct {
    std::string layout, downstream;
    bool tensor;
  } const rows[] = {
      {"auto", "fakesink", true},
      {"auto", "queue ! identity ! fakesink", true},
      {"auto", "tee name=t t. ! queue ! fakesink t. ! queue ! fakesink", true},
      {"auto", "fakesink signal-handoffs=true", false},
      {"auto", "appsink", false},
      {"auto", "tee name=t t. ! queue ! fakesink t. ! queue ! appsink", false},
      {"auto", next, false}, // its model may want more of the picture
      {"model", "appsink", true},
      {"frame", "fakesink", false},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.layout + " ! " + row.downstream);
    GError *error = nullptr;
    const std::string line = "videotestsrc num-buffers=1 ! video/x-raw,format=NV12,width=320,height=240 ! "
                             "videoconvertscale ! " +
                             element(model, "name=infer layout=" + row.layout) + " ! " + row.downstream;
    GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
    ASSERT_EQ(error, nullptr) << error->message;
    gst_element_set_state(pipeline, GST_STATE_PAUSED);
    EXPECT_EQ(gst_element_get_state(pipeline, nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
    GstElement *infer = gst_bin_get_by_name(GST_BIN(pipeline), "infer");
    GstPad *sink = gst_element_get_static_pad(infer, "sink");
    GstCaps *caps = gst_pad_get_current_caps(sink);
    ASSERT_NE(caps, nullptr);
    gint width = 0;
    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    EXPECT_EQ(width, row.tensor ? 16 : 320);
    gst_caps_unref(caps);
    gst_object_unref(sink);
    gst_object_unref(infer);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
  }
}

// Producers of which pads appear while the pipeline runs have their frames' caps by then.
TEST_F(TensorLayoutTest, WhoIsAboutToLinkIsNotRefused) {
  GstElement *infer = gst_parse_launch(element(bytes(), "layout=model").c_str(), nullptr);
  ASSERT_EQ(gst_element_set_state(infer, GST_STATE_PAUSED), GST_STATE_CHANGE_SUCCESS);
  GstPad *sink = gst_element_get_static_pad(infer, "sink");
  GstCaps *caps = gst_pad_query_caps(sink, nullptr);
  GstCaps *frames = gst_caps_from_string("video/x-raw,format=NV12,width=1920,height=1080,framerate=30/1");
  EXPECT_TRUE(gst_caps_can_intersect(caps, frames));
  gint width = 0;
  EXPECT_TRUE(gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width)) << "first what is liked best";
  EXPECT_EQ(width, 16);
  gst_caps_unref(frames);
  gst_caps_unref(caps);
  gst_object_unref(sink);
  gst_element_set_state(infer, GST_STATE_NULL);
  gst_object_unref(infer);
}

} // namespace
} // namespace gstzc::test
