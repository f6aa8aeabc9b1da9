// SPDX-License-Identifier: LGPL-2.1-or-later
// Another model while frames flow, and models that several elements share.
#include "tests/elements/infer/fixture.h"

#include <cmath>
#include <fstream>
#include <thread>

#include "tests/support/dmabuf_memory.h"
#include "tests/support/open_fds.h"
#include "tests/support/scale.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=128,height=128,framerate=30/1";

class Swap : public FenceInferTest {
protected:
  std::string faces(const char *name, float raw_score, int side = 128) {
    EncodedFace face = kMiddleFace;
    if (side == 256) face = {0, 124, 124, 64, 48}; // the same place at twice the size
    return save(constantFaces(side, {face}, raw_score), name);
  }
  std::string garbage() {
    std::ofstream(dir_.file("garbage.onnx")) << "this is no model";
    return dir_.file("garbage.onnx");
  }
  static float scoreOf(float raw) { return 1 / (1 + std::exp(-raw)); }

  float scoreOfNext() {
    EXPECT_EQ(gst_harness_push(harness_, solid("RGB", 128, 128, {1, 2, 3})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    const auto boxes = boxesOf(out);
    gst_buffer_unref(out);
    EXPECT_EQ(boxes.size(), 1u);
    if (boxes.empty()) return -1;
    EXPECT_EQ(boxes[0].w, 32);
    return boxes[0].score;
  }

  // Sets it and waits for the word on it: the error, or "" for success.
  std::string swapTo(const std::string &file) {
    g_object_set(harness_->element, "model-file", file.c_str(), nullptr);
    GstMessage *told = message(GST_MESSAGE_ELEMENT);
    if (told == nullptr) return "nothing was said";
    const GstStructure *structure = gst_message_get_structure(told);
    EXPECT_TRUE(gst_structure_has_name(structure, "fenceinfer-model"));
    EXPECT_EQ(gst_structure_get_string(structure, "model-file"), file);
    gboolean success = FALSE;
    EXPECT_TRUE(gst_structure_get_boolean(structure, "success", &success));
    const char *error = gst_structure_get_string(structure, "error");
    EXPECT_EQ(success, error == nullptr);
    const std::string text = error != nullptr ? error : "";
    gst_message_unref(told);
    return text;
  }
  std::string modelFile() {
    gchar *text = nullptr;
    g_object_get(harness_->element, "model-file", &text, nullptr);
    const std::string file = text;
    g_free(text);
    return file;
  }
};

TEST_F(Swap, TheNextFramesGoToTheNewModel) {
  start(faces("a.onnx", 3.0f), kCaps);
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(3));
  EXPECT_EQ(swapTo(faces("b.onnx", 1.0f)), "");
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1));
  EXPECT_EQ(swapTo(faces("larger.onnx", 2.0f, 256)), "") << "frames are scaled: another size is no matter";
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(2));
  EXPECT_EQ(modelFile(), dir_.file("larger.onnx"));
  EXPECT_EQ(message(GST_MESSAGE_WARNING, 0), nullptr);
}

// Whoever sets it hears what became of that, also where it was set again before the model was there.
TEST_F(Swap, EachRequestIsAnsweredAndTheLastOneWins) {
  const std::string a = faces("a.onnx", 3.0f), b = faces("b.onnx", 2.0f), c = faces("c.onnx", 1.0f);
  start(a, kCaps);
  for (const std::string &file : {b, c}) g_object_set(harness_->element, "model-file", file.c_str(), nullptr);
  bool answered[2] = {};
  for (int i = 0; i < 2; ++i) {
    GstMessage *told = message(GST_MESSAGE_ELEMENT);
    ASSERT_NE(told, nullptr);
    const GstStructure *structure = gst_message_get_structure(told);
    const bool last = gst_structure_get_string(structure, "model-file") == c;
    gboolean success = FALSE;
    gst_structure_get_boolean(structure, "success", &success);
    EXPECT_TRUE(success || !last);
    if (!success) {
      EXPECT_STREQ(gst_structure_get_string(structure, "error"), "model-file was set again before this one was loaded");
    }
    answered[last] = true;
    gst_message_unref(told);
  }
  EXPECT_TRUE(answered[0] && answered[1]);
  EXPECT_EQ(message(GST_MESSAGE_WARNING, 0), nullptr) << "nothing is wrong";
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1));
  EXPECT_EQ(modelFile(), c);
}

TEST_F(Swap, AFileThatHasChangedIsLoadedAgain) {
  const std::string file = faces("a.onnx", 3.0f);
  start(file, kCaps);
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(3));
  faces("a.onnx", 1.0f);
  EXPECT_EQ(swapTo(file), "");
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1));
}

