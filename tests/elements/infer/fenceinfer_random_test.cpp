// SPDX-License-Identifier: LGPL-2.1-or-later
// Random steps of an application that starts, stops, seeks, flushes, negotiates anew, changes properties and swaps
// models, in any order and in the middle of everything. What is right is that it goes on: no error, no wait without an
// end, and, in the builds that look, no race and no leak.
#include "tests/elements/infer/fixture.h"

#include <atomic>
#include <random>
#include <string>
#include <thread>

#include <gst/app/gstappsrc.h>

namespace gstzc::test {
namespace {

class Random : public FenceInferTest {
protected:
  // Models of two sizes and one that takes some ms, so that runs are under way when something happens.
  void SetUp() override {
    models_ = {save(constantFaces(32, {{0, 60, 60, 32, 24}}, 3.0f), "small.onnx"),
               save(constantFaces(64, {{0, 60, 60, 32, 24}}, 3.0f), "large.onnx"),
               save(slowFaces({{0, 60, 60, 32, 24}}, 3.0f, 4), "slow.onnx")};
  }

  // appsrc, because its frames bring their caps along: a capsfilter may meet a frame of the caps before.
  void build(const std::string &properties) {
    const std::string line = "appsrc name=source stream-type=seekable format=time ! "
                             "fenceinfer name=infer model-file=\"" +
                             models_[0] + "\" " + properties + " ! queue max-size-buffers=2 ! fakesink sync=false";
    GError *error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    ASSERT_EQ(error, nullptr) << error->message;
    infer_ = gst_bin_get_by_name(GST_BIN(pipeline_), "infer");
    source_ = gst_bin_get_by_name(GST_BIN(pipeline_), "source");
    GstAppSrcCallbacks callbacks = {};
    callbacks.seek_data = [](GstAppSrc *, guint64, gpointer) -> gboolean { return TRUE; };
    gst_app_src_set_callbacks(GST_APP_SRC(source_), &callbacks, nullptr, nullptr);
    feeder_ = std::thread([this] { feed(); });
  }

  // As fast as they are taken. Not with appsrc's own `block`: a seek, and each start is one, empties its queue without
  // telling who waits for room, and then both wait for ever.
  void feed() {
    struct {
      const char *format;
      int width, height;
      std::vector<guint8> pixel;
    } const kinds[] = {{"RGB", 64, 48, {1, 2, 3}},
                       {"NV12", 66, 34, {16, 128, 128}},
                       {"GRAY8", 33, 47, {9}},
                       {"BGRx", 32, 32, {1, 2, 3, 4}}};
    for (guint64 n = 0; !stop_; ++n) {
      while (!stop_ && gst_app_src_get_current_level_buffers(GST_APP_SRC(source_)) >= 2) g_usleep(200);
      const auto &kind = kinds[caps_ % std::size(kinds)];
      GstBuffer *buffer = solid(kind.format, kind.width, kind.height, kind.pixel);
      GST_BUFFER_PTS(buffer) = n * GST_SECOND / 30;
      GstCaps *caps =
          gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, kind.format, "width", G_TYPE_INT, kind.width,
                              "height", G_TYPE_INT, kind.height, "framerate", GST_TYPE_FRACTION, 30, 1, nullptr);
      GstSample *sample = gst_sample_new(buffer, caps, nullptr, nullptr);
      if (gst_app_src_push_sample(GST_APP_SRC(source_), sample) != GST_FLOW_OK) g_usleep(1000);
      gst_sample_unref(sample);
      gst_caps_unref(caps);
      gst_buffer_unref(buffer);
    }
  }

  void TearDown() override {
    if (pipeline_ == nullptr) return;
    stop_ = true;
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    feeder_.join();
    for (GstElement **element : {&infer_, &source_, &pipeline_}) gst_clear_object(element);
  }

  bool seek(int flags) {
    return gst_element_seek_simple(pipeline_, GST_FORMAT_TIME, static_cast<GstSeekFlags>(flags), 0);
  }

