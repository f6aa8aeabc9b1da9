// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * SECTION:element-drmmodifiersink
 * @title: drmmodifiersink
 * @short_description: shows dma-bufs on a display plane, without copies
 *
 * Shows frames with the kernel's atomic modesetting. Linear dma-bufs of other devices become framebuffers as they are;
 * for upstream elements that write system memory the sink offers buffers of the display's own memory. Boxes of
 * GstAnalyticsRelationMeta are drawn on an overlay plane of their own, the frame stays untouched. What was on the
 * screen before comes back when the element stops.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 v4l2src io-mode=dmabuf ! drmmodifiersink
 * gst-launch-1.0 videotestsrc ! drmmodifiersink device=/dev/dri/card1 mode=1280x720@60
 * ]|
 */
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/analytics/analytics.h>
#include <gst/gst.h>
#include <gst/video/gstvideosink.h>
#include <gst/video/video.h>

#include "gst/drm/display.h"
#include "gst/drm/gstzcdumbpool.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/memory_tracking.h"

GST_DEBUG_CATEGORY_STATIC(gst_drm_modifier_sink_debug);
#define GST_CAT_DEFAULT gst_drm_modifier_sink_debug

namespace {

using namespace gstzc;

// On screen, waiting for its flip, newest. More where fences are pending: producers that attach some have pools that
// grow, or wait.
constexpr guint kBuffersHeld = 3;
constexpr guint kMaxInFlight = 3;

struct Stats {
  uint64_t frames = 0, copies = 0, bytes_copied = 0;
  // of frames to be copied, which are waited for before they come to the display
  uint64_t dropped = 0, fence_waits = 0, fence_timeouts = 0, fence_errors = 0, fence_wait_ns = 0;
};

// What the element is made of besides its GObject. Settings: under the object lock; `display` and `stats`: written by
// the streaming or application thread under `mutex`, which readers of the properties take.
struct SinkState {
  std::string device, connector, mode;
  int fd = -1;
  bool allow_copy = false, overlay = true, message_flips = false;
  guint max_in_flight = kMaxInFlight;
  guint fence_timeout = kFenceTimeoutDefault; // ms
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;

  std::atomic<bool> interrupted = false; // nothing may wait

  std::mutex mutex;
  std::unique_ptr<Display> display;
  Stats stats;
  Display::Counters last_counters; // of the display closed last
  std::string last_configuration;
  bool error_posted = false, fence_warned = false;

  FrameCaps caps;
  bool have_caps = false;
  GstBufferPool *copy_pool = nullptr;
  GstBuffer *prerolled = nullptr;
};

std::shared_ptr<void> keepBuffer(GstBuffer *buffer) {
  return {gst_buffer_ref(buffer), [](void *b) { gst_buffer_unref(static_cast<GstBuffer *>(b)); }};
}

ColorChoice colorOf(const GstVideoInfo &info) {
  ColorChoice color;
  if (!GST_VIDEO_INFO_IS_YUV(&info)) return color;
  const GstVideoColorimetry &c = info.colorimetry;
  switch (c.matrix) {
  case GST_VIDEO_COLOR_MATRIX_BT601:
  case GST_VIDEO_COLOR_MATRIX_FCC: color.encoding = "ITU-R BT.601 YCbCr"; break;
  case GST_VIDEO_COLOR_MATRIX_BT2020: color.encoding = "ITU-R BT.2020 YCbCr"; break;
  case GST_VIDEO_COLOR_MATRIX_BT709: color.encoding = "ITU-R BT.709 YCbCr"; break;
  default: // unsaid: what video of this size usually is
    color.encoding = GST_VIDEO_INFO_HEIGHT(&info) > 576 ? "ITU-R BT.709 YCbCr" : "ITU-R BT.601 YCbCr";
  }
  color.range = c.range == GST_VIDEO_COLOR_RANGE_0_255 ? "YCbCr full range" : "YCbCr limited range";
  return color;
}

bool subsampled(const GstVideoInfo &info) {
  if (info.finfo == nullptr) return false;
  for (guint c = 0; c < GST_VIDEO_INFO_N_COMPONENTS(&info); ++c)
    if (GST_VIDEO_FORMAT_INFO_W_SUB(info.finfo, c) > 0 || GST_VIDEO_FORMAT_INFO_H_SUB(info.finfo, c) > 0) return true;
  return false;
}

std::vector<Rect> boxesOf(GstBuffer *buffer) {
  std::vector<Rect> boxes;
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (meta == nullptr) return boxes;
  gpointer state = nullptr;
  GstAnalyticsMtd mtd;
  while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &mtd)) {
    gint x, y, w, h;
    gfloat confidence;
    if (gst_analytics_od_mtd_get_location(&mtd, &x, &y, &w, &h, &confidence) && w > 0 && h > 0)
      boxes.push_back({x, y, w, h});
  }
  return boxes;
}

