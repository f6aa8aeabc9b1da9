// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink against described devices: negotiation, choice, refusals, without any device.
#include <algorithm>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/elements/drm/profile_run.h"

using namespace gstzc::test;

namespace {

std::string testSource(const char *format, int width = 640, int height = 480) {
  return "videotestsrc num-buffers=5 ! video/x-raw,format=" + std::string(format) + ",width=" + std::to_string(width) +
         ",height=" + std::to_string(height);
}

// Upstream says of an error of the sink's that its flow ended, in a thread of its own: at any time.
TEST(ProfileRun, HasTheSinksOwnErrorsAndAllOfThem) {
  const ProfileFile file(twoPlanes());
  GstElement *pipeline =
      gst_parse_launch(("fakesrc name=src ! drmmodifiersink name=sink device-profile=" + file.path()).c_str(), nullptr);
  GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src"),
             *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GST_ELEMENT_ERROR(src, STREAM, FAILED, ("upstream's"), (nullptr));
  GST_ELEMENT_ERROR(sink, STREAM, FAILED, ("the sink's"), (nullptr));
  GST_ELEMENT_ERROR(src, STREAM, FAILED, ("upstream's"), (nullptr));
  const Outcome o = finish(pipeline, sink);
  EXPECT_EQ(o.errors, std::vector<std::string>{"the sink's"});
  EXPECT_EQ(o.others.size(), 2u);
  gst_object_unref(src);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
}

TEST(ProfileSink, ShowsNothingAndCounts) {
  const Outcome o = play(twoPlanes(), testSource("BGRx"));
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(o.stat("frames"), 5u);
  EXPECT_EQ(o.stat("shown"), 5u);
  EXPECT_EQ(o.stat("copies"), 0u);
  EXPECT_GE(o.stat("tests"), 1u);
  EXPECT_NE(o.configuration.find("(primary)"), std::string::npos) << o.configuration;
}

// More frames a second than the display shows: they come late on it, which upstream and the statistics are told.
TEST(ProfileSink, LateFlipsAreToldToUpstream) {
  const ProfileFile file(twoPlanes());
  GstElement *pipeline = gst_parse_launch(
      ("videotestsrc num-buffers=12 name=src ! video/x-raw,format=BGRx,width=320,height=240,framerate=100/1 ! "
       "drmmodifiersink name=sink max-lateness=-1 mode=320x240@20 device-profile=" +
       file.path())
          .c_str(),
      nullptr);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink"),
             *src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
  GstPad *pad = gst_element_get_static_pad(src, "src");
  std::atomic<unsigned> late = 0;
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_EVENT_UPSTREAM,
      [](GstPad *, GstPadProbeInfo *info, gpointer counter) {
        GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
        GstQOSType type;
        GstClockTimeDiff difference = 0;
        if (GST_EVENT_TYPE(event) != GST_EVENT_QOS) return GST_PAD_PROBE_OK;
        gst_event_parse_qos(event, &type, nullptr, &difference, nullptr);
        if (type == GST_QOS_TYPE_UNDERFLOW && difference > 0) ++*static_cast<std::atomic<unsigned> *>(counter);
        return GST_PAD_PROBE_OK;
      },
      &late, nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  const Outcome o = finish(pipeline, sink);
  EXPECT_TRUE(o.eos);
  EXPECT_EQ(o.stat("shown"), 12u);
  EXPECT_GE(o.stat("late-flips"), 5u);
  EXPECT_GE(o.stat("missed-vblanks"), o.stat("late-flips"));
  EXPECT_GE(o.stat("flip-interval-ns"), 40'000'000u) << "a frame a vertical blank, at the most";
  EXPECT_GE(o.stat("longest-flip-interval-ns"), o.stat("flip-interval-ns"));
  EXPECT_GE(late, 5u);
  gst_object_unref(pad);
  gst_object_unref(src);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
}

TEST(ProfileSink, TakesThePlaneThatHasTheFormat) {
  const Outcome o = play(twoPlanes(), testSource("NV12"));
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_NE(o.configuration.find("(overlay)"), std::string::npos) << o.configuration;
  EXPECT_EQ(o.stat("tests-refused"), 0u);
}

struct LookCase {
  const char *name;
  std::string extra; // of the profile
  std::string settings;
  const char *configuration; // a part of it; null: an error
  const char *error = nullptr;
};
void PrintTo(const LookCase &c, std::ostream *out) { *out << c.name; }

class ProfileLook : public testing::TestWithParam<LookCase> {};

TEST_P(ProfileLook, IsWhatIsAskedForOrAnError) {
  const LookCase &c = GetParam();
  const Outcome o = play(twoPlanes(c.extra), testSource("NV12"), c.settings);
  if (c.configuration != nullptr) {
    ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
    EXPECT_NE(o.configuration.find(c.configuration), std::string::npos) << o.configuration;
  } else {
    ASSERT_FALSE(o.errors.empty());
    EXPECT_NE(o.errors[0].find(c.error), std::string::npos) << o.errors[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, ProfileLook,
                         testing::Values(LookCase{"by size", "", "", "640x480@60.00"},
                                         LookCase{"native mode", "", "auto-mode=native", "1920x1080@60.00"},
                                         LookCase{"a mode", "", "mode=1280x720", "1280x720@60.00"},
                                         LookCase{"fitted", "", "mode=1280x720", "960x720 at 160,0 scaled"},
                                         LookCase{"filled", "", "mode=1280x720 force-aspect-ratio=false",
                                                  "1280x720 at 0,0 scaled"},
                                         LookCase{"no scaling", R"(,"refuses": [{"scaled": true, "error": "ERANGE"}])",
                                                  "mode=1280x720", "640x480 at 320,120"},
                                         LookCase{"rectangle", "", "mode=1280x720 render-rectangle=<100,50,320,240>",
                                                  "320x240 at 100,50 scaled"},
                                         LookCase{"no such plane", "", "plane-id=4711", nullptr, "no plane 4711"},
                                         LookCase{"no rotation", "", "rotate-method=90r", nullptr, "cannot turn"}));

TEST(ProfileSink, SettingsThatSayNothingAreWarnedOfOnce) {
  for (const auto &[settings, part] :
       {std::pair{"device=/dev/dri/card7", "device=/dev/dri/card7 is not used"},
        {"fd=0", "fd=0 is not used: device-profile= is set"},
        {"rotate-method=custom alpha=1 force-aspect-ratio=true", "rotate-method=custom is no turn"}}) {
    const Outcome o = play(twoPlanes(), testSource("NV12"), settings);
    ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
    ASSERT_EQ(o.warnings.size(), 1u) << testing::PrintToString(o.warnings);
    EXPECT_NE(o.warnings[0].find(part), std::string::npos) << o.warnings[0];
  }
  EXPECT_TRUE(play(twoPlanes(), testSource("NV12"), "rotate-method=identity").warnings.empty());
}

// From pixels that are no squares to the display's, which are.
TEST(ProfileSink, PixelAspectRatioCounts) {
  const std::string source =
      "videotestsrc num-buffers=5 ! video/x-raw,format=NV12,width=720,height=576,pixel-aspect-ratio=";
  for (const auto &[ratio, place] : {std::pair{"16/15", "1024x768 at 128,0 scaled from 720x576"},
                                     {"64/45", "1280x720 at 0,24 scaled from 720x576"},
                                     {"1/1", "960x768 at 160,0 scaled from 720x576"}}) {
    const Outcome o = play(twoPlanes(), source + ratio, "mode=1280x768");
    ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
    EXPECT_NE(o.configuration.find(place), std::string::npos) << o.configuration;
  }
}

TEST(ProfileSink, TheConfigurationNamesThePartThatIsShown) {
  const std::string crop = testSource("NV12") + " ! videocrop left=8 right=100 top=2 bottom=40";
  const Outcome o = play(twoPlanes(), crop, "mode=1280x720");
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_NE(o.configuration.find("scaled from 532x438, a part of 640x480 from 8,2"), std::string::npos)
      << o.configuration;
}

TEST(ProfileSink, TheConfigurationNamesThePartThatARectangleLeaves) {
  const Outcome o = play(twoPlanes(), testSource("NV12", 320, 240), "mode=640x480 render-rectangle=<-50,-50,400,300>");
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_NE(o.configuration.find("350x250 at 0,0 scaled from 280x200, a part of 320x240 from 40,40"), std::string::npos)
      << o.configuration;
}

TEST(ProfileSink, ARectangleOutsideShowsNothingAndSaysSo) {
  const Outcome o = play(twoPlanes(), testSource("NV12"), "render-rectangle=<5000,5000,64,48>");
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(o.stat("dropped"), 5u);
  EXPECT_EQ(o.stat("shown"), 0u);
  EXPECT_EQ(o.stat("renegotiations"), 0u);
  ASSERT_EQ(o.infos.size(), 1u);
  for (const char *part : {"render-rectangle=<5000,5000,64,48>", "640x480"}) {
    EXPECT_NE(o.infos[0].find(part), std::string::npos) << o.infos[0];
    EXPECT_NE(o.configuration.find(part), std::string::npos) << o.configuration;
  }
}

const char kTiled[] = "NV12:0x0100000000000002";

TEST(ProfileSink, TiledFramesAreShownTiled) {
  TiledSource source(twoPlanes(), {"NV12", kTiled});
  ASSERT_TRUE(source.push(3, 2));
  const Outcome o = source.outcome();
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(source.negotiated(), std::vector<std::string>{kTiled}) << "the display's preference";
  EXPECT_NE(o.configuration.find(kTiled), std::string::npos) << o.configuration;
  EXPECT_EQ(o.stat("renegotiations"), 0u);
}

TEST(ProfileSink, WhatTheDriverRefusesIsRenegotiated) {
  TiledSource source(twoPlanes(R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])"),
                     {"NV12", kTiled});
  source.push(5, 2);
  const Outcome o = source.outcome();
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(source.negotiated(), (std::vector<std::string>{kTiled, "NV12"}));
  EXPECT_EQ(o.stat("renegotiations"), 1u);
  EXPECT_NE(o.configuration.find("NV12, 640x480"), std::string::npos) << o.configuration;
  EXPECT_EQ(o.stat("dropped") + o.stat("shown"), 5u);
}

// Who counts on its end for a success is told.
TEST(ProfileSink, AStreamThatEndsWhileItIsRenegotiatedIsAnError) {
  TiledSource source(twoPlanes(R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])"),
                     {"NV12", kTiled});
  ASSERT_TRUE(source.push(1, 2));
  const Outcome o = source.outcome();
  EXPECT_FALSE(o.eos);
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
  for (const char *part : {"ended before one of its frames could be shown", kTiled, "EINVAL"})
    EXPECT_NE(o.errors[0].find(part), std::string::npos) << o.errors[0];
  EXPECT_EQ(o.stat("dropped"), 1u);
  EXPECT_EQ(o.stat("shown"), 0u);
}

TEST(ProfileSink, FramesOfLargerPicturesAreRenegotiatedOnceToo) {
  TiledSource source(twoPlanes(R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])"),
                     {"NV12", kTiled});
  source.crop();
  source.push(5, 2);
  const Outcome o = source.outcome();
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(source.negotiated(), (std::vector<std::string>{kTiled, "NV12"}));
  EXPECT_EQ(o.stat("renegotiations"), 1u);
  EXPECT_NE(o.configuration.find("640x480@60.00"), std::string::npos) << o.configuration;
  EXPECT_NE(o.configuration.find("NV12, 640x480 at 0,0"), std::string::npos) << o.configuration;
}

