// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink against described devices: negotiation, choice, refusals, without any device.
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

// A profile in a file, for as long as it lives.
class ProfileFile {
public:
  explicit ProfileFile(const std::string &json) {
    const int fd = mkstemps(path_, 5);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, json.data(), json.size()), static_cast<ssize_t>(json.size()));
    close(fd);
  }
  ~ProfileFile() { unlink(path_); }
  std::string path() const { return path_; }

private:
  char path_[32] = "/tmp/profile-XXXXXX.json";
};

// A primary plane for RGB, and an overlay for NV12 that is tiled (Intel's Y layout) or linear.
const char kTwoPlanes[] = R"({
  "driver": "invented", "device": "two planes", "provenance": "a test",
  "planes": [
    {"type": "Primary", "label": "graphics", "formats": ["XR24", "AR24"],
     "in_formats": [{"modifier": "0x0", "formats": ["XR24", "AR24"]}]},
    {"type": "Overlay", "label": "video", "formats": ["NV12", "XR24"],
     "in_formats": [{"modifier": "0x0100000000000002", "formats": ["NV12"]},
                    {"modifier": "0x0", "formats": ["NV12", "XR24"]}]}
  ]EXTRA})";

std::string twoPlanes(const std::string &extra = "") {
  std::string text = kTwoPlanes;
  text.replace(text.find("EXTRA"), 5, extra);
  return text;
}

struct Outcome {
  bool eos = false;
  std::vector<std::string> errors;
  std::string configuration;
  GstStructure *stats = nullptr;

  Outcome() = default;
  Outcome(Outcome &&o)
      : eos(o.eos), errors(std::move(o.errors)), configuration(std::move(o.configuration)), stats(o.stats) {
    o.stats = nullptr;
  }
  ~Outcome() {
    if (stats != nullptr) gst_structure_free(stats);
  }
  guint64 stat(const char *name) const {
    guint64 value = 0;
    EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
    return value;
  }
};

// Until EOS or the first error.
Outcome finish(GstElement *pipeline, GstElement *sink) {
  Outcome outcome;
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *message = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND,
                                                   static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  while (message != nullptr) {
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS) outcome.eos = true;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      GError *error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      outcome.errors.push_back(error->message);
      g_error_free(error);
    }
    gst_message_unref(message);
    message = gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  }
  gst_object_unref(bus);
  gchar *configuration = nullptr;
  g_object_get(sink, "configuration", &configuration, "stats", &outcome.stats, nullptr);
  outcome.configuration = configuration != nullptr ? configuration : "";
  g_free(configuration);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  return outcome;
}

Outcome play(const std::string &profile, const std::string &source, const std::string &settings = "") {
  const ProfileFile file(profile);
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(
      (source + " ! drmmodifiersink name=sink max-lateness=-1 device-profile=" + file.path() + " " + settings).c_str(),
      &error);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  Outcome outcome = finish(pipeline, sink);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  return outcome;
}

std::string testSource(const char *format, int width = 640, int height = 480) {
  return "videotestsrc num-buffers=5 ! video/x-raw,format=" + std::string(format) + ",width=" + std::to_string(width) +
         ",height=" + std::to_string(height);
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
                                         LookCase{"no rotation", "", "rotate-method=90r", nullptr, "cannot turn"},
                                         LookCase{"no alpha", "", "alpha=0.5", nullptr, "shows NV12"},
                                         LookCase{"no zpos", "", "zpos=3", nullptr, "shows NV12"}));

