// SPDX-License-Identifier: LGPL-2.1-or-later
// What a user is told when something is wrong: one error, which names the thing and the remedy.
#include "tests/elements/infer/fixture.h"

#include <filesystem>
#include <fstream>

namespace gstzc::test {
namespace {

constexpr const char *kRgb = "video/x-raw,format=RGB,width=256,height=128,framerate=30/1";

class Errors : public FenceInferTest {
protected:
  std::string fast() { return save(constantFaces(128, {kMiddleFace}, 3.0f), "fast.onnx"); }

  void pushSegment() {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  }
};

TEST_F(Errors, ModelsThatCannotBeUsed) {
  std::filesystem::create_directory(dir_.file("directory"));
  std::ofstream(dir_.file("empty.onnx")).close();
  std::ofstream(dir_.file("garbage.onnx")) << "no model at all";
  const auto identity = [&](const char *name, OnnxType type, const OnnxModel::Dims &dims) {
    OnnxModel model;
    model.input("picture", type, dims).output("out", type, dims).node("Identity", {"picture"}, "out");
    save(model, name);
  };
  identity("rank3.onnx", kOnnxFloat, {3, 128, 128});
  identity("channels.onnx", kOnnxFloat, {1, 4, 128, 128});
  identity("int64.onnx", kOnnxInt64, {1, 3, 128, 128});
  identity("open.onnx", kOnnxFloat, {1, 3, -1, -1});
  identity("outputs.onnx", kOnnxFloat, {1, 3, 128, 128});
  struct {
    std::string file;
    GQuark domain;
    gint code;
    std::vector<std::string> says;
  } const rows[] = {
      {"", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, {"model-file is not set"}},
      {"missing.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, {"missing.onnx", "No such file"}},
      {"directory", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND, {"directory", "is a directory"}},
      {"empty.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"empty.onnx", "is empty"}},
      {"garbage.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"garbage.onnx", "ONNX model"}},
      {"rank3.onnx",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_READ,
       {"rank3.onnx", "picture (float32 [3,128,128])", "rank 3"}},
      {"channels.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"channels.onnx", "[1,4,128,128]", "3 channels"}},
      {"int64.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"int64.onnx", "picture", "type"}},
      {"open.onnx", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"open.onnx", "[1,3,?,?]", "input-width"}},
      {"outputs.onnx",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_READ,
       {"outputs.onnx", "out (float32 [1,3,128,128])", "decoder=none"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.file);
    GstElement *element = gst_element_factory_make("fenceinfer", nullptr);
    ASSERT_NE(element, nullptr);
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    if (!row.file.empty()) g_object_set(element, "model-file", dir_.file(row.file).c_str(), nullptr);
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
    expectError(row.domain, row.code, row.says);
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(element);
    gst_clear_object(&bus_);
  }
}

TEST_F(Errors, CapsThatCannotBeRead) {
  struct {
    const char *caps;
    std::vector<std::string> says;
  } const rows[] = {
      {"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48,framerate=30/1",
       {"NV12:0x0100000000000002", "tiled", "drm-format=NV12"}},
      {"video/x-raw,format=P012_LE,width=64,height=48,framerate=30/1", {"P012_LE", "NV12"}},
      {"video/x-raw,format=NV12,width=0,height=48,framerate=30/1", {"0x48"}},
      {"video/x-raw,format=BGRx,width=1073741825,height=1,framerate=30/1", {"1073741825x1", "32767"}},
      {"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=0,framerate=30/1", {"64x0"}},
      {"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=P012,width=64,height=48,framerate=30/1", {"P012"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.caps);
    start(fast(), nullptr);
    gst_harness_push_event(harness_, gst_event_new_stream_start("stream"));
    GstCaps *caps = gst_caps_from_string(row.caps);
    gst_harness_push_event(harness_, gst_event_new_caps(caps)); // true for all events that stay on a pad
    gst_caps_unref(caps);
    pushSegment();
    EXPECT_EQ(gst_harness_push(harness_, gst_buffer_new_allocate(nullptr, 64, nullptr)), GST_FLOW_NOT_NEGOTIATED);
    expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, row.says);
    stop();
  }
}

TEST_F(Errors, AFrameWithoutCaps) {
  start(fast(), nullptr);
  gst_harness_push_event(harness_, gst_event_new_stream_start("stream"));
  pushSegment();
  EXPECT_EQ(gst_harness_push(harness_, solid("RGB", 8, 8, {0, 0, 0})), GST_FLOW_NOT_NEGOTIATED);
  expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, {"before its caps"});
}

TEST_F(Errors, AFrameThatIsTooSmall) {
  start(fast(), kRgb);
  GstFlowReturn flow = gst_harness_push(harness_, gst_buffer_new_allocate(nullptr, 100, nullptr));
  for (int i = 0; i < 100 && flow == GST_FLOW_OK; ++i)
    flow = gst_harness_push(harness_, gst_buffer_new_allocate(nullptr, 100, nullptr));
  EXPECT_EQ(flow, GST_FLOW_ERROR);
  gst_harness_push_event(harness_, gst_event_new_eos());
  expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, {"plane 0"});
  EXPECT_EQ(stat("errors"), 1u);
  EXPECT_GE(stat("dropped"), 1u);
  EXPECT_EQ(stat("frames"), 0u);
}

TEST_F(Errors, WhatIsNoUtf8IsMadeReadable) {
  GstElement *element = gst_element_factory_make("fenceinfer", nullptr);
  bus_ = gst_bus_new();
  gst_element_set_bus(element, bus_);
  g_object_set(element, "model-file", "/nowhere/\xff.onnx", nullptr);
  EXPECT_EQ(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  GstMessage *posted = message(GST_MESSAGE_ERROR);
  ASSERT_NE(posted, nullptr);
  GError *error = nullptr;
  gst_message_parse_error(posted, &error, nullptr);
  EXPECT_TRUE(g_utf8_validate(error->message, -1, nullptr));
  EXPECT_NE(std::string(error->message).find("/nowhere/"), std::string::npos) << error->message;
  g_error_free(error);
  gst_message_unref(posted);
  gst_element_set_state(element, GST_STATE_NULL);
  gst_element_set_bus(element, nullptr);
  gst_object_unref(element);
}

TEST_F(Errors, AnErrorIsPostedAgainAfterAFlush) {
  start(fast(), kRgb);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(gst_harness_push(harness_, gst_buffer_new_allocate(nullptr, 100, nullptr)), GST_FLOW_OK);
    expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, {"plane 0"});
    gst_harness_push_event(harness_, gst_event_new_flush_start());
    gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE));
    pushSegment();
  }
}

TEST_F(Errors, AnErrorIsPostedAgainAfterARestart) {
  start(fast(), nullptr);
  for (int i = 0; i < 2; ++i) {
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=0,height=48,framerate=30/1");
    gst_harness_push_event(harness_, gst_event_new_stream_start("stream"));
    gst_harness_push_event(harness_, gst_event_new_caps(caps)); // true for all events that stay on a pad
    gst_caps_unref(caps);
    pushSegment();
    EXPECT_EQ(gst_harness_push(harness_, gst_buffer_new_allocate(nullptr, 64, nullptr)), GST_FLOW_NOT_NEGOTIATED);
    expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, {"0x48"});
    gst_element_set_state(harness_->element, GST_STATE_NULL);
    gst_element_set_state(harness_->element, GST_STATE_PLAYING);
  }
}

} // namespace
} // namespace gstzc::test
