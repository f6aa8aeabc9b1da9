// SPDX-License-Identifier: LGPL-2.1-or-later
// What a user reads when a pipeline fails: all that the bus says, word for word, against the files in messages/. With
// GSTZC_UPDATE_MESSAGES=1 the files are written anew; read the difference as somebody who knows nothing else.
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace {

// One output, 1920x1080 and 1280x720; RGB on the primary plane, NV12 on an overlay, tiled as Intel does or linear.
const char kProfile[] = R"({
  "driver": "invented", "device": "a test's", "provenance": "a test",
  "planes": [
    {"type": "Primary", "label": "graphics", "zpos": {"min": 0, "max": 5}, "formats": ["XR24", "AR24"],
     "in_formats": [{"modifier": "0x0", "formats": ["XR24", "AR24"]}]},
    {"type": "Overlay", "label": "video", "formats": ["NV12"],
     "in_formats": [{"modifier": "0x0100000000000002", "formats": ["NV12"]}, {"modifier": "0x0", "formats": ["NV12"]}]}
  ]EXTRA})";

const char kTiled[] = "video/x-raw(memory:DMABuf),format=DMA_DRM,width=640,height=480,framerate=30/1,drm-format=";

struct Failing {
  const char *name;
  std::string source;
  const char *settings = "";
  const char *extra = ""; // of the profile
};

