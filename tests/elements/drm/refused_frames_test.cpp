// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that drmmodifiersink cannot show: what becomes of them, of those that follow, and how long it goes on.
#include <functional>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/elements/drm/profile_run.h"

using namespace gstzc::test;

namespace {

const char kTiled[] = "NV12:0x0100000000000002";
constexpr unsigned kGivenUp = 121; // the one that was refused first, and 120 after it

// No part of a frame that is smaller than 16x16.
const char kSmallest[] = R"({
  "driver": "invented", "device": "no small pictures", "provenance": "a test",
  "planes": [{"type": "Primary", "label": "all", "formats": ["NV12", "XR24"],
              "limits": [{"min_size": [16, 16]}],
              "in_formats": [{"modifier": "0x0", "formats": ["NV12", "XR24"]}]}]})";

struct Crop {
  guint x, y, width, height;
};
using CropOf = std::function<const Crop *(unsigned n)>;

struct Cropping {
  CropOf crop_of;
  unsigned n = 0;
};

GstPadProbeReturn crop(GstPad *, GstPadProbeInfo *info, gpointer data) {
  auto *cropping = static_cast<Cropping *>(data);
  GstBuffer *buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
  GST_PAD_PROBE_INFO_DATA(info) = buffer;
  if (const Crop *c = cropping->crop_of(cropping->n++)) {
    GstVideoCropMeta *meta = gst_buffer_add_video_crop_meta(buffer);
    meta->x = c->x;
    meta->y = c->y;
    meta->width = c->width;
    meta->height = c->height;
  }
  return GST_PAD_PROBE_OK;
}

// NV12 frames of 320x240, cropped one by one.
Outcome playCropped(unsigned frames, const CropOf &crop_of) {
  const ProfileFile file(kSmallest);
  Cropping cropping{crop_of};
  GstElement *pipeline = gst_parse_launch(
      ("videotestsrc num-buffers=" + std::to_string(frames) +
       " ! video/x-raw,format=NV12,width=320,height=240,framerate=120/1 ! drmmodifiersink name=sink max-lateness=-1 "
       "mode=320x240@120 device-profile=" +
       file.path())
          .c_str(),
      nullptr);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GstPad *pad = gst_element_get_static_pad(sink, "sink");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, crop, &cropping, nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  Outcome outcome = finish(pipeline, sink);
  gst_object_unref(pad);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  return outcome;
}

const Crop kTooSmall{1, 1, 3, 3};

TEST(RefusedFrames, AnImpossibleCropIsThatOfItsFrameOnly) {
  for (const unsigned at : {0u, 5u}) {
    const Outcome o = playCropped(12, [=](unsigned n) { return n == at ? &kTooSmall : nullptr; });
    ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
    EXPECT_EQ(o.stat("dropped"), 1u);
    EXPECT_EQ(o.stat("shown"), 11u);
    EXPECT_EQ(o.stat("renegotiations"), 0u) << "no other caps would change it";
    ASSERT_EQ(o.warnings.size(), 1u) << testing::PrintToString(o.warnings);
    for (const char *part : {"GstVideoCropMeta", "3x3 at 1,1 of 320x240", "(primary, all)", "16x16"})
      EXPECT_NE(o.warnings[0].find(part), std::string::npos) << o.warnings[0];
  }
}

TEST(RefusedFrames, ComingAndGoingTheyAreDroppedWithOneWarning) {
  const Outcome o = playCropped(300, [](unsigned n) { return n % 50 != 49 ? &kTooSmall : nullptr; });
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(o.stat("shown"), 6u);
  EXPECT_EQ(o.stat("dropped"), 294u);
  EXPECT_EQ(o.warnings.size(), 1u);
}

TEST(RefusedFrames, OfAnImpossibleCropOnEachFrameThereIsAnEnd) {
  const Outcome o = playCropped(400, [](unsigned) { return &kTooSmall; });
  EXPECT_FALSE(o.eos);
  EXPECT_EQ(o.stat("dropped"), kGivenUp);
  EXPECT_EQ(o.stat("frames"), kGivenUp + 1);
  EXPECT_EQ(o.stat("shown"), 0u);
  EXPECT_EQ(o.stat("renegotiations"), 0u);
  EXPECT_EQ(o.warnings.size(), 1u);
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
  EXPECT_NE(o.errors[0].find("3x3 at 1,1 of 320x240"), std::string::npos) << o.errors[0];
}

TEST(RefusedFrames, AStreamOfNothingElseEndsWithAnError) {
  const Outcome o = playCropped(3, [](unsigned) { return &kTooSmall; });
  EXPECT_FALSE(o.eos);
  ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
  for (const char *part : {"ended before one of its frames could be shown", "3x3 at 1,1 of 320x240"})
    EXPECT_NE(o.errors[0].find(part), std::string::npos) << o.errors[0];
  EXPECT_EQ(o.errors[0].find("Upstream was asked"), std::string::npos) << o.errors[0];
}

// Upstream that could send something else and does not.
TEST(RefusedFrames, UpstreamThatDoesNotRenegotiateIsWaitedForSoLong) {
  const char refused[] = R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])";
  for (const unsigned frames : {kGivenUp, kGivenUp + 1}) {
    TiledSource source(twoPlanes(refused), {"NV12", kTiled});
    source.ignoreRequests();
    EXPECT_EQ(source.push(frames, 2), frames == kGivenUp) << "and goes on until then";
    const Outcome o = source.outcome();
    EXPECT_EQ(o.stat("frames"), frames);
    EXPECT_EQ(o.stat("dropped"), kGivenUp);
    EXPECT_EQ(o.stat("renegotiations"), 1u);
    ASSERT_EQ(o.errors.size(), 1u) << testing::PrintToString(o.errors);
    EXPECT_NE(o.errors[0].find(kTiled), std::string::npos) << o.errors[0];
  }
}

