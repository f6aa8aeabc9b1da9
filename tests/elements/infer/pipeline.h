// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole pipelines with fenceinfer in them: what went into an element's pad is kept, and what was said on the bus.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gtest/gtest.h>

namespace gstzc::test {

class Pipeline {
public:
  explicit Pipeline(const std::string &line) {
    GError *error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    EXPECT_EQ(error, nullptr) << line << ": " << (error != nullptr ? error->message : "");
    g_clear_error(&error);
  }
  ~Pipeline() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    for (GstBuffer *buffer : kept_) gst_buffer_unref(buffer);
    gst_object_unref(pipeline_);
  }
  Pipeline(const Pipeline &) = delete;
  Pipeline &operator=(const Pipeline &) = delete;

  // Keeps what comes to the element's sink pad. Before play().
  void keep(const char *element) {
    withPad(element, "sink", [this](GstPad *pad) {
      gst_pad_add_probe(
          pad, GST_PAD_PROBE_TYPE_BUFFER,
          [](GstPad *, GstPadProbeInfo *info, gpointer data) {
            auto *self = static_cast<Pipeline *>(data);
            std::lock_guard lock(self->mutex_);
            self->kept_.push_back(gst_buffer_ref(GST_PAD_PROBE_INFO_BUFFER(info)));
            return GST_PAD_PROBE_OK;
          },
          this, nullptr);
    });
  }
  std::vector<GstBuffer *> kept() { // still ours
    std::lock_guard lock(mutex_);
    return kept_;
  }

  void play() { gst_element_set_state(pipeline_, GST_STATE_PLAYING); }

  // Plays to the end of the stream, at most 30 s: "" or the first error.
  std::string run() {
    play();
    GstMessage *message = next(static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR), 30 * GST_SECOND);
    if (message == nullptr) return "no end of stream";
    std::string text;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      GError *error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      text = error->message;
      g_error_free(error);
    }
    gst_message_unref(message);
    return text;
  }

  GstMessage *next(GstMessageType type, GstClockTime timeout = 0) {
    GstBus *bus = gst_element_get_bus(pipeline_);
    GstMessage *message = gst_bus_timed_pop_filtered(bus, timeout, type);
    gst_object_unref(bus);
    return message;
  }

  guint64 stat(const char *element, const char *field) {
    GstElement *found = gst_bin_get_by_name(GST_BIN(pipeline_), element);
    GstStructure *stats = nullptr;
    g_object_get(found, "stats", &stats, nullptr);
    gst_object_unref(found);
    guint64 value = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
    gst_structure_free(stats);
    return value;
  }

  // Of the caps on the element's sink pad, "RGB 64x48"; "" where there are none.
  std::string frames(const char *element) {
    std::string text;
    withPad(element, "sink", [&](GstPad *pad) {
      GstCaps *caps = gst_pad_get_current_caps(pad);
      if (caps == nullptr) return;
      const GstStructure *s = gst_caps_get_structure(caps, 0);
      int width = 0, height = 0;
      gst_structure_get_int(s, "width", &width);
      gst_structure_get_int(s, "height", &height);
      const char *format = gst_structure_get_string(s, "format");
      text = std::string(format != nullptr ? format : "?") + " " + std::to_string(width) + "x" + std::to_string(height);
      gst_caps_unref(caps);
    });
    return text;
  }

  GstElement *element() const { return pipeline_; }

  template <typename F> void withElement(const char *name, F f) {
    GstElement *found = gst_bin_get_by_name(GST_BIN(pipeline_), name);
    ASSERT_NE(found, nullptr) << name;
    f(found);
    gst_object_unref(found);
  }
  template <typename F> void withPad(const char *element, const char *name, F f) {
    withElement(element, [&](GstElement *found) {
      GstPad *pad = gst_element_get_static_pad(found, name);
      f(pad);
      gst_object_unref(pad);
    });
  }

private:
  GstElement *pipeline_ = nullptr;
  std::mutex mutex_;
  std::vector<GstBuffer *> kept_;
};

} // namespace gstzc::test