Result<FramebufferImporter::Source> importSource(GstBuffer *buffer, const FrameLayout &layout) {
  FramebufferImporter::Source source;
  if (layout.n_planes > kMaxFramebufferPlanes)
    return Error{"a frame of " + std::to_string(layout.n_planes) + " planes", 0, "A framebuffer has 4 at most"};
  source.key.n_planes = layout.n_planes;
  source.key.fourcc = layout.caps.fourcc;
  source.key.modifier = layout.caps.modifier;
  source.key.width = static_cast<uint32_t>(layout.caps.width());
  source.key.height = static_cast<uint32_t>(layout.caps.height());
  source.subsampled = subsampled(layout.caps.info);
  for (guint p = 0; p < layout.n_planes; ++p) {
    const PlaneLayout &plane = layout.planes[p];
    if (plane.offset > UINT32_MAX)
      return Error{"plane " + std::to_string(p) + " lies " + std::to_string(plane.offset) + " bytes into its dma-buf",
                   0, "A framebuffer's planes begin within the first 4 GiB"};
    auto id = trackMemory(gst_buffer_peek_memory(buffer, plane.memory));
    if (!id) return id.error();
    source.key.buffers[p] = *id;
    source.key.offsets[p] = plane.offset;
    source.key.pitches[p] = static_cast<uint32_t>(plane.stride);
    source.fds[p] = plane.fd;
  }
  return source;
}

// "video/x-raw" in the formats GStreamer has for these fourccs, and the fourccs themselves as dma-bufs
GstCaps *capsOf(const std::vector<uint32_t> *fourccs, int min_width, int max_width, int min_height, int max_height) {
  GValue system = G_VALUE_INIT, drm = G_VALUE_INIT;
  g_value_init(&system, GST_TYPE_LIST);
  g_value_init(&drm, GST_TYPE_LIST);
  const auto append = [](GValue *list, const char *text) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, G_TYPE_STRING);
    g_value_set_string(&value, text);
    gst_value_list_append_and_take_value(list, &value);
  };
  const auto appendSystem = [&](uint32_t fourcc) { // 0: all
    for (int f = GST_VIDEO_FORMAT_ENCODED + 1; f < GST_VIDEO_FORMAT_LAST; ++f) {
      const auto format = static_cast<GstVideoFormat>(f);
      if (format == GST_VIDEO_FORMAT_DMA_DRM || drmFormatName(format) == nullptr) continue;
      if (fourcc == 0 || gst_video_dma_drm_fourcc_from_format(format) == fourcc)
        append(&system, gst_video_format_to_string(format));
    }
  };
  if (fourccs == nullptr)
    appendSystem(0);
  else
    for (const uint32_t fourcc : *fourccs) {
      appendSystem(fourcc);
      gchar *name = gst_video_dma_drm_fourcc_to_string(fourcc, DRM_FORMAT_MOD_LINEAR);
      if (name != nullptr) append(&drm, name);
      g_free(name);
    }

  GstCaps *caps = gst_caps_new_empty();
  const auto add = [&](bool dmabuf) {
    GstStructure *s =
        gst_structure_new("video/x-raw", "framerate", GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr);
    const auto side = [&](const char *name, int min, int max) {
      if (min < max)
        gst_structure_set(s, name, GST_TYPE_INT_RANGE, min, max, nullptr);
      else
        gst_structure_set(s, name, G_TYPE_INT, max, nullptr);
    };
    side("width", min_width, max_width);
    side("height", min_height, max_height);
    if (dmabuf) {
      gst_structure_set(s, "format", G_TYPE_STRING, "DMA_DRM", nullptr);
      if (fourccs != nullptr) gst_structure_set_value(s, "drm-format", &drm);
    } else {
      gst_structure_set_value(s, "format", &system);
    }
    gst_caps_append_structure_full(
        caps, s, dmabuf ? gst_caps_features_new_single_static_str(GST_CAPS_FEATURE_MEMORY_DMABUF) : nullptr);
  };
  if (fourccs == nullptr || gst_value_list_get_size(&drm) > 0) add(true);
  if (gst_value_list_get_size(&system) > 0) add(false);
  g_value_unset(&system);
  g_value_unset(&drm);
  return caps;
}

} // namespace

enum {
  PROP_0,
  PROP_DEVICE,
  PROP_CONNECTOR,
  PROP_FD,
  PROP_MODE,
  PROP_ALLOW_COPY,
  PROP_OVERLAY_BOXES,
  PROP_MESSAGE_FLIPS,
  PROP_MAX_IN_FLIGHT,
  PROP_FENCE_TIMEOUT,
  PROP_ON_FENCE_ERROR,
  PROP_STATS,
  PROP_CONFIGURATION,
};

struct GstDrmModifierSink {
  GstVideoSink parent;
  SinkState *state;
};
struct GstDrmModifierSinkClass {
  GstVideoSinkClass parent_class;
};