TEST(ProfileSink, AFramebufferThatIsRefusedIsRenegotiated) {
  // the sink may not have known that the driver wants its own number of memory planes
  TiledSource source(twoPlanes(), {kTiled});
  EXPECT_FALSE(source.push(3, 3));
  const Outcome o = source.outcome();
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
}

TEST(ProfileSink, WithoutAnotherLayoutItIsOneErrorWithTheNearest) {
  TiledSource source(twoPlanes(R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])"), {kTiled});
  EXPECT_FALSE(source.push(3, 2));
  const Outcome o = source.outcome();
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
  for (const char *part : {kTiled, "EINVAL", "NV12 would be shown with linear layout", "Offered are"})
    EXPECT_NE(o.errors[0].find(part), std::string::npos) << o.errors[0];
}

TEST(ProfileSink, LayoutsThatNoPlaneHasAreAnErrorWithTheNearest) {
  TiledSource source(twoPlanes(), {"NV12:0x0100000000000001"});
  EXPECT_FALSE(source.push(1, 2));
  const Outcome o = source.outcome();
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
  for (const char *part : {"NV12:0x0100000000000001", "not with", "Nearest"})
    EXPECT_NE(o.errors[0].find(part), std::string::npos) << o.errors[0];
}

TEST(ProfileSink, BadProfilesAreNamed) {
  const Outcome missing = [] {
    GstElement *pipeline =
        gst_parse_launch("videotestsrc ! drmmodifiersink name=sink max-lateness=-1 device-profile=/none.json", nullptr);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    Outcome o = finish(pipeline, sink);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
    return o;
  }();
  ASSERT_EQ(missing.errors.size(), 1u);
  EXPECT_NE(missing.errors[0].find("/none.json: No such file"), std::string::npos) << missing.errors[0];
  const Outcome broken = play("{\"planes\": 7}", "videotestsrc");
  ASSERT_EQ(broken.errors.size(), 1u);
  EXPECT_NE(broken.errors[0].find("planes"), std::string::npos) << broken.errors[0];
}

