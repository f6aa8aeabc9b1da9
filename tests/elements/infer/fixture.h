// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests of fenceinfer share: a harness round the element, frames, and results read back.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gst/check/gstharness.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/support/face_models.h"
#include "tests/support/temp_dir.h"

namespace gstzc::test {

// A face of 32x24 in the middle of a 128x128 input: anchor 0 is at (4,4).
constexpr EncodedFace kMiddleFace = {0, 60, 60, 32, 24};

struct Box {
  int x = 0, y = 0, w = 0, h = 0;
  float score = 0;
  std::string label;
};

inline std::vector<Box> boxesOf(GstBuffer *buffer) {
  std::vector<Box> boxes;
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (meta == nullptr) return boxes;
  gpointer state = nullptr;
  GstAnalyticsODMtd mtd;
  while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &mtd)) {
    Box box;
    gst_analytics_od_mtd_get_location(&mtd, &box.x, &box.y, &box.w, &box.h, &box.score);
    box.label = g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&mtd));
    boxes.push_back(box);
  }
  return boxes;
}

class FenceInferTest : public testing::Test {
protected:
  ~FenceInferTest() override { stop(); }

  void stop() {
    if (harness_ != nullptr) gst_harness_teardown(std::exchange(harness_, nullptr));
    if (bus_ != nullptr) gst_bus_set_flushing(bus_, TRUE); // messages hold the element, which holds the bus
    gst_clear_object(&bus_);
  }

  std::string save(const OnnxModel &model, const std::string &name = "model.onnx") {
    model.save(dir_.file(name));
    return dir_.file(name);
  }

  // A harness that plays; further properties as "name=value name=value".
  GstHarness *start(const std::string &model_file, const char *caps, const std::string &properties = "") {
    const std::string line = "fenceinfer name=infer model-file=\"" + model_file + "\" " + properties;
    GError *error = nullptr;
    GstElement *element = gst_parse_launch(line.c_str(), &error);
    EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    harness_ = gst_harness_new_with_element(element, "sink", "src");
    gst_object_unref(element);
    if (caps != nullptr) gst_harness_set_src_caps_str(harness_, caps);
    return harness_;
  }

  guint64 stat(const char *field) {
    GstStructure *stats = nullptr;
    g_object_get(harness_->element, "stats", &stats, nullptr);
    guint64 value = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
    gst_structure_free(stats);
    return value;
  }

  // The next message of the kind, within 10 s; null if there is none.
  GstMessage *message(GstMessageType type, GstClockTime timeout = 10 * GST_SECOND) {
    return gst_bus_timed_pop_filtered(bus_, timeout, type);
  }

  // Takes the error off the bus and looks at it; there must be exactly one.
  void expectError(GQuark domain, gint code, const std::vector<std::string> &says) {
    GstMessage *posted = message(GST_MESSAGE_ERROR);
    ASSERT_NE(posted, nullptr) << "no error was posted";
    GError *error = nullptr;
    gst_message_parse_error(posted, &error, nullptr);
    const std::string text = error->message;
    EXPECT_TRUE(g_error_matches(error, domain, code)) << g_quark_to_string(error->domain) << " " << error->code;
    for (const std::string &part : says)
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\": " << text;
    g_error_free(error);
    gst_message_unref(posted);
    GstMessage *second = message(GST_MESSAGE_ERROR, 0);
    EXPECT_EQ(second, nullptr) << "a second error";
    gst_clear_message(&second);
  }

  TempDir dir_;
  GstHarness *harness_ = nullptr;
  GstBus *bus_ = nullptr;
};

// A frame of one colour, tightly packed as the caps' defaults say.
inline GstBuffer *solid(const char *format, int width, int height, const std::vector<guint8> &pixel) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, gst_video_format_from_string(format), width, height);
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, info.size, nullptr);
  GstMapInfo map;
  gst_buffer_map(buffer, &map, GST_MAP_WRITE);
  if (info.finfo->format == GST_VIDEO_FORMAT_NV12) { // pixel: Y U V
    memset(map.data, pixel[0], info.offset[1]);
    for (gsize i = info.offset[1]; i + 1 < map.size; i += 2) map.data[i] = pixel[1], map.data[i + 1] = pixel[2];
  } else {
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        for (gsize k = 0; k < pixel.size(); ++k) map.data[y * info.stride[0] + x * pixel.size() + k] = pixel[k];
  }
  gst_buffer_unmap(buffer, &map);
  return buffer;
}

} // namespace gstzc::test
