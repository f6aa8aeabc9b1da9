// SPDX-License-Identifier: LGPL-2.1-or-later
// What GStreamer's own display sink does on the laboratory's devices: the ground that drmmodifiersink is compared with.
#include <string>

#include <gst/gst.h>

#include <gtest/gtest.h>

namespace {

// Plays the pipeline to its end: "" or its error, message and debug text.
std::string play(const std::string &description) {
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(description.c_str(), &error);
  if (!pipeline) return error->message;
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *message =
      gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  std::string result = message ? "" : "no end within 60 s";
  if (message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    gchar *debug = nullptr;
    gst_message_parse_error(message, &error, &debug);
    result = std::string(error->message) + "\n" + (debug ? debug : "");
    g_error_free(error);
    g_free(debug);
  }
  gst_clear_message(&message);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
  return result;
}

const char *const kSource = "videotestsrc num-buffers=3 ! video/x-raw,width=640,height=480 ! kmssink driver-name=";

// A frame that does not cover the mode that is set: virtio-gpu has no plane that could show it.
TEST(Kmssink, CannotShowASmallFrameOnVirtioWithoutSettingAMode) {
  const std::string error = play(std::string(kSource) + "virtio_gpu");
  EXPECT_NE(error.find("drmModeSetPlane failed: Invalid argument (22)"), std::string::npos) << error;
}

TEST(Kmssink, ShowsTheSameFrameWhenItSetsTheMode) {
  EXPECT_EQ(play(std::string(kSource) + "virtio_gpu force-modesetting=true"), "");
  EXPECT_EQ(play(std::string(kSource) + "vkms force-modesetting=true"), "");
}

} // namespace
