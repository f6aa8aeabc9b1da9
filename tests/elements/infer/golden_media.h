// SPDX-License-Identifier: LGPL-2.1-or-later
// The published models, pictures and clips that the golden tests use: where they are, and their frames.
#pragma once

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/reference/preprocess_reference.h"

namespace gstzc::test {

inline std::string sharedFile(const std::string &path) {
  const char *shared = std::getenv("GSTZC_SHARED");
  const std::string file = shared != nullptr ? std::string(shared) + "/" + path : "";
  return std::filesystem::exists(file) ? file : "";
}

// BlazeFace comes as a package of its own, which scripts/demo keeps in the cache directory.
inline std::string blazeFaceFile(const char *variable) {
  const char *file = std::getenv(variable);
  return file != nullptr && std::filesystem::exists(file) ? file : "";
}

// Skips the test where a file is not there.
#define GSTZC_NEEDS(file, what) \
  if ((file).empty()) GTEST_SKIP() << what << " is not on this machine"

// From a file to raw frames.
inline std::string decodingOf(const std::string &file) {
  const bool clip = file.ends_with(".mp4");
  return "filesrc location=\"" + file + "\" ! " + (clip ? "qtdemux ! h264parse ! openh264dec" : "pngdec");
}

// A sample as the reference takes it, with what its caps say of the colours.
inline reference::Picture pictureOf(GstSample *sample) {
  reference::Picture picture;
  GstVideoInfo info;
  GstVideoFrame frame;
  if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
      !gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample), GST_MAP_READ)) {
    ADD_FAILURE() << "a frame that cannot be read";
    return picture;
  }
  picture.format = gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&info));
  picture.width = info.width, picture.height = info.height;
  const auto shapes = reference::planesOf(picture.format, info.width, info.height);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto *data = static_cast<const uint8_t *>(GST_VIDEO_FRAME_PLANE_DATA(&frame, i));
    const int stride = GST_VIDEO_FRAME_PLANE_STRIDE(&frame, i);
    const int used = shapes[i].columns * shapes[i].pixel; // the last row may end there
    picture.planes.emplace_back(data, data + static_cast<ptrdiff_t>(stride) * (shapes[i].rows - 1) + used);
    picture.strides.push_back(stride);
  }
  gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &picture.kr, &picture.kb);
  picture.full_range = info.colorimetry.range == GST_VIDEO_COLOR_RANGE_0_255;
  picture.chroma_left = (info.chroma_site & GST_VIDEO_CHROMA_SITE_H_COSITED) != 0;
  picture.chroma_top = (info.chroma_site & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0;
  gst_video_frame_unmap(&frame);
  return picture;
}

// Runs `file` through "decoding ! videoconvert ! caps ! filter", where only the frames for which `wanted` (by number,
// from 0 in decoding order) reach the filter, and calls `see` with each that leaves, in this thread; ends after frame
// `last`. False where the pipeline failed, which is said.
inline bool runFrames(const std::string &file, const std::string &caps, const std::string &filter,
                      const std::function<bool(int)> &wanted, const std::function<void(GstSample *, int)> &see,
                      int last = G_MAXINT) {
  struct Selection {
    const std::function<bool(int)> *wanted;
    std::atomic<int> next = 0;
  } selection{&wanted};
  const std::string line = decodingOf(file) + " ! videoconvert ! video/x-raw," + caps + " ! identity name=select ! " +
                           filter + " ! appsink name=out sync=false max-buffers=2";
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
  if (error != nullptr) {
    ADD_FAILURE() << line << ": " << error->message;
    g_clear_error(&error);
    gst_clear_object(&pipeline);
    return false;
  }
  GstElement *select = gst_bin_get_by_name(GST_BIN(pipeline), "select");
  GstPad *pad = gst_element_get_static_pad(select, "src");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad *, GstPadProbeInfo *, gpointer data) {
        auto *s = static_cast<Selection *>(data);
        const int number = s->next++;
        return (*s->wanted)(number) ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP;
      },
      &selection, nullptr);
  gst_object_unref(pad);
  gst_object_unref(select);
  GstElement *out = gst_bin_get_by_name(GST_BIN(pipeline), "out");
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  bool ok = true;
  for (int number = 0; number <= last; ++number) {
    GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(out), 60 * GST_SECOND);
    if (sample == nullptr) {
      ok = gst_app_sink_is_eos(GST_APP_SINK(out));
      break;
    }
    while (!wanted(number)) ++number;
    see(sample, number);
    gst_sample_unref(sample);
  }
  if (!ok) {
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    if (message != nullptr) gst_message_parse_error(message, &error, nullptr);
    ADD_FAILURE() << line << ": " << (error != nullptr ? error->message : "no frame for 60 s");
    g_clear_error(&error);
    gst_clear_message(&message);
    gst_object_unref(bus);
  }
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(out);
  gst_object_unref(pipeline);
  return ok;
}

} // namespace gstzc::test