TEST_F(Swap, NoFrameIsLostWhileModelsChange) {
  start(faces("a.onnx", 3.0f), kCaps, "max-in-flight=4");
  faces("b.onnx", 1.0f);
  guint pulled = 0;
  for (int i = 0; i < 200; ++i) {
    if (i % 20 == 10)
      g_object_set(harness_->element, "model-file", dir_.file(i % 40 == 10 ? "b.onnx" : "a.onnx").c_str(), nullptr);
    GstBuffer *buffer = solid("RGB", 128, 128, {1, 2, 3});
    GST_BUFFER_OFFSET(buffer) = static_cast<guint64>(i);
    ASSERT_EQ(gst_harness_push(harness_, buffer), GST_FLOW_OK);
  }
  gst_harness_push_event(harness_, gst_event_new_eos());
  for (; pulled < 200; ++pulled) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(out), pulled);
    EXPECT_EQ(boxesOf(out).size(), 1u);
    gst_buffer_unref(out);
  }
}

TEST_F(Swap, WhatDoesNotLoadOrFitLeavesTheOldOne) {
  const std::string good = faces("a.onnx", 3.0f);
  OnnxModel four;
  four.input("image", kOnnxFloat, {1, 4, 8, 8})
      .node("Identity", {"image"}, "out")
      .output("out", kOnnxFloat, {1, 4, 8, 8});
  struct {
    std::string file;
    std::vector<const char *> said;
  } const rows[] = {{"/nowhere/there.onnx", {"/nowhere/there.onnx", "No such file"}},
                    {garbage(), {"garbage.onnx"}},
                    {dir_.path(), {"is a directory"}},
                    {save(four, "four.onnx"), {"four.onnx", "image (float32 [1,4,8,8])"}},
                    {"", {"model-file is not set"}}};
  start(good, kCaps);
  for (const auto &row : rows) {
    const std::string error = swapTo(row.file);
    for (const char *words : row.said) EXPECT_NE(error.find(words), std::string::npos) << row.file << ": " << error;
    GstMessage *warning = message(GST_MESSAGE_WARNING);
    ASSERT_NE(warning, nullptr) << row.file;
    gst_message_unref(warning);
    EXPECT_EQ(message(GST_MESSAGE_WARNING, 0), nullptr) << "more than one";
    EXPECT_EQ(modelFile(), good);
    EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(3));
  }
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
}

TEST_F(Swap, AModelWithoutNumbersDoesNotTakeOver) {
  OnnxModel nan;
  nan.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("ReduceMean", {"image"}, "means", {{"axes", {2, 3}}, OnnxAttribute::integer("keepdims", 0)})
      .node("Exp", {"means"}, "positive")
      .node("Neg", {"positive"}, "negative")
      .node("Log", {"negative"}, "scores")
      .output("scores", kOnnxFloat, {1, 3});
  start(faces("a.onnx", 3.0f), kCaps);
  gst_util_set_object_arg(G_OBJECT(harness_->element), "decoder", "classification");
  const std::string error = swapTo(save(nan, "nan.onnx"));
  for (const char *words : {"nan.onnx", "scores (float32 [1,3])", "not numbers (NaN)"})
    EXPECT_NE(error.find(words), std::string::npos) << error;
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(3));
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
}

// Else the next start would fail with what belonged to the model that was refused.
TEST_F(Swap, WhatWasSetForARefusedModelGoesBackWithIt) {
  const std::string good = faces("a.onnx", 3.0f);
  start(good, kCaps);
  g_object_set(harness_->element, "labels-file", "/nowhere/labels.txt", "mean", "7", "threshold", 0.25, nullptr);
  EXPECT_NE(swapTo(garbage()), "");
  gchar *labels = nullptr, *mean = nullptr;
  gfloat threshold = 0;
  g_object_get(harness_->element, "labels-file", &labels, "mean", &mean, "threshold", &threshold, nullptr);
  EXPECT_EQ(labels, nullptr);
  EXPECT_EQ(mean, nullptr);
  EXPECT_FLOAT_EQ(threshold, 0.25f) << "which belongs to no model";
  EXPECT_EQ(modelFile(), good);
  EXPECT_EQ(gst_element_set_state(harness_->element, GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  EXPECT_EQ(gst_element_set_state(harness_->element, GST_STATE_PLAYING), GST_STATE_CHANGE_SUCCESS);
  g_free(labels);
  g_free(mean);
}

TEST_F(Swap, WarnsAsAStartDoesOfNothingToAttach) {
  start(faces("a.onnx", 3.0f), kCaps);
  gst_util_set_object_arg(G_OBJECT(harness_->element), "decoder", "none");
  EXPECT_EQ(swapTo(faces("b.onnx", 1.0f)), "");
  GstMessage *warning = message(GST_MESSAGE_WARNING);
  ASSERT_NE(warning, nullptr);
  gst_message_unref(warning);
}

TEST_F(Swap, SetBeforeTheStartItIsNoSwap) {
  start(faces("a.onnx", 3.0f), nullptr);
  gst_element_set_state(harness_->element, GST_STATE_READY);
  g_object_set(harness_->element, "model-file", faces("b.onnx", 1.0f).c_str(), nullptr);
  gst_element_set_state(harness_->element, GST_STATE_PLAYING);
  gst_harness_set_src_caps_str(harness_, kCaps);
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1));
  EXPECT_EQ(message(GST_MESSAGE_ELEMENT, 0), nullptr);
}