GType gst_drm_modifier_sink_get_type();
G_DEFINE_TYPE(GstDrmModifierSink, gst_drm_modifier_sink, GST_TYPE_VIDEO_SINK)
GST_ELEMENT_REGISTER_DEFINE(drmmodifiersink, "drmmodifiersink", GST_RANK_NONE, gst_drm_modifier_sink_get_type())

#define SELF(obj) reinterpret_cast<GstDrmModifierSink *>(obj)

// One error a run: what follows from it is no news.
static bool is_first_error(GstDrmModifierSink *self) {
  const std::lock_guard lock(self->state->mutex);
  return !std::exchange(self->state->error_posted, true);
}

static void post_error(GstDrmModifierSink *self, const Error &error) {
  if (!is_first_error(self)) return;
  const std::string text = error.message();
  switch (error.code) {
  case EBUSY: GST_ELEMENT_ERROR(self, RESOURCE, BUSY, ("%s", text.c_str()), (nullptr)); break;
  case EACCES:
  case EPERM: GST_ELEMENT_ERROR(self, RESOURCE, NOT_AUTHORIZED, ("%s", text.c_str()), (nullptr)); break;
  case ENOENT: GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr)); break;
  default: GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", text.c_str()), (nullptr)); break;
  }
}

// An error, or else one warning a run: a producer that hangs does so for frame after frame. The errno of a fence is its
// producer's and says nothing about the display.
static void tell_of_fence(GstDrmModifierSink *self, uint64_t pts, const FenceVerdict &verdict) {
  const std::string text = verdict.error.message();
  GST_DEBUG_OBJECT(self, "frame %" GST_TIME_FORMAT ": %s", GST_TIME_ARGS(pts), text.c_str());
  if (verdict.fate == FrameFate::Fail) {
    if (is_first_error(self)) GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
    return;
  }
  {
    const std::lock_guard lock(self->state->mutex);
    if (std::exchange(self->state->fence_warned, true)) return;
  }
  GST_ELEMENT_WARNING(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
}

static void post_flip(GstDrmModifierSink *self, const DisplayFrame &frame, uint64_t flip_ns) {
  GstStructure *s = gst_structure_new("drmmodifiersink-flip", "pts", G_TYPE_UINT64, frame.pts, "flip-time",
                                      G_TYPE_UINT64, flip_ns, "device", G_TYPE_UINT64, frame.identity.device, "inode",
                                      G_TYPE_UINT64, frame.identity.inode, nullptr);
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), s));
}

static gboolean open_display(GstDrmModifierSink *self) {
  SinkState *state = self->state;
  Display::Options options;
  std::string mode;
  bool flips;
  GST_OBJECT_LOCK(self);
  options.open = {state->device, state->fd, state->connector};
  options.overlay = state->overlay;
  options.max_in_flight = state->max_in_flight;
  mode = state->mode;
  flips = state->message_flips;
  GST_OBJECT_UNLOCK(self);
  {
    const std::lock_guard lock(state->mutex);
    state->error_posted = state->fence_warned = false;
    state->stats = {};
    state->last_counters = {};
    state->last_configuration.clear();
  }
  if (!mode.empty()) {
    auto request = parseMode(mode);
    if (!request) {
      post_error(self, request.error());
      return FALSE;
    }
    options.mode = *request;
  }

  Display::Events events;
  events.commit.failed = [self](const Error &error) { post_error(self, error); };
  events.commit.bad_fence = [self](const DisplayFrame &frame, const FenceVerdict &verdict) {
    tell_of_fence(self, frame.pts, verdict);
  };
  if (flips) events.commit.flipped = [self](const DisplayFrame &frame, uint64_t ns) { post_flip(self, frame, ns); };
  events.configured = [self](const std::string &text) {
    GST_INFO_OBJECT(self, "%s", text.c_str());
    g_object_notify(G_OBJECT(self), "configuration");
  };
  events.note = [self](const std::string &text) {
    GST_ELEMENT_INFO(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr));
  };
  auto display = Display::open(options, std::move(events));
  if (!display) {
    post_error(self, display.error());
    return FALSE;
  }
  const std::lock_guard lock(state->mutex);
  state->display = display.take();
  return TRUE;
}

static void drop_pool(SinkState *state) {
  if (state->copy_pool == nullptr) return;
  gst_buffer_pool_set_active(state->copy_pool, FALSE);
  gst_clear_object(&state->copy_pool);
}

static void close_display(GstDrmModifierSink *self) {
  SinkState *state = self->state;
  gst_clear_buffer(&state->prerolled);
  if (state->display) {
    state->display->stop();
    std::unique_ptr<Display> display;
    {
      const std::lock_guard lock(state->mutex);
      state->last_counters = state->display->counters();
      state->last_configuration = state->display->configuration();
      display = std::move(state->display);
    }
    if (auto closed = display->close(); !closed)
      GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS, ("%s", closed.error().message().c_str()), (nullptr));
  }
  drop_pool(state);
  state->have_caps = false;
}

