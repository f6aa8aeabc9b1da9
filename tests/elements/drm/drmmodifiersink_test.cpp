// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink on a machine without a display of its own. No test lets it choose a device: on a developer's machine
// that would be the screen.
#include <chrono>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/core/unique_fd.h"

using gstzc::UniqueFd;

namespace {

struct Outcome {
  GstStateChangeReturn result;
  std::vector<std::string> errors;
};

Outcome toPaused(const char *settings) {
  Outcome outcome;
  GError *error = nullptr;
  GstElement *sink = gst_parse_launch((std::string("drmmodifiersink ") + settings).c_str(), &error);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  GstBus *bus = gst_bus_new();
  gst_element_set_bus(sink, bus);
  outcome.result = gst_element_set_state(sink, GST_STATE_PAUSED);
  gst_element_set_state(sink, GST_STATE_NULL);
  while (GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
    gst_message_parse_error(message, &error, nullptr);
    outcome.errors.push_back(error->message);
    g_clear_error(&error);
    gst_message_unref(message);
  }
  gst_element_set_bus(sink, nullptr);
  gst_object_unref(bus);
  gst_object_unref(sink);
  return outcome;
}

struct Case {
  const char *settings;
  std::vector<const char *> parts; // of the error
};

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, IsOneErrorWithCauseAndRemedy) {
  const auto before = std::chrono::steady_clock::now();
  const Outcome outcome = toPaused(GetParam().settings);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  EXPECT_EQ(outcome.result, GST_STATE_CHANGE_FAILURE);
  ASSERT_EQ(outcome.errors.size(), 1u);
  for (const char *part : GetParam().parts)
    EXPECT_NE(outcome.errors[0].find(part), std::string::npos) << outcome.errors[0];
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Refusal,
    testing::Values(Case{"device=/dev/dri/card999", {"/dev/dri/card999", "No such file or directory (2)", "device="}},
                    Case{"device=/dev/null", {"/dev/null", "card node under /dev/dri"}},
                    Case{"device=/tmp", {"open /tmp", "Is a directory (21)", "card nodes under /dev/dri"}},
                    Case{"fd=987654", {"fd=987654", "Bad file descriptor (9)"}},
                    Case{"device=/dev/dri/card999 mode=1920", {"mode=1920 is no mode", "1920x1080@60"}},
                    Case{"device=/dev/dri/card999 mode=0x10", {"mode=0x10 has a side outside 1 to 16384"}}));

TEST(Sink, DoesNotTakeTheDescriptor) {
  const UniqueFd fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Outcome outcome = toPaused(("fd=" + std::to_string(fd.get())).c_str());
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_NE(fcntl(fd.get(), F_GETFD), -1);
}