std::vector<std::string> metasOf(GstQuery *query) {
  std::vector<std::string> names;
  for (guint i = 0; i < gst_query_get_n_allocation_metas(query); ++i)
    names.push_back(g_type_name(gst_query_parse_nth_allocation_meta(query, i, nullptr)));
  return names;
}
bool has(const std::vector<std::string> &names, const char *name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Without libgbm, or with one that does not know the device, upstream's own memory is shown.
TEST(ProfileSink, WithoutAPoolOfTiledFramesThereIsOneNote) {
  TiledSource source(twoPlanes(), {kTiled});
  source.takePools();
  unsigned asked = 0, offered = 0;
  source.on_allocation = [&](GstQuery *query, bool pool) {
    ++asked;
    offered += pool;
    const auto metas = metasOf(query);
    for (const char *name : {"GstVideoMetaAPI", "GstVideoCropMetaAPI", "GstZcFenceMetaAPI"})
      EXPECT_TRUE(has(metas, name)) << name;
  };
  ASSERT_TRUE(source.push(3, 2));
  const Outcome o = source.outcome();
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(offered, 0u);
  ASSERT_EQ(o.infos.size(), 1u) << testing::PrintToString(o.infos);
  EXPECT_NE(o.infos[0].find("no memory is offered for tiled frames"), std::string::npos) << o.infos[0];
}

struct AllocationCase {
  const char *name;
  const char *caps; // null: none in the query
  guint need_pool;
  bool pool;
  guint mask; // wished for the first plane's stride; 0: no wish
};
void PrintTo(const AllocationCase &c, std::ostream *out) { *out << c.name; }

class ProfileAllocation : public testing::TestWithParam<AllocationCase> {};

TEST_P(ProfileAllocation, IsAlwaysAnswered) {
  const AllocationCase &c = GetParam();
  const ProfileFile file(twoPlanes());
  GstElement *sink = gst_element_factory_make("drmmodifiersink", nullptr);
  g_object_set(sink, "device-profile", file.path().c_str(), nullptr);
  gst_object_ref_sink(sink);
  gst_element_set_state(sink, GST_STATE_PAUSED);
  GstPad *pad = gst_element_get_static_pad(sink, "sink");
  GstCaps *caps = c.caps != nullptr ? gst_caps_from_string(c.caps) : nullptr;
  GstQuery *query = gst_query_new_allocation(caps, static_cast<gboolean>(c.need_pool));
  EXPECT_TRUE(gst_pad_query(pad, query));
  const auto metas = metasOf(query);
  for (const char *name : {"GstVideoMetaAPI", "GstVideoCropMetaAPI", "GstZcFenceMetaAPI"})
    EXPECT_TRUE(has(metas, name)) << name;
  guint index = 0;
  ASSERT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, &index));
  const GstStructure *wish = nullptr;
  gst_query_parse_nth_allocation_meta(query, index, &wish);
  EXPECT_EQ(wish != nullptr, c.mask != 0);
  if (wish != nullptr) {
    EXPECT_TRUE(gst_structure_has_name(wish, "video-meta"));
    GstVideoAlignment alignment;
    gst_video_alignment_reset(&alignment);
    EXPECT_TRUE(gst_buffer_pool_config_get_video_alignment(wish, &alignment));
    EXPECT_EQ(alignment.stride_align[0], c.mask);
    EXPECT_EQ(alignment.padding_right, 0u);
  }
  GstBufferPool *pool = nullptr;
  guint size = 0, min = 0, max = 1;
  if (gst_query_get_n_allocation_pools(query) > 0)
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
  EXPECT_EQ(pool != nullptr, c.pool);
  if (c.caps != nullptr) {
    EXPECT_EQ(min, 3u) << "on screen, waiting for its flip, newest";
    EXPECT_EQ(max, 0u) << "and as many as wait for fences";
  }
  gst_clear_object(&pool);
  gst_query_unref(query);
  gst_clear_caps(&caps);
  gst_object_unref(pad);
  gst_element_set_state(sink, GST_STATE_NULL);
  gst_object_unref(sink);
}

// rows of the invented device's memory are multiples of 64 bytes
INSTANTIATE_TEST_SUITE_P(
    Queries, ProfileAllocation,
    testing::Values(
        AllocationCase{"system memory", "video/x-raw,format=NV12,width=640,height=480", TRUE, true, 0},
        AllocationCase{"no pool wanted", "video/x-raw,format=NV12,width=640,height=480", FALSE, false, 0},
        AllocationCase{"rows that do not fit", "video/x-raw,format=NV12,width=650,height=480", TRUE, true, 63},
        AllocationCase{"rows of pixels", "video/x-raw,format=BGRx,width=650,height=480", TRUE, true, 63},
        AllocationCase{"dma-bufs", "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=650,height=480",
                       TRUE, false, 63},
        AllocationCase{
            "tiled, no pool wanted",
            "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=650,height=480", FALSE,
            false, 0},
        AllocationCase{"no caps", nullptr, TRUE, false, 0}));

} // namespace