TEST_F(Swap, StoppingWhileAModelLoadsIsQuiet) {
  const std::string a = faces("a.onnx", 3.0f), b = faces("b.onnx", 1.0f);
  for (int i = 0; i < 20; ++i) {
    start(a, kCaps);
    g_object_set(harness_->element, "model-file", b.c_str(), nullptr);
    if (i % 2 != 0) std::this_thread::yield();
    stop();
  }
}

// What starts, swaps and stops leave behind would add up: descriptors, memory.
TEST_F(Swap, FiveHundredRunsLeaveNothingBehind) {
  const std::string a = faces("a.onnx", 3.0f), b = faces("b.onnx", 1.0f);
  const int runs = rounds(500), first = runs / 5;
  size_t fds = 0;
  [[maybe_unused]] long pages = 0;
  for (int i = 0; i < runs; ++i) {
    start(a, kCaps, i % 2 == 0 ? "workers=2" : "workers=1 model-instance-id=shared");
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 128, 128, {1, 2, 3})), GST_FLOW_OK);
    if (i % 3 == 0) {
      EXPECT_EQ(swapTo(b), "");
    } else { // stopped while it is being loaded, or just after
      g_object_set(harness_->element, "model-file", b.c_str(), nullptr);
    }
    if (i % 3 != 2) {
      ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 128, 128, {1, 2, 3})), GST_FLOW_OK);
      for (int frame = 0; frame < 2; ++frame) gst_buffer_unref(gst_harness_pull(harness_));
    }
    stop();
    if (i == first) {
      fds = openFds();
      pages = residentPages();
    }
  }
  // a load that came too late holds its element, and that its bus, until it has ended
  for (int i = 0; i < 1000 && openFds() > fds; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(openFds(), fds + 2) << "GLib may keep a wake-up descriptor";
#ifndef __SANITIZE_ADDRESS__ // which keeps what is freed for a while, and finds leaks by itself
  EXPECT_LE(residentPages(), pages + 4096) << "16 MiB: 40 KiB for each run";
#endif
}

TEST_F(Swap, ElementsThatShareAModelChangeTogether) {
  const std::string a = faces("a.onnx", 3.0f), b = faces("b.onnx", 1.0f);
  start(a, kCaps, "model-instance-id=shared");
  GstHarness *first = std::exchange(harness_, nullptr);
  GstBus *first_bus = std::exchange(bus_, nullptr);
  start(a, kCaps, "model-instance-id=shared threshold=0.2");
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(3));
  EXPECT_EQ(swapTo(b), "");
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1));
  std::swap(harness_, first);
  EXPECT_FLOAT_EQ(scoreOfNext(), scoreOf(1)) << "the other one has the old model still";
  std::swap(harness_, first);
  gst_harness_teardown(first);
  gst_bus_set_flushing(first_bus, TRUE);
  gst_object_unref(first_bus);
}

TEST_F(Swap, SharingWithOtherOptionsIsAnErrorThatNamesThem) {
  const std::string a = faces("a.onnx", 3.0f), b = faces("b.onnx", 1.0f);
  start(a, kCaps, "model-instance-id=shared");
  for (const auto &[properties, said] : {std::pair{"model-file=\"" + b + "\"", std::string("b.onnx")},
                                         {"batch-size=3 model-file=\"" + a + "\"", "3"},
                                         {"intra-threads=2 model-file=\"" + a + "\"", "2"}}) {
    GstElement *other = gst_parse_launch(("fenceinfer model-instance-id=shared " + properties).c_str(), nullptr);
    GstBus *bus = gst_bus_new();
    gst_element_set_bus(other, bus);
    EXPECT_EQ(gst_element_set_state(other, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE) << properties;
    GstMessage *posted = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    ASSERT_NE(posted, nullptr) << properties;
    GError *error = nullptr;
    gst_message_parse_error(posted, &error, nullptr);
    EXPECT_NE(std::string(error->message).find("shared"), std::string::npos) << error->message;
    EXPECT_NE(std::string(error->message).find(said), std::string::npos) << error->message;
    g_clear_error(&error);
    gst_message_unref(posted);
    gst_element_set_state(other, GST_STATE_NULL);
    gst_bus_set_flushing(bus, TRUE); // its messages hold the element, which holds it
    gst_object_unref(other);
    gst_object_unref(bus);
  }
}

} // namespace
} // namespace gstzc::test