// Upstream that can give several layouts, and does what RECONFIGURE asks for: memfds pass for its dma-bufs.
class TiledSource {
public:
  TiledSource(const std::string &profile, std::vector<std::string> formats, const std::string &settings = "")
      : file_(profile), formats_(std::move(formats)) {
    pipeline_ = gst_pipeline_new(nullptr);
    sink_ = gst_element_factory_make("drmmodifiersink", nullptr);
    g_object_set(sink_, "device-profile", file_.path().c_str(), "sync", FALSE, "async", FALSE, nullptr);
    if (!settings.empty()) gst_util_set_object_arg(G_OBJECT(sink_), "mode", settings.c_str());
    gst_bin_add(GST_BIN(pipeline_), sink_);
    GstPadTemplate *any = gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_CAPS_ANY);
    pad_ = GST_PAD(gst_object_ref_sink(gst_pad_new_from_template(any, "src")));
    gst_object_unref(any);
    gst_pad_set_element_private(pad_, this);
    gst_pad_set_query_function(pad_, &TiledSource::query);
    gst_pad_set_event_function(pad_, &TiledSource::event);
    allocator_ = gst_dmabuf_allocator_new();
  }
  ~TiledSource() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_pad_set_active(pad_, FALSE);
    gst_object_unref(pad_);
    gst_object_unref(pipeline_);
    gst_object_unref(allocator_);
  }

  // Frames in the first layout that the sink takes, and in others when it asks; false: an error.
  bool push(unsigned frames, unsigned planes) {
    GstPad *sinkpad = gst_element_get_static_pad(sink_, "sink");
    EXPECT_EQ(gst_pad_link(pad_, sinkpad), GST_PAD_LINK_OK);
    gst_pad_set_active(pad_, TRUE);
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    gst_pad_push_event(pad_, gst_event_new_stream_start("test"));
    bool fine = negotiate();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(pad_, gst_event_new_segment(&segment));
    for (unsigned i = 0; i < frames && fine; ++i) {
      if (reconfigure_.exchange(false)) fine = negotiate();
      fine = fine && gst_pad_push(pad_, frame(planes)) == GST_FLOW_OK;
    }
    if (fine) gst_pad_push_event(pad_, gst_event_new_eos());
    gst_object_unref(sinkpad);
    return fine;
  }
  Outcome outcome() { return finish(pipeline_, sink_); }
  const std::vector<std::string> &negotiated() const { return negotiated_; }

private:
  static gboolean query(GstPad *pad, GstObject *parent, GstQuery *query) {
    auto *self = static_cast<TiledSource *>(gst_pad_get_element_private(pad));
    if (GST_QUERY_TYPE(query) != GST_QUERY_CAPS) return gst_pad_query_default(pad, parent, query);
    GstCaps *filter = nullptr, *all = self->caps(self->formats_);
    gst_query_parse_caps(query, &filter);
    GstCaps *result =
        filter != nullptr ? gst_caps_intersect_full(filter, all, GST_CAPS_INTERSECT_FIRST) : gst_caps_ref(all);
    gst_query_set_caps_result(query, result);
    gst_caps_unref(result);
    gst_caps_unref(all);
    return TRUE;
  }
  static gboolean event(GstPad *pad, GstObject *, GstEvent *event) {
    auto *self = static_cast<TiledSource *>(gst_pad_get_element_private(pad));
    if (GST_EVENT_TYPE(event) == GST_EVENT_RECONFIGURE) self->reconfigure_ = true;
    gst_event_unref(event);
    return TRUE;
  }
  GstCaps *caps(const std::vector<std::string> &formats) const {
    std::string list;
    for (const std::string &f : formats) list += (list.empty() ? "" : ",") + f;
    const std::string text = "video/x-raw(memory:DMABuf),format=DMA_DRM,width=640,height=480,framerate=30/1,"
                             "drm-format=(string){" +
                             list + "}";
    return gst_caps_from_string(text.c_str());
  }
  bool negotiate() {
    GstCaps *all = caps(formats_), *theirs = gst_pad_peer_query_caps(pad_, nullptr);
    GstCaps *both = gst_caps_intersect_full(theirs, all, GST_CAPS_INTERSECT_FIRST); // downstream's order counts
    gst_caps_unref(all);
    gst_caps_unref(theirs);
    GstCaps *mine = gst_caps_is_empty(both) ? caps({formats_[0]}) : gst_caps_copy_nth(both, 0);
    gst_caps_unref(both);
    mine = gst_caps_fixate(mine);
    negotiated_.push_back(gst_structure_get_string(gst_caps_get_structure(mine, 0), "drm-format"));
    const bool taken = gst_pad_push_event(pad_, gst_event_new_caps(mine));
    gst_caps_unref(mine);
    return taken;
  }
  GstBuffer *frame(unsigned planes) {
    const int fd = memfd_create("frame", MFD_CLOEXEC);
    const gsize plane_bytes = 640 * 512;
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(plane_bytes * planes)), 0);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator_, fd, plane_bytes * planes));
    gsize offsets[4] = {0, plane_bytes, 2 * plane_bytes, 3 * plane_bytes};
    gint strides[4] = {640, 640, 640, 640};
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_DMA_DRM, 640, 480, planes,
                                   offsets, strides);
    return buffer;
  }

  ProfileFile file_;
  std::vector<std::string> formats_, negotiated_;
  GstElement *pipeline_, *sink_;
  GstPad *pad_;
  GstAllocator *allocator_;
  std::atomic<bool> reconfigure_ = false;
};

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

} // namespace