const Failing kFailing[] = {
    {"format", "videotestsrc ! video/x-raw,format=Y444,width=640,height=480"},
    {"tiling", std::string("appsrc name=src format=time caps=\"") + kTiled + "NV12:0x0100000000000009\""},
    {"size", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=2048,height=2048", "",
     R"(,"max_size": [1920, 1080])"},
    {"small", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=8,height=8", "", R"(,"min_size": [32, 32])"},
    {"tiny", "videotestsrc num-buffers=3 ! video/x-raw,width=1,height=1", "", R"(,"min_size": [10, 10])"},
    {"scaling", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=640,height=480",
     "render-rectangle=<0,0,1280,720>",
     R"(,"refuses": [{"scaled": true, "error": "ERANGE"}, {"scaled": false, "error": "ENOSPC"}])"},
    {"alpha", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=640,height=480", "alpha=0.5"},
    {"zpos", "videotestsrc num-buffers=3 ! video/x-raw,format=BGRx,width=640,height=480", "zpos=77"},
    {"both", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=640,height=480", "zpos=3 alpha=0.2"},
    {"mode", "videotestsrc num-buffers=3", "mode=99999x7"},
    {"connector", "videotestsrc num-buffers=3", "connector=HDMI-A-7"},
    {"plane", "videotestsrc num-buffers=3 ! video/x-raw,format=NV12", "plane-id=7"},
    {"memory",
     "videotestsrc num-buffers=3 ! identity drop-allocation=true ! video/x-raw,format=NV12,width=640,height=480"},
};

void PrintTo(const Failing &failing, std::ostream *out) { *out << failing.name; }

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string lineOf(GstMessage *message) {
  GError *error = nullptr;
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) gst_message_parse_warning(message, &error, nullptr);
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) gst_message_parse_error(message, &error, nullptr);
  const std::string who = GST_OBJECT_NAME(GST_MESSAGE_SRC(message));
  const std::string line = who.substr(0, who.find_first_of("0123456789")) + ": " + GST_MESSAGE_TYPE_NAME(message) +
                           ": " + (error != nullptr ? error->message : "") + "\n";
  g_clear_error(&error);
  return line;
}

// The sink's errors, as soon as they are posted and until the pipeline has stopped: gst-launch shows them so.
class SinkErrors {
public:
  explicit SinkErrors(GstElement *pipeline) : bus_(gst_element_get_bus(pipeline)) {
    gst_bus_set_sync_handler(bus_, &SinkErrors::note, this, nullptr);
  }
  ~SinkErrors() {
    gst_bus_set_sync_handler(bus_, nullptr, nullptr, nullptr);
    gst_object_unref(bus_);
  }
  SinkErrors(const SinkErrors &) = delete;
  SinkErrors &operator=(const SinkErrors &) = delete;
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

private:
  static GstBusSyncReply note(GstBus *, GstMessage *message, gpointer data) {
    auto *self = static_cast<SinkErrors *>(data);
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR &&
        g_str_has_prefix(GST_OBJECT_NAME(GST_MESSAGE_SRC(message)), "drmmodifiersink")) {
      const std::lock_guard lock(self->mutex_);
      self->lines_.push_back(lineOf(message));
    }
    return GST_BUS_PASS;
  }
  GstBus *bus_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Everything that the bus says until the first error, a line each, and that error.
std::string messagesOf(GstElement *pipeline) {
  std::string text;
  GstBus *bus = gst_element_get_bus(pipeline);
  const auto types = static_cast<GstMessageType>(GST_MESSAGE_WARNING | GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
  for (bool over = false; !over;) {
    GstMessage *message = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, types);
    if (message == nullptr) {
      text += "nothing more\n";
      break;
    }
    over = GST_MESSAGE_TYPE(message) != GST_MESSAGE_WARNING;
    text += lineOf(message);
    gst_message_unref(message);
  }
  gst_object_unref(bus);
  return text;
}

// GstBaseSink lets go of the caps when it goes from PAUSED to READY. A sink whose first frame failed never was in
// PAUSED: it goes to NULL at once, and the reference stays for good.
class CapsOfTheSink {
public:
  explicit CapsOfTheSink(GstElement *pipeline) {
    GstIterator *sinks = gst_bin_iterate_sinks(GST_BIN(pipeline));
    GValue sink = G_VALUE_INIT;
    if (gst_iterator_next(sinks, &sink) == GST_ITERATOR_OK) {
      GstPad *pad = gst_element_get_static_pad(GST_ELEMENT(g_value_get_object(&sink)), "sink");
      caps_ = gst_pad_get_current_caps(pad);
      gst_object_unref(pad);
      g_value_unset(&sink);
    }
    gst_iterator_free(sinks);
  }
  ~CapsOfTheSink() { // when the pipeline has gone
    if (caps_ == nullptr) return;
    if (GST_CAPS_REFCOUNT_VALUE(caps_) > 1) gst_caps_unref(caps_);
    gst_caps_unref(caps_);
  }
  CapsOfTheSink(const CapsOfTheSink &) = delete;
  CapsOfTheSink &operator=(const CapsOfTheSink &) = delete;

private:
  GstCaps *caps_ = nullptr;
};

class Messages : public testing::TestWithParam<Failing> {};

TEST_P(Messages, NameTheCauseAndTheRemedy) {
  const Failing &failing = GetParam();
  const gstzc::test::TempDir dir;
  const std::string profile = dir.file("profile.json");
  std::ofstream(profile) << replaced(kProfile, "EXTRA", failing.extra);
  const std::string line = failing.source + " ! drmmodifiersink device-profile=" + profile + " " + failing.settings;
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
  ASSERT_EQ(error, nullptr) << error->message;
  SinkErrors errors(pipeline);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  if (GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src")) { // a frame that nobody needs to look into
    GstBuffer *buffer = gst_buffer_new_allocate(nullptr, 64, nullptr);
    GstFlowReturn flow;
    g_signal_emit_by_name(src, "push-buffer", buffer, &flow);
    gst_buffer_unref(buffer);
    gst_object_unref(src);
  }
  std::string said = messagesOf(pipeline);
  const CapsOfTheSink caps(pipeline);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
  for (const std::string &own : errors.lines())
    if (said.find(own) == std::string::npos) said += own;
  const std::string found = replaced(line, profile, "PROFILE") + "\n\n" + replaced(said, profile, "PROFILE");

  const std::string golden = std::string(GSTZC_MESSAGES) + "/" + failing.name + ".txt";
  if (std::getenv("GSTZC_UPDATE_MESSAGES") != nullptr) {
    std::ofstream(golden) << found;
    return;
  }
  std::ifstream file(golden);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(found, expected.str()) << golden;
}
INSTANTIATE_TEST_SUITE_P(Failing, Messages, testing::ValuesIn(kFailing),
                         [](const auto &instance) { return std::string(instance.param.name); });

} // namespace
