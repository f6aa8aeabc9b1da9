// SPDX-License-Identifier: LGPL-2.1-or-later
// Overlays of drmmodifiersink, against described devices: who attaches, who blends, what is refused.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/elements/drm/profile_run.h"

namespace {

using namespace gstzc::test;

const char kPrimary[] = R"({"type": "Primary", "label": "video", "formats": ["XR24", "NV12"],
  "in_formats": [{"modifier": "0x0", "formats": ["XR24", "NV12"]}]})";
const char kOverlay[] = R"(, {"type": "Overlay", "label": "top", "formats": ["AR24"],
  "in_formats": [{"modifier": "0x0", "formats": ["AR24"]}]})";

std::string profile(const std::string &planes, const std::string &extra = "") {
  return R"({"driver": "invented", "device": "a test", "provenance": "a test", "planes": [)" + planes + "]" + extra +
         "}";
}

// A composition of one white rectangle.
GstVideoOverlayComposition *newComposition(int x, int y, guint width, guint height) {
  GstBuffer *pixels = gst_buffer_new_allocate(nullptr, 16 * 8 * 4, nullptr);
  gst_buffer_memset(pixels, 0, 0xff, 16 * 8 * 4);
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 16, 8);
  GstVideoOverlayRectangle *rectangle =
      gst_video_overlay_rectangle_new_raw(pixels, x, y, width, height, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  gst_video_overlay_rectangle_unref(rectangle);
  gst_buffer_unref(pixels);
  return composition;
}

struct Playback : Outcome {
  guint64 frames = 0, redraws = 0, boxes = 0, copies = 0;
  int attached = 0;        // frames that came with a composition
  std::vector<bool> white; // whether the rectangle was in the frame itself
};

using AtSink = std::function<void(GstBuffer *)>;

Playback playback(const std::string &json, const std::string &source, const std::string &settings,
                  AtSink at_sink = {}) {
  const ProfileFile file(json);
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(
      (source + " ! drmmodifiersink name=sink max-lateness=-1 device-profile=" + file.path() + " " + settings).c_str(),
      &error);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GstVideoOverlayComposition *composition = newComposition(100, 100, 16, 8);
  if (GstElement *text = gst_bin_get_by_name(GST_BIN(pipeline), "text")) {
    g_signal_connect(text, "draw", G_CALLBACK(+[](GstElement *, GstSample *, gpointer data) {
                       return gst_video_overlay_composition_ref(static_cast<GstVideoOverlayComposition *>(data));
                     }),
                     composition);
    gst_object_unref(text);
  }

  struct Context {
    Playback run;
    AtSink at_sink;
  } context;
  context.at_sink = std::move(at_sink);
  GstPad *pad = gst_element_get_static_pad(sink, "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad *, GstPadProbeInfo *info, gpointer data) {
        auto *c = static_cast<Context *>(data);
        GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
        c->run.attached += gst_buffer_get_video_overlay_composition_meta(buffer) != nullptr;
        guint8 pixel[4] = {};
        gst_buffer_extract(buffer, (104 * 640 + 104) * 4, pixel, 4);
        c->run.white.push_back(pixel[0] == 0xff);
        if (c->at_sink) {
          buffer = gst_buffer_make_writable(buffer);
          GST_PAD_PROBE_INFO_DATA(info) = buffer;
          c->at_sink(buffer);
        }
        return GST_PAD_PROBE_OK;
      },
      &context, nullptr);
  gst_object_unref(pad);

  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  Playback &run = context.run;
  static_cast<Outcome &>(run) = finish(pipeline, sink);
  run.frames = run.stat("frames");
  run.redraws = run.stat("overlay-redraws");
  run.boxes = run.stat("boxes");
  run.copies = run.stat("copies");
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  gst_video_overlay_composition_unref(composition);
  return run;
}

constexpr const char *kSource =
    "videotestsrc num-buffers=8 pattern=black ! video/x-raw,format=BGRx,width=640,height=480,framerate=30/1";
const std::string kText = std::string(kSource) + " ! overlaycomposition name=text";

void addBoxes(GstBuffer *buffer, int n) {
  GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
  for (int i = 0; i < n; ++i) {
    GstAnalyticsODMtd box;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_static_string("face"), i % 600, i % 440, 20, 10, 0.9f,
                                           &box);
  }
}

TEST(Overlays, AreAttachedWhereAPlaneIs) {
  const Playback run = playback(profile(std::string(kPrimary) + kOverlay), kText, "");
  ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
  EXPECT_EQ(run.attached, 8);
  EXPECT_EQ(std::count(run.white.begin(), run.white.end(), true), 0) << "the frame is left alone";
  EXPECT_EQ(run.redraws, 1u);
  EXPECT_EQ(run.copies, 0u);
  EXPECT_NE(run.configuration.find("overlay on plane"), std::string::npos) << run.configuration;
  EXPECT_TRUE(run.infos.empty());
}

TEST(Overlays, AreBlendedWhereNoneIs) {
  for (const auto &[json, settings] :
       {std::pair{profile(kPrimary), "overlay=auto"}, {profile(std::string(kPrimary) + kOverlay), "overlay=off"}}) {
    const Playback run = playback(json, kText, settings);
    ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
    EXPECT_EQ(run.attached, 0) << settings;
    EXPECT_EQ(std::count(run.white.begin(), run.white.end(), true), 8) << settings;
    EXPECT_EQ(run.redraws, 0u);
    EXPECT_TRUE(run.infos.empty());
  }
}