  void step(std::mt19937 &random) {
    const auto up_to = [&](unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random); };
    switch (up_to(16)) {
    case 0: gst_element_set_state(pipeline_, GST_STATE_PAUSED); break;
    case 1:
    case 2:
    case 3: gst_element_set_state(pipeline_, GST_STATE_PLAYING); break;
    case 4: gst_element_set_state(pipeline_, up_to(2) != 0 ? GST_STATE_READY : GST_STATE_NULL); break;
    case 5: seek(GST_SEEK_FLAG_FLUSH); break;
    case 6: // waits for the sink to take the frame that is on its way: never in PAUSED
      if (GST_STATE(pipeline_) == GST_STATE_PLAYING && GST_STATE_PENDING(pipeline_) == GST_STATE_VOID_PENDING)
        seek(GST_SEEK_FLAG_NONE);
      break;
    case 7: seek(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE); break;
    case 8:
    case 9: caps_ = up_to(4); break;
    case 10:
      g_object_set(infer_, "model-file", models_[up_to(static_cast<unsigned>(models_.size()))].c_str(), nullptr);
      break;
    case 11: g_object_set(infer_, "inference-interval", 1 + up_to(3), "repeat-results", up_to(2), nullptr); break;
    case 12: g_object_set(infer_, "drop-policy", up_to(3), "threshold", 0.1 * up_to(9), nullptr); break;
    case 13: {
      GstStructure *stats = nullptr;
      g_object_get(infer_, "stats", &stats, nullptr);
      gst_structure_free(stats);
      gst_element_query_position(pipeline_, GST_FORMAT_TIME, nullptr);
      GstQuery *latency = gst_query_new_latency();
      gst_element_query(pipeline_, latency);
      gst_query_unref(latency);
      break;
    }
    case 14: gst_element_send_event(pipeline_, gst_event_new_reconfigure()); break;
    default: g_usleep(up_to(2000)); break;
    }
  }

  // Whoever posts it: an event that comes while the element stops is no error, so that a source has none to report.
  void look(GstMessage *message, int step) {
    GError *error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    ADD_FAILURE() << "step " << step << ", " << GST_MESSAGE_SRC_NAME(message) << ": " << error->message;
    g_clear_error(&error);
    gst_element_set_state(pipeline_, GST_STATE_READY);
  }

  void walk(const std::string &properties, int steps, unsigned seed) {
    build(properties);
    SCOPED_TRACE("properties " + properties + " seed " + std::to_string(seed));
    std::mt19937 random(seed);
    GstBus *bus = gst_element_get_bus(pipeline_);
    const auto errors = [&](int at) {
      bool any = false;
      while (GstMessage *message = gst_bus_pop(bus)) {
        if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
          look(message, at);
          any = true;
        }
        gst_message_unref(message);
      }
      return any;
    };
    for (int i = 0; i < steps; ++i) {
      step(random);
      errors(i);
    }
    // it still works
    g_object_set(infer_, "inference-interval", 1, "drop-policy", 0, nullptr);
    gst_element_set_state(pipeline_, GST_STATE_READY);
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    for (int i = 0; i < 6000 && frames() < 5; ++i) {
      g_usleep(10000);
      if (errors(steps)) gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    }
    EXPECT_GE(frames(), 5u);
    gst_object_unref(bus);
  }

  guint64 frames() {
    GstStructure *stats = nullptr;
    guint64 value = 0;
    g_object_get(infer_, "stats", &stats, nullptr);
    gst_structure_get_uint64(stats, "inferred", &value);
    gst_structure_free(stats);
    return value;
  }

  std::vector<std::string> models_;
  GstElement *pipeline_ = nullptr, *infer_ = nullptr, *source_ = nullptr;
  std::thread feeder_;
  std::atomic<unsigned> caps_ = 0;
  std::atomic<bool> stop_ = false;
};

// Together ten thousand steps, also with ThreadSanitizer and AddressSanitizer.
TEST_F(Random, OneByOne) { walk("workers=2 max-in-flight=3", 4000, 1); }
TEST_F(Random, Batches) { walk("workers=2 batch-size=4 batch-timeout=5 max-in-flight=6", 3000, 2); }
TEST_F(Random, Shared) { walk("model-instance-id=shared workers=1", 3000, 3); }

} // namespace
} // namespace gstzc::test