// Not in the base class's start(): when that fails, the base class posts an error of its own after ours.
static GstStateChangeReturn gst_drm_modifier_sink_change_state(GstElement *element, GstStateChange transition) {
  GstDrmModifierSink *self = SELF(element);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !open_display(self)) return GST_STATE_CHANGE_FAILURE;
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_drm_modifier_sink_parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY ||
      (transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE))
    close_display(self);
  return result;
}

static GstCaps *gst_drm_modifier_sink_get_caps(GstBaseSink *sink, GstCaps *filter) {
  SinkState *state = SELF(sink)->state;
  GstCaps *caps;
  {
    const std::lock_guard lock(state->mutex);
    if (state->display) {
      const KmsSnapshot &s = state->display->snapshot();
      const std::vector<uint32_t> formats = state->display->formats();
      // a frame may be smaller than the smallest mode
      caps = capsOf(&formats, 1, static_cast<int>(s.max_width), 1, static_cast<int>(s.max_height));
    } else {
      caps = gst_pad_get_pad_template_caps(GST_BASE_SINK_PAD(sink));
    }
  }
  if (filter != nullptr) {
    GstCaps *both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(caps);
    caps = both;
  }
  return caps;
}

// Caps whose only fault is the size or a modifier are let through to set_caps(), which says what is wrong; refused here
// they end as "not negotiated" without a reason.
static gboolean accepts(GstBaseSink *sink, const GstCaps *caps) {
  GstCaps *allowed = gst_drm_modifier_sink_get_caps(sink, nullptr);
  gboolean result = gst_caps_is_subset(caps, allowed);
  if (!result && gst_caps_is_fixed(caps)) {
    GstCaps *sized = gst_caps_copy(caps);
    gst_caps_set_simple(sized, "width", G_TYPE_INT, 1, "height", G_TYPE_INT, 1, nullptr);
    result = gst_caps_is_subset(sized, allowed);
    gst_caps_unref(sized);
    if (const auto parsed = parseFrameCaps(caps); parsed && !parsed->linear()) result = TRUE;
  }
  gst_caps_unref(allowed);
  return result;
}

static gboolean gst_drm_modifier_sink_query(GstBaseSink *sink, GstQuery *query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_ACCEPT_CAPS)
    return GST_BASE_SINK_CLASS(gst_drm_modifier_sink_parent_class)->query(sink, query);
  GstCaps *caps = nullptr;
  gst_query_parse_accept_caps(query, &caps);
  gst_query_set_accept_caps_result(query, accepts(sink, caps));
  return TRUE;
}

static gboolean gst_drm_modifier_sink_set_caps(GstBaseSink *sink, GstCaps *caps) {
  GstDrmModifierSink *self = SELF(sink);
  SinkState *state = self->state;
  auto parsed = parseFrameCaps(caps);
  if (!parsed || !state->display) {
    if (!parsed) post_error(self, parsed.error());
    return FALSE;
  }
  if (!parsed->linear()) {
    post_error(self, Error{"frames with modifier " + toString({parsed->fourcc, parsed->modifier}), 0,
                           "This element shows linear frames: ask upstream for drm-format without a modifier"});
    return FALSE;
  }
  const KmsSnapshot &s = state->display->snapshot();
  if (parsed->width() > static_cast<int>(s.max_width) || parsed->height() > static_cast<int>(s.max_height)) {
    post_error(
        self, Error{"a frame of " + std::to_string(parsed->width()) + "x" + std::to_string(parsed->height()) +
                        " is larger than " + s.path + " (" + s.driver + ") takes",
                    0, "Scale it to " + std::to_string(s.max_width) + "x" + std::to_string(s.max_height) + " at most"});
    return FALSE;
  }
  GST_INFO_OBJECT(self, "caps %" GST_PTR_FORMAT, caps);
  state->caps = *parsed;
  state->have_caps = true;
  drop_pool(state);
  FrameNeed need;
  need.format = {parsed->fourcc, parsed->modifier};
  need.width = parsed->width();
  need.height = parsed->height();
  need.par_n = std::max(GST_VIDEO_INFO_PAR_N(&parsed->info), 1);
  need.par_d = std::max(GST_VIDEO_INFO_PAR_D(&parsed->info), 1);
  state->display->setFrames(need, colorOf(parsed->info));
  return TRUE;
}

