// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink against described devices: profiles, pipelines, and an upstream of tiled frames.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gstzc::test {

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
inline const char kTwoPlanes[] = R"({
  "driver": "invented", "device": "two planes", "provenance": "a test",
  "planes": [
    {"type": "Primary", "label": "graphics", "formats": ["XR24", "AR24"],
     "in_formats": [{"modifier": "0x0", "formats": ["XR24", "AR24"]}]},
    {"type": "Overlay", "label": "video", "formats": ["NV12", "XR24"],
     "in_formats": [{"modifier": "0x0100000000000002", "formats": ["NV12"]},
                    {"modifier": "0x0", "formats": ["NV12", "XR24"]}]}
  ]EXTRA})";

inline std::string twoPlanes(const std::string &extra = "") {
  std::string text = kTwoPlanes;
  text.replace(text.find("EXTRA"), 5, extra);
  return text;
}

struct Outcome {
  bool eos = false;
  std::vector<std::string> errors, infos, warnings; // the sink's own
  std::vector<std::string> others;                  // errors of other elements: what follows for them from the sink's
  std::string configuration;
  std::shared_ptr<GstStructure> stats;

  guint64 stat(const char *name) const {
    guint64 value = 0;
    EXPECT_TRUE(gst_structure_get_uint64(stats.get(), name, &value)) << name;
    return value;
  }
};

// Until EOS or the first error, and all that is said while the pipeline stops: who is faster, the sink or what upstream
// says of its error, changes nothing.
inline Outcome finish(GstElement *pipeline, GstElement *sink) {
  Outcome outcome;
  GstBus *bus = gst_element_get_bus(pipeline);
  constexpr auto kKinds =
      static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING | GST_MESSAGE_INFO);
  // true: it is the end
  const auto note = [&](GstMessage *message) {
    GError *error = nullptr;
    const GstMessageType type = GST_MESSAGE_TYPE(message);
    const bool own = GST_MESSAGE_SRC(message) == GST_OBJECT(sink);
    if (type == GST_MESSAGE_ERROR) gst_message_parse_error(message, &error, nullptr);
    if (type == GST_MESSAGE_WARNING) gst_message_parse_warning(message, &error, nullptr);
    if (type == GST_MESSAGE_INFO) gst_message_parse_info(message, &error, nullptr);
    if (error == nullptr)
      outcome.eos = true;
    else if (own)
      (type == GST_MESSAGE_ERROR     ? outcome.errors
       : type == GST_MESSAGE_WARNING ? outcome.warnings
                                     : outcome.infos)
          .push_back(error->message);
    else if (type == GST_MESSAGE_ERROR)
      outcome.others.push_back(error->message);
    g_clear_error(&error);
    gst_message_unref(message);
    return type == GST_MESSAGE_EOS || type == GST_MESSAGE_ERROR;
  };
  for (bool over = false; !over;) {
    GstMessage *message = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND, kKinds);
    over = message == nullptr || note(message);
  }
  gchar *configuration = nullptr;
  GstStructure *stats = nullptr;
  g_object_get(sink, "configuration", &configuration, "stats", &stats, nullptr);
  outcome.stats.reset(stats, gst_structure_free);
  outcome.configuration = configuration != nullptr ? configuration : "";
  g_free(configuration);
  gst_element_set_state(pipeline, GST_STATE_READY); // no thread posts any more, and the bus keeps what they did
  while (GstMessage *message = gst_bus_pop_filtered(bus, kKinds)) note(message);
  gst_object_unref(bus);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  return outcome;
}

inline Outcome play(const std::string &profile, const std::string &source, const std::string &settings = "") {
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
    dropPool();
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
      if (reconfigure_.exchange(false) && !ignores_) fine = negotiate();
      if (!fine) break;
      GstBuffer *next = pool_ != nullptr ? pooled() : frame(planes_of ? planes_of(i) : planes);
      fine = next != nullptr && gst_pad_push(pad_, next) == GST_FLOW_OK;
    }
    if (fine) gst_pad_push_event(pad_, gst_event_new_eos());
    gst_object_unref(sinkpad);
    return fine;
  }
  // Asks downstream for memory before the first frame, and with each new caps; takes the pool that it gets.
  void takePools() { takes_pools_ = true; }
  // Frames are the middle of larger pictures, as decoders give them.
  void crop() { cropped_ = true; }
  // Goes on with what it has when it is asked for something else.
  void ignoreRequests() { ignores_ = true; }
  // Memory planes of the nth frame, instead of those that push() says.
  std::function<unsigned(unsigned n)> planes_of;
  // With each answer.
  std::function<void(GstQuery *query, bool pool)> on_allocation;
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
    if (taken && takes_pools_) allocate(mine);
    gst_caps_unref(mine);
    return taken;
  }
  void dropPool() {
    if (pool_ != nullptr) gst_buffer_pool_set_active(pool_, FALSE);
    gst_clear_object(&pool_);
  }
  void allocate(GstCaps *caps) {
    dropPool();
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_peer_query(pad_, query));
    guint size = 0, min = 0, max = 0;
    if (gst_query_get_n_allocation_pools(query) > 0)
      gst_query_parse_nth_allocation_pool(query, 0, &pool_, &size, &min, &max);
    if (on_allocation) on_allocation(query, pool_ != nullptr);
    gst_query_unref(query);
    if (pool_ == nullptr) return;
    GstStructure *config = gst_buffer_pool_get_config(pool_);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    EXPECT_TRUE(gst_buffer_pool_set_config(pool_, config));
    EXPECT_TRUE(gst_buffer_pool_set_active(pool_, TRUE));
  }
  GstBuffer *pooled() {
    GstBuffer *buffer = nullptr;
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool_, &buffer, nullptr), GST_FLOW_OK);
    return buffer;
  }
  GstBuffer *frame(unsigned planes) {
    const guint width = cropped_ ? 656 : 640, height = cropped_ ? 496 : 480;
    const gint stride = cropped_ ? 704 : 640;
    const int fd = memfd_create("frame", MFD_CLOEXEC);
    const gsize plane_bytes = static_cast<gsize>(stride) * 512;
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(plane_bytes * planes)), 0);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator_, fd, plane_bytes * planes));
    const gsize offsets[4] = {0, plane_bytes, 2 * plane_bytes, 3 * plane_bytes};
    const gint strides[4] = {stride, stride, stride, stride};
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_DMA_DRM, width, height, planes,
                                   offsets, strides);
    if (cropped_) {
      GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);
      crop->x = crop->y = 8;
      crop->width = 640;
      crop->height = 480;
    }
    return buffer;
  }

  ProfileFile file_;
  std::vector<std::string> formats_, negotiated_;
  GstElement *pipeline_, *sink_;
  GstPad *pad_;
  GstAllocator *allocator_;
  GstBufferPool *pool_ = nullptr;
  bool takes_pools_ = false, cropped_ = false, ignores_ = false;
  std::atomic<bool> reconfigure_ = false;
};

} // namespace gstzc::test