// One in the middle that is no framebuffer: upstream is asked for something else, but those after it can be shown.
TEST(RefusedFrames, WhileUpstreamIsAskedFramesThatDifferAreShown) {
  TiledSource source(twoPlanes(), {"NV12", kTiled});
  source.ignoreRequests();
  source.planes_of = [](unsigned n) { return n == 1 ? 3u : 2u; };
  EXPECT_TRUE(source.push(4, 2));
  const Outcome o = source.outcome();
  ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
  EXPECT_EQ(o.stat("renegotiations"), 1u);
  EXPECT_EQ(o.stat("imports") + o.stat("import-hits"), 4u) << "each was tried";
  EXPECT_EQ(o.stat("shown") + o.stat("dropped"), 4u);
}

TEST(Crops, WhatIsNotInThePictureIsWarnedOfOnce) {
  struct Row {
    Crop crop;
    const char *text; // null: nothing to say
  };
  for (const Row &row : {Row{{0, 0, 0, 0}, "0x0 at 0,0 of a picture of 320x240: all of the picture is shown"},
                         Row{{4000000000u, 0, 10, 10}, "10x10 at 4000000000,0 of a picture"},
                         Row{{300, 200, 100, 100}, "100x100 at 300,200 of a picture of 320x240: what lies outside"},
                         Row{{0, 0, 320, 240}, nullptr}, Row{{8, 8, 64, 64}, nullptr}}) {
    const Outcome o = playCropped(4, [&](unsigned) { return &row.crop; });
    ASSERT_TRUE(o.eos) << testing::PrintToString(o.errors);
    EXPECT_EQ(o.stat("shown"), 4u);
    ASSERT_EQ(o.warnings.size(), row.text != nullptr ? 1u : 0u) << testing::PrintToString(o.warnings);
    for (const std::string &warning : o.warnings) EXPECT_NE(warning.find(row.text), std::string::npos) << warning;
  }
}

// What upstream asks for, one after the other, and whether a stream without caps that ends then is an error.
struct Proposals {
  const char *name;
  std::vector<const char *> asked;
  bool error;
};
void PrintTo(const Proposals &p, std::ostream *out) { *out << p.name; }

class WithoutCaps : public testing::TestWithParam<Proposals> {};

TEST_P(WithoutCaps, TheEndIsAnErrorWhereTheLastProposalWasRefused) {
  const Proposals &p = GetParam();
  const ProfileFile file(kSmallest);
  for (const bool eos : {true, false}) { // the stream, or the pipeline
    GstElement *pipeline = gst_pipeline_new(nullptr), *sink = gst_element_factory_make("drmmodifiersink", nullptr);
    g_object_set(sink, "async", FALSE, "device-profile", file.path().c_str(), nullptr);
    gst_bin_add(GST_BIN(pipeline), sink);
    GstPad *pad = gst_element_get_static_pad(sink, "sink"), *src = gst_pad_new("src", GST_PAD_SRC);
    gst_pad_link(src, pad);
    gst_pad_set_active(src, TRUE);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    gst_pad_push_event(src, gst_event_new_stream_start("test"));
    unsigned refused = 0;
    for (const char *text : p.asked) {
      GstCaps *filter = gst_caps_from_string(text), *answer = gst_pad_peer_query_caps(src, filter);
      refused += gst_caps_is_empty(answer);
      gst_caps_unref(answer);
      gst_caps_unref(filter);
    }
    if (eos) {
      EXPECT_EQ(gst_pad_push_event(src, gst_event_new_eos()), !p.error);
    }
    gst_element_set_state(pipeline, GST_STATE_READY);
    std::vector<std::string> errors;
    unsigned warnings = 0;
    GstBus *bus = gst_element_get_bus(pipeline);
    while (GstMessage *message = gst_bus_pop(bus)) {
      GError *error = nullptr;
      if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) gst_message_parse_error(message, &error, nullptr);
      if (error != nullptr) errors.push_back(error->message);
      warnings += GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING;
      g_clear_error(&error);
      gst_message_unref(message);
    }
    EXPECT_EQ(errors.size(), p.error ? 1u : 0u) << testing::PrintToString(errors);
    for (const std::string &error : errors) EXPECT_NE(error.find("no plane of"), std::string::npos) << error;
    EXPECT_EQ(warnings, refused != 0 ? 1u : 0u);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(src);
    gst_object_unref(pad);
    gst_object_unref(pipeline);
  }
}

const char kRefused[] = "video/x-raw,format=Y444,width=64,height=64";
const char kTaken[] = "video/x-raw,format=NV12,width=64,height=64";

INSTANTIATE_TEST_SUITE_P(Upstream, WithoutCaps,
                         testing::Values(Proposals{"nothing", {}, false}, Proposals{"refused", {kRefused}, true},
                                         Proposals{"another_way", {kRefused, kTaken}, false},
                                         Proposals{"no_other_way", {kTaken, kRefused}, true},
                                         Proposals{"taken", {kTaken}, false}),
                         [](const auto &instance) { return std::string(instance.param.name); });

} // namespace