static gboolean gst_drm_modifier_sink_propose_allocation(GstBaseSink *sink, GstQuery *query) {
  GstDrmModifierSink *self = SELF(sink);
  SinkState *state = self->state;
  GstCaps *caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  std::shared_ptr<KmsDevice> device;
  {
    const std::lock_guard lock(state->mutex);
    if (state->display) device = state->display->device();
  }
  if (caps == nullptr || !device) return FALSE;
  auto parsed = parseFrameCaps(caps);
  if (!parsed) return FALSE;

  // any stride and offset, and fences are waited for
  for (const GType api : {GST_VIDEO_META_API_TYPE, GST_ZC_FENCE_META_API_TYPE})
    gst_query_add_allocation_meta(query, api, nullptr);
  // A producer of dma-bufs has better memory than ours (cached, of its own device) unless we may be unable to import
  // it.
  bool keeps_its_own = false;
  if (parsed->memory == MemoryKind::DmaBuf) {
    const ForeignMemory foreign = device->foreignMemory();
    keeps_its_own = foreign == ForeignMemory::Any;
    gst_query_add_zc_memory_need(
        query, foreign == ForeignMemory::Contiguous ? GST_ZC_MEMORY_NEED_CONTIGUOUS : GST_ZC_MEMORY_NEED_ANY,
        (device->path() + " (" + device->driver() + ")").c_str());
  }
  auto size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&parsed->info));
  GstBufferPool *pool = nullptr;
  if (need_pool && parsed->linear() && size > 0 && !keeps_its_own) {
    // not configured: whether it can deal with GstVideoMeta is the user's to say
    if (auto bytes = dumbFrameSize(device, parsed->info)) {
      size = *bytes;
      pool = newDumbPool(device);
    } else {
      GST_INFO_OBJECT(self, "no pool is offered: %s", bytes.error().message().c_str());
    }
  }
  gst_query_add_allocation_pool(query, pool, size, kBuffersHeld, 0);
  gst_clear_object(&pool);
  return TRUE;
}

// A buffer of the display's own memory with the frame's pixels; counted.
static Result<GstBuffer *> copy_frame(GstDrmModifierSink *self, GstBuffer *buffer) {
  SinkState *state = self->state;
  if (GST_VIDEO_INFO_SIZE(&state->caps.info) == 0)
    return Error{"a copy of a frame whose format GStreamer does not know", 0, "Give the display memory it can import"};
  GstCaps *caps = gst_video_info_to_caps(&state->caps.info);
  auto copy_caps = parseFrameCaps(caps);
  if (copy_caps && state->copy_pool == nullptr) {
    GstBufferPool *pool = newDumbPool(state->display->device());
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&state->caps.info)),
                                      kBuffersHeld, 0);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (gst_buffer_pool_set_config(pool, config) && gst_buffer_pool_set_active(pool, TRUE))
      state->copy_pool = pool;
    else
      gst_object_unref(pool);
  }
  gst_caps_unref(caps);
  if (!copy_caps) return copy_caps.error();
  GstBuffer *copy = nullptr;
  if (state->copy_pool == nullptr || gst_buffer_pool_acquire_buffer(state->copy_pool, &copy, nullptr) != GST_FLOW_OK)
    return Error{"memory of the display for a copy of the frame", ENOMEM, "Look for messages of its driver in dmesg"};
  auto bytes = copyFrame(copy, *copy_caps, buffer, state->caps, [state] { return state->interrupted.load(); });
  if (!bytes) {
    gst_buffer_unref(copy);
    return bytes.error();
  }
  gst_buffer_copy_into(copy, buffer, GST_BUFFER_COPY_TIMESTAMPS, 0, static_cast<gsize>(-1));
  const std::lock_guard lock(state->mutex);
  ++state->stats.copies;
  state->stats.bytes_copied += *bytes;
  return copy;
}

enum class Producer { Done, GivenUp, Interrupted };

// Before a copy, in the streaming thread. A frame that is given up has been counted and told of; an error, told of too,
// ends the stream.
static Result<Producer> wait_for_producer(GstDrmModifierSink *self, GstBuffer *buffer,
                                          std::chrono::milliseconds timeout, GstZcOnFenceError policy) {
  SinkState *state = self->state;
  auto fences = frameFences(buffer, Access::Read);
  if (fences && fences->none()) return Producer::Done;
  const auto began = std::chrono::steady_clock::now();
  const Result<FenceResult> end =
      fences ? waitForFences(fences.take(), timeout, [&] { return state->interrupted.load(); }) : fences.error();
  if (end && end->outcome == FenceOutcome::Cancelled) return Producer::Interrupted;
  FenceVerdict verdict = end ? judgeFence(*end, policy, timeout) : judgeFence(end.error(), policy);
  {
    const std::lock_guard lock(state->mutex);
    if (end) {
      ++state->stats.fence_waits;
      state->stats.fence_wait_ns += static_cast<uint64_t>((std::chrono::steady_clock::now() - began).count());
    }
    if (verdict.fate == FrameFate::Use) return Producer::Done;
    ++(end && end->outcome == FenceOutcome::TimedOut ? state->stats.fence_timeouts : state->stats.fence_errors);
    ++state->stats.dropped;
  }
  if (verdict.fate == FrameFate::Pass)
    verdict.error.remedy = "It is dropped: a frame that has to be copied cannot be shown unread";
  tell_of_fence(self, GST_BUFFER_PTS(buffer), verdict);
  if (verdict.fate == FrameFate::Fail) return verdict.error;
  return Producer::GivenUp;
}