TEST(Sink, CanTryAgain) {
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  gst_object_ref_sink(sink);
  g_object_set(sink, "device", "/dev/dri/card999", nullptr);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(gst_element_set_state(sink, GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
    EXPECT_EQ(gst_element_set_state(sink, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  }
  gst_object_unref(sink);
}

TEST(Sink, TemplateTakesDmaBufsAndSystemMemory) {
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  gst_object_ref_sink(sink);
  GstPad *pad = gst_element_get_static_pad(sink, "sink");
  GstCaps *caps = gst_pad_query_caps(pad, nullptr); // before the device is open
  const auto takes = [&](const char *text) {
    GstCaps *other = gst_caps_from_string(text);
    const bool yes = gst_caps_can_intersect(caps, other);
    gst_caps_unref(other);
    return yes;
  };
  EXPECT_TRUE(takes("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48"));
  EXPECT_TRUE(takes("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR48,width=64,height=48"));
  for (const char *format : {"NV12", "BGRx", "I420", "P010_10LE", "RGB16"})
    EXPECT_TRUE(takes((std::string("video/x-raw,width=64,height=48,format=") + format).c_str())) << format;
  EXPECT_TRUE(takes("video/x-raw(memory:SystemMemory,meta:GstVideoOverlayComposition),format=NV12"));
  EXPECT_TRUE(takes("video/x-raw(memory:DMABuf,meta:GstVideoOverlayComposition),format=DMA_DRM,drm-format=NV12"));
  EXPECT_FALSE(takes("video/x-raw,format=A420")) << "DRM has no name for it";
  EXPECT_FALSE(takes("video/x-raw,format=DMA_DRM"));
  EXPECT_FALSE(takes("video/x-raw(memory:CUDAMemory),format=NV12"));
  EXPECT_FALSE(takes("audio/x-raw"));
  gst_caps_unref(caps);
  gst_object_unref(pad);
  gst_object_unref(sink);
}

TEST(Sink, Properties) {
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  gst_object_ref_sink(sink);
  gchar *device, *connector, *mode, *configuration;
  gint fd;
  gboolean allow_copy, flips;
  const auto read = [&] {
    g_object_get(sink, "device", &device, "connector", &connector, "mode", &mode, "configuration", &configuration, "fd",
                 &fd, "allow-copy", &allow_copy, "message-flips", &flips, nullptr);
  };
  read();
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(connector, nullptr);
  EXPECT_EQ(mode, nullptr);
  EXPECT_EQ(configuration, nullptr);
  EXPECT_EQ(fd, -1);
  EXPECT_FALSE(allow_copy);
  EXPECT_FALSE(flips);
  g_object_set(sink, "device", "/dev/dri/card7", "connector", "HDMI-A-1", "mode", "64x48@60", "fd", 5, "allow-copy",
               TRUE, "message-flips", TRUE, nullptr);
  read();
  EXPECT_STREQ(device, "/dev/dri/card7");
  EXPECT_STREQ(connector, "HDMI-A-1");
  EXPECT_STREQ(mode, "64x48@60");
  EXPECT_EQ(fd, 5);
  EXPECT_TRUE(allow_copy);
  EXPECT_TRUE(flips);
  g_free(device);
  g_free(connector);
  g_free(mode);

  GstStructure *stats = nullptr;
  g_object_get(sink, "stats", &stats, nullptr);
  ASSERT_NE(stats, nullptr);
  EXPECT_STREQ(gst_structure_get_name(stats), "stats");
  for (const char *name : {"frames", "shown", "dropped", "commits", "busy-retries", "copies", "bytes-copied", "boxes",
                           "overlay-redraws", "imports", "import-hits"}) {
    guint64 value = 1;
    EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
    EXPECT_EQ(value, 0u) << name;
  }
  gst_structure_free(stats);
  gst_object_unref(sink);
}

TEST(Properties, OfOverlays) {
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  ASSERT_NE(sink, nullptr);
  guint color = 1, line = 1;
  gchar *font = nullptr;
  gboolean labels = FALSE;
  gdouble opacity = 0;
  const auto read = [&] {
    g_free(font);
    g_object_get(sink, "overlay-color", &color, "overlay-line-width", &line, "overlay-font", &font, "overlay-labels",
                 &labels, "overlay-mask-opacity", &opacity, nullptr);
  };
  const auto mode = [&] {
    GValue value = G_VALUE_INIT;
    g_object_get_property(G_OBJECT(sink), "overlay", &value);
    const std::string nick =
        g_enum_get_value(G_ENUM_CLASS(g_type_class_peek(G_VALUE_TYPE(&value))), g_value_get_enum(&value))->value_nick;
    g_value_unset(&value);
    return nick;
  };
  read();
  EXPECT_EQ(color, 0u);
  EXPECT_EQ(line, 0u);
  EXPECT_EQ(font, nullptr);
  EXPECT_TRUE(labels);
  EXPECT_DOUBLE_EQ(opacity, 0.4);
  EXPECT_EQ(mode(), "auto");
  g_object_set(sink, "overlay-color", 0x80ff0000u, "overlay-line-width", 3, "overlay-font", "Sans 12", "overlay-labels",
               FALSE, "overlay-mask-opacity", 1.0, nullptr);
  read();
  EXPECT_EQ(color, 0x80ff0000u);
  EXPECT_EQ(line, 3u);
  EXPECT_STREQ(font, "Sans 12");
  EXPECT_FALSE(labels);
  EXPECT_DOUBLE_EQ(opacity, 1);
  for (const char *nick : {"plane", "off", "auto"}) {
    gst_util_set_object_arg(G_OBJECT(sink), "overlay", nick);
    EXPECT_EQ(mode(), nick);
  }
  g_object_set(sink, "overlay-font", nullptr, nullptr);
  read();
  EXPECT_EQ(font, nullptr);
  gst_object_unref(sink);
}

TEST(Properties, OfFences) {
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  ASSERT_NE(sink, nullptr);
  guint in_flight = 0, timeout = 0;
  g_object_get(sink, "max-in-flight", &in_flight, "fence-timeout", &timeout, nullptr);
  EXPECT_EQ(in_flight, 3u);
  EXPECT_EQ(timeout, 1000u);
  g_object_set(sink, "max-in-flight", 64, "fence-timeout", 60000, nullptr);
  g_object_get(sink, "max-in-flight", &in_flight, "fence-timeout", &timeout, nullptr);
  EXPECT_EQ(in_flight, 64u);
  EXPECT_EQ(timeout, 60000u);
  const auto policy = [&] {
    GValue value = G_VALUE_INIT;
    g_object_get_property(G_OBJECT(sink), "on-fence-error", &value);
    const std::string nick =
        g_enum_get_value(G_ENUM_CLASS(g_type_class_peek(G_VALUE_TYPE(&value))), g_value_get_enum(&value))->value_nick;
    g_value_unset(&value);
    return nick;
  };
  EXPECT_EQ(policy(), "drop");
  gst_util_set_object_arg(G_OBJECT(sink), "on-fence-error", "pass");
  EXPECT_EQ(policy(), "pass");

  GstStructure *stats = nullptr;
  g_object_get(sink, "stats", &stats, nullptr);
  ASSERT_NE(stats, nullptr);
  for (const char *name :
       {"fence-waits", "fence-timeouts", "fence-errors", "fence-wait-ns", "in-fences", "in-fence-refused", "dropped"}) {
    guint64 value = 1;
    EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
    EXPECT_EQ(value, 0u) << name;
  }
  gst_structure_free(stats);
  gst_object_unref(sink);
}

} // namespace