// What a plane says it can and what the kernel says of it are two things.
TEST(Overlays, AreBlendedFromThereOnWhereThePlaneIsRefused) {
  const std::string json = profile(std::string(kPrimary) + kOverlay,
                                   R"(, "refuses": [{"plane": "top", "error": "ENOSPC", "why": "no bandwidth"}])");
  const Playback run = playback(json, kText, "");
  ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
  ASSERT_EQ(run.infos.size(), 1u);
  EXPECT_NE(run.infos[0].find("overlays are not shown: Virtual-1"), std::string::npos) << run.infos[0];
  EXPECT_NE(run.infos[0].find("ENOSPC"), std::string::npos) << run.infos[0];
  EXPECT_GE(run.attached, 1);
  EXPECT_LT(run.attached, 8);
  ASSERT_EQ(run.white.size(), 8u);
  EXPECT_TRUE(run.white.back());
  EXPECT_EQ(run.redraws, 0u);
}

TEST(Overlays, NoPlaneIsOneInfoOrAnError) {
  const AtSink boxes = [](GstBuffer *buffer) { addBoxes(buffer, 1); };
  const Playback info = playback(profile(kPrimary), kSource, "", boxes);
  ASSERT_TRUE(info.eos);
  ASSERT_EQ(info.infos.size(), 1u);
  EXPECT_NE(info.infos[0].find("has no free ARGB8888 plane above the video"), std::string::npos) << info.infos[0];
  EXPECT_EQ(info.boxes, 0u);

  const Playback error = playback(profile(kPrimary), kSource, "overlay=plane"); // though no frame has anything
  ASSERT_EQ(error.errors.size(), 1u);
  EXPECT_NE(error.errors[0].find("has no free ARGB8888 plane above the video"), std::string::npos) << error.errors[0];
  EXPECT_NE(error.errors[0].find("overlay=auto"), std::string::npos) << error.errors[0];

  const Playback fine = playback(profile(std::string(kPrimary) + kOverlay), kSource, "overlay=plane");
  EXPECT_TRUE(fine.eos) << testing::PrintToString(fine.errors);
  EXPECT_NE(fine.configuration.find("overlay on plane"), std::string::npos) << fine.configuration;
}

TEST(Overlays, BoxesAreDrawnWhenTheyChange) {
  int n = 0;
  const Playback run =
      playback(profile(std::string(kPrimary) + kOverlay), kSource, "overlay-labels=false mode=1280x720",
               [&](GstBuffer *buffer) { addBoxes(buffer, ++n > 4 ? 2 : 1); });
  ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
  EXPECT_EQ(run.redraws, 2u);
  EXPECT_EQ(run.boxes, 4u * 1 + 4 * 2);
}

// Whatever is attached: the frames are shown.
TEST(Overlays, OfAnyKind) {
  int n = 0;
  const Playback run = playback(profile(std::string(kPrimary) + kOverlay), kSource, "", [&](GstBuffer *buffer) {
    switch (++n) {
    case 1: addBoxes(buffer, 3000); break;
    case 2:
    case 3: {
      GstVideoOverlayComposition *large = newComposition(-3000, -2000, 1000000, 900000);
      gst_buffer_add_video_overlay_composition_meta(buffer, large);
      gst_video_overlay_composition_unref(large);
      break;
    }
    case 4: {
      GstVideoOverlayComposition *none = gst_video_overlay_composition_new(nullptr);
      gst_buffer_add_video_overlay_composition_meta(buffer, none);
      gst_video_overlay_composition_unref(none);
      break;
    }
    case 5: {
      const std::string name = std::string(100000, 'w') + "\xff\xfe \xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d\n";
      GstAnalyticsODMtd box;
      gst_analytics_relation_meta_add_od_mtd(gst_buffer_add_analytics_relation_meta(buffer),
                                             g_quark_from_string(name.c_str()), 5, 5, 100, 100, 0.5f, &box);
      break;
    }
    case 6: {
      GstVideoOverlayComposition *tiny = newComposition(639, 479, 1, 1);
      gst_buffer_add_video_overlay_composition_meta(buffer, tiny);
      gst_video_overlay_composition_unref(tiny);
      break;
    }
    default: break;
    }
  });
  ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
  EXPECT_EQ(run.frames, 8u);
  EXPECT_GE(run.redraws, 4u);
}

// GStreamer's element for text (Debian: gstreamer1.0-x): its picture is attached where it can be, else drawn into
// frames.
TEST(Overlays, OfTextoverlay) {
  GstElementFactory *factory = gst_element_factory_find("textoverlay");
  if (factory == nullptr) GTEST_SKIP() << "there is no textoverlay";
  gst_object_unref(factory);
  const std::string text = std::string(kSource) + " ! textoverlay text=words valignment=top halignment=left";
  // the second display is larger than the frame
  for (const char *settings : {"", "mode=1280x720"}) {
    const Playback run = playback(profile(std::string(kPrimary) + kOverlay), text, settings);
    ASSERT_TRUE(run.eos) << testing::PrintToString(run.errors);
    EXPECT_EQ(run.attached, 8) << settings;
    EXPECT_EQ(run.redraws, 1u) << "the same words in each frame";
    EXPECT_EQ(run.copies, 0u);
    EXPECT_TRUE(run.infos.empty()) << testing::PrintToString(run.infos);
  }
  const Playback blended = playback(profile(kPrimary), text, "");
  ASSERT_TRUE(blended.eos) << testing::PrintToString(blended.errors);
  EXPECT_EQ(blended.attached, 0);
}

} // namespace