static Result<Committer::Submitted> show_buffer(GstDrmModifierSink *self, GstBuffer *buffer) {
  SinkState *state = self->state;
  DisplayFrameRequest request;
  GST_OBJECT_LOCK(self);
  const bool allow_copy = state->allow_copy;
  request.fence_timeout = std::chrono::milliseconds(state->fence_timeout);
  request.on_fence_error = state->on_fence_error;
  GST_OBJECT_UNLOCK(self);
  request.boxes = boxesOf(buffer);
  request.pts = GST_BUFFER_PTS(buffer);
  request.wait = gst_base_sink_get_sync(GST_BASE_SINK(self));

  auto layout = frameLayout(buffer, state->caps);
  if (!layout) return layout.error();
  if (layout->allDmaBuf()) {
    auto source = importSource(buffer, *layout);
    if (!source) return source.error();
    request.source = *source;
    request.keep = keepBuffer(buffer);
    auto imported = state->display->import(request.source);
    if (imported) {
      request.fences = frameFences(buffer, Access::Read);
      return state->display->show(std::move(*imported), std::move(request));
    }
    if (!allow_copy) return imported.error();
    GST_LOG_OBJECT(self, "copying: %s", imported.error().message().c_str());
  } else if (!allow_copy) {
    return Error{"a frame in system memory that is not of the pool this element offered", 0,
                 "Put dmabufupload before the sink, or set allow-copy=true"};
  }

  const auto ready = wait_for_producer(self, buffer, request.fence_timeout, request.on_fence_error);
  if (!ready) return ready.error();
  if (*ready == Producer::Interrupted) return Committer::Submitted::Interrupted;
  if (*ready == Producer::GivenUp) return Committer::Submitted::Accepted;
  auto copy = copy_frame(self, buffer);
  if (!copy && copy.error().code == ECANCELED && state->interrupted) return Committer::Submitted::Interrupted;
  if (!copy) return copy.error();
  request.keep = std::shared_ptr<void>(*copy, [](void *b) { gst_buffer_unref(static_cast<GstBuffer *>(b)); });
  auto caps = state->caps;
  caps.memory = MemoryKind::System;
  auto copy_layout = frameLayout(*copy, caps);
  if (!copy_layout) return copy_layout.error();
  auto source = importSource(*copy, *copy_layout);
  if (!source) return source.error();
  auto imported = state->display->import(*source);
  if (!imported) return imported.error();
  request.source = *source;
  return state->display->show(std::move(*imported), std::move(request));
}

// GST_FLOW_FLUSHING: interrupted, the frame was not taken.
static GstFlowReturn show(GstDrmModifierSink *self, GstBuffer *buffer) {
  auto shown = show_buffer(self, buffer);
  if (!shown) {
    post_error(self, shown.error());
    return GST_FLOW_ERROR;
  }
  return *shown == Committer::Submitted::Interrupted ? GST_FLOW_FLUSHING : GST_FLOW_OK;
}

static bool begin_frame(SinkState *state) {
  if (!state->display || !state->have_caps) return false;
  const std::lock_guard lock(state->mutex);
  ++state->stats.frames;
  return true;
}

static GstFlowReturn gst_drm_modifier_sink_preroll(GstBaseSink *sink, GstBuffer *buffer) {
  GstDrmModifierSink *self = SELF(sink);
  gboolean wanted = TRUE;
  g_object_get(self, "show-preroll-frame", &wanted, nullptr);
  if (!wanted) return GST_FLOW_OK;
  if (!begin_frame(self->state)) return GST_FLOW_NOT_NEGOTIATED;
  const GstFlowReturn flow = show(self, buffer);
  if (flow == GST_FLOW_OK) gst_buffer_replace(&self->state->prerolled, buffer);
  if (flow != GST_FLOW_FLUSHING) return flow;
  // Interrupted by a pause or a flush: the base class knows by which. After a pause the frame comes again to render().
  const std::lock_guard lock(self->state->mutex);
  --self->state->stats.frames;
  return GST_FLOW_OK;
}

static GstFlowReturn gst_drm_modifier_sink_render(GstBaseSink *sink, GstBuffer *buffer) {
  GstDrmModifierSink *self = SELF(sink);
  const bool on_screen = self->state->prerolled == buffer;
  gst_clear_buffer(&self->state->prerolled);
  if (on_screen) return GST_FLOW_OK;
  if (!begin_frame(self->state)) return GST_FLOW_NOT_NEGOTIATED;
  GstFlowReturn flow;
  // Interrupted by a pause the frame is the one to go on with: upstream would stop for good if it were told of
  // flushing.
  while ((flow = show(self, buffer)) == GST_FLOW_FLUSHING)
    if (flow = gst_base_sink_wait_preroll(sink); flow != GST_FLOW_OK) return flow;
  return flow;
}

