// SPDX-License-Identifier: LGPL-2.1-or-later
// A pipeline that ends in `appsink name=sink` or not, the element under test being `name=up`.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gst/app/app.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::test {

constexpr GstClockTime kDeadline = 20 * GST_SECOND;

class Pipeline {
public:
  explicit Pipeline(const std::string &line) {
    GError *error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    EXPECT_EQ(error, nullptr) << line << ": " << error->message;
    g_clear_error(&error);
    gst_object_ref_sink(pipeline_);
  }
  ~Pipeline() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_object_unref(pipeline_);
  }
  Pipeline(const Pipeline &) = delete;
  Pipeline &operator=(const Pipeline &) = delete;

  GstElement *get() const { return pipeline_; }

  // borrowed: it lives as long as the pipeline
  GstElement *element(const char *name) const {
    GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline_), name);
    EXPECT_NE(element, nullptr) << name;
    gst_object_unref(element);
    return element;
  }

  GstStateChangeReturn setState(GstState state) { return gst_element_set_state(pipeline_, state); }

  // Plays to the end. The first error as "text | debug text", "" for none, "timeout" past the deadline.
  std::string run() {
    setState(GST_STATE_PLAYING);
    return waitEnd();
  }
  std::string waitEnd() {
    GstBus *bus = gst_element_get_bus(pipeline_);
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, kDeadline, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
    gst_object_unref(bus);
    if (message == nullptr) return "timeout";
    std::string result;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      GError *error = nullptr;
      gchar *debug = nullptr;
      gst_message_parse_error(message, &error, &debug);
      domain_ = error->domain;
      code_ = error->code;
      source_ = GST_MESSAGE_SRC_NAME(message);
      result = std::string(error->message) + " | " + (debug != nullptr ? debug : "");
      g_clear_error(&error);
      g_free(debug);
    }
    gst_message_unref(message);
    return result;
  }

  // of the error that run() returned
  GQuark errorDomain() const { return domain_; }
  int errorCode() const { return code_; }
  const std::string &errorSource() const { return source_; }

  guint64 stat(const char *field, const char *name = "up") const {
    GstStructure *stats = nullptr;
    g_object_get(element(name), "stats", &stats, nullptr);
    guint64 value = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
    gst_structure_free(stats);
    return value;
  }

  // (transfer full), null at the end or past the deadline
  GstSample *pull(const char *name = "sink") {
    return gst_app_sink_try_pull_sample(GST_APP_SINK(element(name)), kDeadline);
  }

  // an appsink tells of the end only when all of its frames are taken
  void drain(const char *name = "sink") {
    while (GstSample *sample = pull(name)) gst_sample_unref(sample);
  }

private:
  GstElement *pipeline_ = nullptr;
  GQuark domain_ = 0;
  int code_ = 0;
  std::string source_;
};

inline BufferId idOf(GstBuffer *buffer) {
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  EXPECT_TRUE(gst_is_dmabuf_memory(memory));
  return bufferId(gst_dmabuf_memory_get_fd(memory)).value();
}

// Lets `answer` fill the ALLOCATION queries that reach the appsink
class Downstream {
public:
  Downstream(const Pipeline &pipeline, std::function<void(GstQuery *)> answer) : answer_(std::move(answer)) {
    GstPad *pad = gst_element_get_static_pad(pipeline.element("sink"), "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, onQuery, this, nullptr);
    gst_object_unref(pad);
  }

private:
  static GstPadProbeReturn onQuery(GstPad *, GstPadProbeInfo *info, gpointer self) {
    GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
    if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION || !(info->type & GST_PAD_PROBE_TYPE_PUSH))
      return GST_PAD_PROBE_OK;
    static_cast<Downstream *>(self)->answer_(query);
    return GST_PAD_PROBE_HANDLED;
  }
  std::function<void(GstQuery *)> answer_;
};

// The pixels of a frame without its padding
inline std::vector<guint8> pixels(GstSample *sample) {
  auto frame = parseFrameCaps(gst_sample_get_caps(sample)).take();
  GstBuffer *buffer = gst_sample_get_buffer(sample);
  auto layout = frameLayout(buffer, frame);
  EXPECT_TRUE(layout.ok()) << layout.error().message();
  std::vector<guint8> result;
  GstMapInfo map;
  EXPECT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
  for (guint i = 0; i < layout->n_planes; ++i)
    for (gint row = 0; row < layout->planes[i].rows; ++row) {
      const guint8 *line = map.data + layout->planes[i].in_memory + static_cast<gsize>(layout->planes[i].stride) * row;
      result.insert(result.end(), line, line + layout->planes[i].row_bytes);
      // an odd row of packed 4:2:2 ends in half a pair, whose second luma nobody writes
      const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&frame.info);
      if (frame.width() % 2 == 0) continue;
      if (format == GST_VIDEO_FORMAT_YUY2 || format == GST_VIDEO_FORMAT_YVYU) result.end()[-2] = 0;
      if (format == GST_VIDEO_FORMAT_UYVY || format == GST_VIDEO_FORMAT_VYUY) result.end()[-1] = 0;
    }
  gst_buffer_unmap(buffer, &map);
  return result;
}

} // namespace gstzc::test