static gboolean gst_drm_modifier_sink_event(GstBaseSink *sink, GstEvent *event) {
  GstDrmModifierSink *self = SELF(sink);
  SinkState *state = self->state;
  switch (GST_EVENT_TYPE(event)) {
  case GST_EVENT_EOS:
    // The message says that everything has been shown or given up. Interrupted by a pause it goes on afterwards.
    while (state->display) {
      auto drained = state->display->drain();
      if (drained && *drained == Committer::Submitted::Accepted) break;
      // a stream that failed has no end: whoever waits for either message would take it for a success
      if (!drained) post_error(self, drained.error());
      if (!drained || gst_base_sink_wait_preroll(sink) != GST_FLOW_OK) {
        gst_event_unref(event);
        return FALSE;
      }
    }
    break;
  case GST_EVENT_FLUSH_STOP:
    gst_clear_buffer(&state->prerolled);
    if (state->display) state->display->flush();
    break;
  default: break;
  }
  return GST_BASE_SINK_CLASS(gst_drm_modifier_sink_parent_class)->event(sink, event);
}

static gboolean interrupt(GstBaseSink *sink, bool on) {
  SinkState *state = SELF(sink)->state;
  state->interrupted = on;
  const std::lock_guard lock(state->mutex);
  if (state->display) state->display->interrupt(on);
  return TRUE;
}

static gboolean gst_drm_modifier_sink_unlock(GstBaseSink *sink) { return interrupt(sink, true); }

static gboolean gst_drm_modifier_sink_unlock_stop(GstBaseSink *sink) { return interrupt(sink, false); }

static GstStructure *make_stats(SinkState *state) {
  const std::lock_guard lock(state->mutex);
  const Display::Counters c = state->display ? state->display->counters() : state->last_counters;
  const Stats &own = state->stats;
  GstStructure *stats = gst_structure_new_empty("stats");
  const auto add = [&](const char *name, uint64_t value) {
    gst_structure_set(stats, name, G_TYPE_UINT64, static_cast<guint64>(value), nullptr);
  };
  add("frames", own.frames);
  add("shown", c.commit.shown);
  add("dropped", c.commit.dropped + own.dropped);
  add("commits", c.commit.commits);
  add("busy-retries", c.commit.busy_retries);
  add("copies", own.copies);
  add("bytes-copied", own.bytes_copied);
  add("boxes", c.boxes);
  add("imports", c.imports);
  add("import-hits", c.import_hits);
  add("fence-waits", c.commit.fence_waits + own.fence_waits);
  add("fence-timeouts", c.commit.fence_timeouts + own.fence_timeouts);
  add("fence-errors", c.commit.fence_errors + own.fence_errors);
  add("fence-wait-ns", c.commit.fence_wait_ns + own.fence_wait_ns);
  add("in-fences", c.commit.in_fences);
  add("in-fence-refused", c.commit.in_fence_refused);
  return stats;
}

static void gst_drm_modifier_sink_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  SinkState *state = SELF(object)->state;
  switch (id) {
  case PROP_STATS: g_value_take_boxed(value, make_stats(state)); return;
  case PROP_CONFIGURATION: {
    const std::lock_guard lock(state->mutex);
    const std::string text = state->display ? state->display->configuration() : state->last_configuration;
    g_value_set_string(value, text.empty() ? nullptr : text.c_str());
    return;
  }
  default: break;
  }
  const auto text = [&](const std::string &s) { g_value_set_string(value, s.empty() ? nullptr : s.c_str()); };
  GST_OBJECT_LOCK(object);
  switch (id) {
  case PROP_DEVICE: text(state->device); break;
  case PROP_CONNECTOR: text(state->connector); break;
  case PROP_FD: g_value_set_int(value, state->fd); break;
  case PROP_MODE: text(state->mode); break;
  case PROP_ALLOW_COPY: g_value_set_boolean(value, state->allow_copy); break;
  case PROP_OVERLAY_BOXES: g_value_set_boolean(value, state->overlay); break;
  case PROP_MESSAGE_FLIPS: g_value_set_boolean(value, state->message_flips); break;
  case PROP_MAX_IN_FLIGHT: g_value_set_uint(value, state->max_in_flight); break;
  case PROP_FENCE_TIMEOUT: g_value_set_uint(value, state->fence_timeout); break;
  case PROP_ON_FENCE_ERROR: g_value_set_enum(value, state->on_fence_error); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void gst_drm_modifier_sink_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  SinkState *state = SELF(object)->state;
  const auto text = [&](std::string &s) {
    const gchar *v = g_value_get_string(value);
    s = v != nullptr ? v : "";
  };
  GST_OBJECT_LOCK(object);
  switch (id) {
  case PROP_DEVICE: text(state->device); break;
  case PROP_CONNECTOR: text(state->connector); break;
  case PROP_FD: state->fd = g_value_get_int(value); break;
  case PROP_MODE: text(state->mode); break;
  case PROP_ALLOW_COPY: state->allow_copy = g_value_get_boolean(value); break;
  case PROP_OVERLAY_BOXES: state->overlay = g_value_get_boolean(value); break;
  case PROP_MESSAGE_FLIPS: state->message_flips = g_value_get_boolean(value); break;
  case PROP_MAX_IN_FLIGHT: state->max_in_flight = g_value_get_uint(value); break;
  case PROP_FENCE_TIMEOUT: state->fence_timeout = g_value_get_uint(value); break;
  case PROP_ON_FENCE_ERROR: state->on_fence_error = static_cast<GstZcOnFenceError>(g_value_get_enum(value)); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void gst_drm_modifier_sink_finalize(GObject *object) {
  delete SELF(object)->state;
  G_OBJECT_CLASS(gst_drm_modifier_sink_parent_class)->finalize(object);
}

static void gst_drm_modifier_sink_init(GstDrmModifierSink *self) { self->state = new SinkState; }

static void gst_drm_modifier_sink_class_init(GstDrmModifierSinkClass *klass) {
  GST_DEBUG_CATEGORY_INIT(gst_drm_modifier_sink_debug, "drmmodifiersink", 0, "atomic KMS sink");
  GObjectClass *object = G_OBJECT_CLASS(klass);
  object->get_property = gst_drm_modifier_sink_get_property;
  object->set_property = gst_drm_modifier_sink_set_property;
  object->finalize = gst_drm_modifier_sink_finalize;

  const auto ready = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto playing = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
  const auto readable = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_property(
      object, PROP_DEVICE,
      g_param_spec_string("device", "Device",
                          "Card node, e.g. /dev/dri/card0 (NULL: the first one with atomic modesetting and a connected "
                          "output)",
                          nullptr, ready));
  g_object_class_install_property(
      object, PROP_CONNECTOR,
      g_param_spec_string("connector", "Connector",
                          "Output by name or id, e.g. HDMI-A-1 (NULL: the first connected one)", nullptr, ready));
  g_object_class_install_property(
      object, PROP_FD,
      g_param_spec_int("fd", "Descriptor",
                       "Open card node whose file is master, used instead of device; duplicated (-1: none)", -1,
                       G_MAXINT, -1, ready));
  g_object_class_install_property(
      object, PROP_MODE,
      g_param_spec_string(
          "mode", "Mode",
          "WIDTHxHEIGHT or WIDTHxHEIGHT@REFRESH, also one the output does not list (NULL: by the frame's size)",
          nullptr, ready));
  g_object_class_install_property(
      object, PROP_ALLOW_COPY,
      g_param_spec_boolean("allow-copy", "Allow copies",
                           "Copy frames that the display cannot take as they are, instead of an error", FALSE,
                           playing));
  g_object_class_install_property(object, PROP_OVERLAY_BOXES,
                                  g_param_spec_boolean("overlay-boxes", "Overlay boxes",
                                                       "Show the boxes of analytics metadata on an overlay plane", TRUE,
                                                       ready));
  g_object_class_install_property(
      object, PROP_MESSAGE_FLIPS,
      g_param_spec_boolean(
          "message-flips", "Message flips",
          "Post an element message drmmodifiersink-flip (pts, flip-time, device, inode) for each frame that "
          "has come on screen",
          FALSE, ready));
  g_object_class_install_property(
      object, PROP_MAX_IN_FLIGHT,
      g_param_spec_uint("max-in-flight", "Maximum in flight",
                        "Frames that wait for their fences, besides the one committed and the one on screen", 1, 64,
                        kMaxInFlight, ready));
  g_object_class_install_property(object, PROP_FENCE_TIMEOUT, fenceTimeoutSpec());
  g_object_class_install_property(object, PROP_ON_FENCE_ERROR, onFenceErrorSpec());
  g_object_class_install_property(
      object, PROP_STATS,
      g_param_spec_boxed("stats", "Statistics", "Counters since the element started", GST_TYPE_STRUCTURE, readable));
  g_object_class_install_property(object, PROP_CONFIGURATION,
                                  g_param_spec_string("configuration", "Configuration",
                                                      "Device, output, mode, plane, format and rectangle in use",
                                                      nullptr, readable));

  GstElementClass *element = GST_ELEMENT_CLASS(klass);
  element->change_state = gst_drm_modifier_sink_change_state;
  gst_element_class_set_static_metadata(element, "DRM modifier sink", "Sink/Video",
                                        "Shows dma-bufs on a display plane with atomic modesetting, without copies",
                                        "gst-zerocopy");
  GstCaps *caps = capsOf(nullptr, 1, G_MAXINT, 1, G_MAXINT);
  gst_element_class_add_pad_template(element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);

  GstBaseSinkClass *sink = GST_BASE_SINK_CLASS(klass);
  sink->query = gst_drm_modifier_sink_query;
  sink->get_caps = gst_drm_modifier_sink_get_caps;
  sink->set_caps = gst_drm_modifier_sink_set_caps;
  sink->propose_allocation = gst_drm_modifier_sink_propose_allocation;
  sink->preroll = gst_drm_modifier_sink_preroll;
  sink->render = gst_drm_modifier_sink_render;
  sink->event = gst_drm_modifier_sink_event;
  sink->unlock = gst_drm_modifier_sink_unlock;
  sink->unlock_stop = gst_drm_modifier_sink_unlock_stop;
}
