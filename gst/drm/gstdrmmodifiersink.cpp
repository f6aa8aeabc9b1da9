// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * SECTION:element-drmmodifiersink
 * @title: drmmodifiersink
 * @short_description: shows dma-bufs on a display plane, without copies
 *
 * Shows frames with the kernel's atomic modesetting. Linear dma-bufs of other devices become framebuffers as they are;
 * for upstream elements that write system memory the sink offers buffers of the display's own memory. What is attached
 * to frames, analytics metadata and GstVideoOverlayComposition, is drawn on an overlay plane of its own, the frame
 * stays untouched. What was on the screen before comes back when the element stops.
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
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <gst/video/gstvideosink.h>
#include <gst/video/video.h>

#include "gst/drm/display.h"
#include "gst/drm/element/allocation.h"
#include "gst/drm/element/flip_report.h"
#include "gst/drm/element/frame_copier.h"
#include "gst/drm/element/frame_request.h"
#include "gst/drm/element/negotiation.h"
#include "gst/drm/element/orientation.h"
#include "gst/drm/element/unused_settings.h"
#include "gst/drm/overlay/overlay_properties.h"
#include "gst/drm/overlay/scene_from_buffer.h"
#include "gst/drm/recycling.h"
#include "gst/zerocopy/frame_layout.h"

GST_DEBUG_CATEGORY_STATIC(gst_drm_modifier_sink_debug);
#define GST_CAT_DEFAULT gst_drm_modifier_sink_debug

namespace {

using namespace gstzc;

constexpr guint kMaxInFlight = 3;

struct Stats {
  uint64_t frames = 0, copies = 0, bytes_copied = 0;
  uint64_t renegotiations = 0; // times that upstream was asked for another format or layout
  // of frames to be copied, which are waited for before they come to the display
  uint64_t dropped = 0, fence_waits = 0, fence_timeouts = 0, fence_errors = 0, fence_wait_ns = 0;
};

// What the element is made of besides its GObject. Settings: under the object lock; `display` and `stats`: written by
// the streaming or application thread under `mutex`, which readers of the properties take.
struct SinkState {
  std::string device, device_profile, connector, mode;
  int fd = -1;
  AutoMode auto_mode = AutoMode::Match;
  OnUnplug on_unplug = OnUnplug::Pause;
  HdrMode hdr = HdrMode::Auto;
  bool vrr = false, async_flips = false;
  guint plane_id = 0;
  gint zpos = -1;
  gdouble alpha = 1;
  bool keep_aspect = true;
  GstVideoOrientationMethod orientation = GST_VIDEO_ORIENTATION_IDENTITY;
  GstVideoOrientationMethod tagged = GST_VIDEO_ORIENTATION_IDENTITY; // by the stream
  bool custom = false; // was asked for, which is nothing that a display does; the user does not know yet
  std::optional<Rect> rectangle;
  bool allow_copy = false, message_flips = false;
  OverlaySettings overlay;
  guint max_in_flight = kMaxInFlight;
  guint fence_timeout = kFenceTimeoutDefault; // ms
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;

  std::atomic<bool> interrupted = false; // nothing may wait

  std::mutex mutex;
  std::unique_ptr<Display> display;
  Stats stats;
  Display::Counters last_counters; // of the display closed last
  std::string last_configuration;
  std::unique_ptr<FlipReport> flips; // of the display that is open, or was
  bool error_posted = false, fence_warned = false, crop_warned = false, cut_warned = false, refusal_told = false;
  std::optional<Error> refusal; // why upstream's last proposal was refused; nothing: it was not, or caps came

  SinkNegotiation negotiation;
  std::shared_ptr<BlockStore> keepers = std::make_shared<BlockStore>();
  OverlayScene scene; // of the frame in hand
  FrameCaps caps;
  FrameNeed need;
  bool have_caps = false;
  FrameShape refused; // of the last frame that was refused
  SinkAllocation allocation;
  FrameCopier copier;
  GstBuffer *prerolled = nullptr;
};

} // namespace

enum {
  PROP_0,
  PROP_DEVICE,
  PROP_CONNECTOR,
  PROP_FD,
  PROP_MODE,
  PROP_ALLOW_COPY,
  PROP_MESSAGE_FLIPS,
  PROP_MAX_IN_FLIGHT,
  PROP_FENCE_TIMEOUT,
  PROP_ON_FENCE_ERROR,
  PROP_STATS,
  PROP_CONFIGURATION,
  PROP_DEVICE_PROFILE,
  PROP_AUTO_MODE,
  PROP_ON_UNPLUG,
  PROP_HDR,
  PROP_VRR,
  PROP_PLANE_ID,
  PROP_ZPOS,
  PROP_ALPHA,
  PROP_FORCE_ASPECT_RATIO,
  PROP_ROTATE_METHOD,
  PROP_VIDEO_DIRECTION,
  PROP_ASYNC_FLIPS,
  PROP_RENDER_RECTANGLE,                    // of GstVideoOverlay
  PROP_OVERLAY = PROP_RENDER_RECTANGLE + 1, // the first of several, overlay_properties.h
};

struct GstDrmModifierSink {
  GstVideoSink parent;
  SinkState *state;
};
struct GstDrmModifierSinkClass {
  GstVideoSinkClass parent_class;
};

GType gst_drm_modifier_sink_get_type();
static void gst_drm_modifier_sink_overlay_init(GstVideoOverlayInterface *overlay);
G_DEFINE_TYPE_WITH_CODE(GstDrmModifierSink, gst_drm_modifier_sink, GST_TYPE_VIDEO_SINK,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_VIDEO_DIRECTION, nullptr)
                            G_IMPLEMENT_INTERFACE(GST_TYPE_VIDEO_OVERLAY, gst_drm_modifier_sink_overlay_init))
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

// Upstream that was refused, tried nothing else and is over: its own error says nothing of the reason. True: it was so.
static bool tell_of_end_without_caps(GstDrmModifierSink *self) {
  std::optional<Error> refusal;
  {
    const std::lock_guard lock(self->state->mutex);
    refusal = std::exchange(self->state->refusal, std::nullopt);
  }
  if (!refusal) return false;
  if (is_first_error(self)) GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", refusal->message().c_str()), (nullptr));
  return true;
}

// How frames are to be shown, as the properties say, to the display that is open.
static void apply_look(GstDrmModifierSink *self) {
  SinkState *state = self->state;
  DisplayLook look;
  GST_OBJECT_LOCK(self);
  look.rectangle = state->rectangle;
  look.keep_aspect = state->keep_aspect;
  look.rotation = rotationOf(state->orientation, state->tagged);
  if (state->zpos >= 0) look.zpos = static_cast<uint64_t>(state->zpos);
  look.alpha = static_cast<uint16_t>(std::lround(std::clamp(state->alpha, 0.0, 1.0) * 0xffff));
  GST_OBJECT_UNLOCK(self);
  {
    const std::lock_guard lock(state->mutex);
    if (!state->display) return;
    state->display->setLook(look);
  }
  GST_OBJECT_LOCK(self);
  const bool custom = std::exchange(state->custom, false);
  GST_OBJECT_UNLOCK(self);
  if (custom)
    GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                        ("rotate-method=custom is no turn that a display does: frames are shown as they are"),
                        (nullptr));
}

static gboolean open_display(GstDrmModifierSink *self) {
  SinkState *state = self->state;
  Display::Options options;
  std::string mode;
  bool flips;
  GST_OBJECT_LOCK(self);
  options.open.path = state->device;
  options.open.profile = state->device_profile;
  options.open.fd = state->fd;
  options.open.connector = state->connector;
  options.hdr = state->hdr;
  options.vrr = state->vrr;
  options.async_flips = state->async_flips;
  options.auto_mode = state->auto_mode;
  options.on_unplug = state->on_unplug;
  options.plane = state->plane_id;
  options.overlay = state->overlay.mode;
  options.max_in_flight = state->max_in_flight;
  mode = state->mode;
  flips = state->message_flips;
  GST_OBJECT_UNLOCK(self);
  {
    const std::lock_guard lock(state->mutex);
    state->error_posted = state->fence_warned = state->crop_warned = state->cut_warned = state->refusal_told = false;
    state->refusal.reset();
    state->stats = {};
    state->last_counters = {};
    state->last_configuration.clear();
    state->flips = std::make_unique<FlipReport>(GST_BASE_SINK(self), flips);
  }
  if (const std::string unused = unusedSettings(options.open); !unused.empty())
    GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS, ("%s", unused.c_str()), (nullptr));
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
  events.commit.prompt = flips;
  events.commit.flipped = [report = state->flips.get()](const DisplayFrame &frame, uint64_t ns) {
    report->flipped(frame, ns);
  };
  events.configured = [self](const std::string &text) {
    GST_INFO_OBJECT(self, "%s", text.c_str());
    g_object_notify(G_OBJECT(self), "configuration");
  };
  events.note = [self](const std::string &text) {
    GST_ELEMENT_INFO(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr));
  };
  events.warning = [self](const std::string &text) {
    GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS, ("%s", text.c_str()), (nullptr));
  };
  // Elements that attached to frames what is not shown draw into them instead, where they can.
  events.no_overlay = [self] {
    self->state->negotiation.offer(self->state->display->offers(), false);
    gst_pad_push_event(GST_BASE_SINK_PAD(self), gst_event_new_reconfigure());
  };
  {
    // as many as there ever are, so that no frame allocates one
    std::vector<std::shared_ptr<void>> keepers;
    for (size_t i = 0; i < options.max_in_flight + 4; ++i)
      keepers.push_back(keepBuffer(state->keepers, gst_buffer_new()));
  }
  auto display = Display::open(options, std::move(events));
  if (!display) {
    post_error(self, display.error());
    return FALSE;
  }
  {
    const std::lock_guard lock(state->mutex);
    state->display = display.take();
  }
  apply_look(self);
  state->negotiation.offer(state->display->offers(), state->display->overlayPossible());
  return TRUE;
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
  state->copier.drop();
  state->allocation.close();
  state->negotiation.close();
  state->scene.clear();
  state->have_caps = false;
}

// Not in the base class's start(): when that fails, the base class posts an error of its own after ours.
static GstStateChangeReturn gst_drm_modifier_sink_change_state(GstElement *element, GstStateChange transition) {
  GstDrmModifierSink *self = SELF(element);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !open_display(self)) return GST_STATE_CHANGE_FAILURE;
  // without a first frame the element never came to PAUSED
  const bool ends = transition == GST_STATE_CHANGE_PAUSED_TO_READY || transition == GST_STATE_CHANGE_READY_TO_NULL;
  if (ends) (void)tell_of_end_without_caps(self);
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_drm_modifier_sink_parent_class)->change_state(element, transition);
  if (ends || (transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE))
    close_display(self);
  return result;
}

// Upstream that is left without caps says "not negotiated" and nothing else; here is who knows why. A warning: it may
// find another way. Where it does not the same is an error, when it is over.
static void tell_of_refusal(GstDrmModifierSink *self, const GstCaps *theirs) {
  SinkState *state = self->state;
  if (!gst_pad_is_linked(GST_BASE_SINK_PAD(self)) || gst_caps_is_empty(theirs)) return;
  const auto needs = needsOfCaps(theirs, true);
  Error error = needs ? Error{} : needs.error();
  {
    const std::lock_guard lock(state->mutex);
    if (!state->display) return;
    if (needs && !needs->empty()) error = state->display->whyNot(state->negotiation.nearest(*needs));
    if (error.what.empty()) return;
    if (!state->have_caps) state->refusal = error;
    if (std::exchange(state->refusal_told, true)) return;
  }
  GST_ELEMENT_WARNING(self, STREAM, FORMAT, ("%s", error.message().c_str()), (nullptr));
}

static GstCaps *gst_drm_modifier_sink_get_caps(GstBaseSink *sink, GstCaps *filter) {
  if (GstCaps *caps = SELF(sink)->state->negotiation.caps(filter)) {
    if (filter == nullptr) return caps;
    if (gst_caps_is_empty(caps)) {
      tell_of_refusal(SELF(sink), filter);
    } else {
      const std::lock_guard lock(SELF(sink)->state->mutex);
      SELF(sink)->state->refusal.reset(); // it has another way
    }
    return caps;
  }
  GstCaps *caps = gst_pad_get_pad_template_caps(GST_BASE_SINK_PAD(sink));
  if (filter == nullptr) return caps;
  GstCaps *both = gst_caps_intersect_full(filter, caps, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(caps);
  return both;
}

static GstPadProbeReturn watch_caps(GstPad *pad, GstPadProbeInfo *info, gpointer state) {
  (void)pad;
  GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
  if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
    GstCaps *caps = nullptr;
    gst_event_parse_caps(event, &caps);
    static_cast<SinkState *>(state)->negotiation.eventIsComing(caps);
  }
  return GST_PAD_PROBE_OK;
}

static gboolean gst_drm_modifier_sink_query(GstBaseSink *sink, GstQuery *query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_ACCEPT_CAPS)
    return GST_BASE_SINK_CLASS(gst_drm_modifier_sink_parent_class)->query(sink, query);
  GstCaps *caps = nullptr;
  gst_query_parse_accept_caps(query, &caps);
  gst_query_set_accept_caps_result(query, SELF(sink)->state->negotiation.accepts(caps));
  return TRUE;
}

static gboolean gst_drm_modifier_sink_set_caps(GstBaseSink *sink, GstCaps *caps) {
  GstDrmModifierSink *self = SELF(sink);
  SinkState *state = self->state;
  state->negotiation.eventIsComing(nullptr);
  auto parsed = parseFrameCaps(caps);
  if (!parsed || !state->display) {
    if (!parsed) post_error(self, parsed.error());
    return FALSE;
  }
  GST_INFO_OBJECT(self, "caps %" GST_PTR_FORMAT, caps);
  const FrameNeed need = needOfCaps(*parsed);
  if (auto possible = state->display->setFrames(need, colorOf(*parsed, caps)); !possible) {
    post_error(self, possible.error());
    return FALSE;
  }
  state->caps = *parsed;
  state->need = need;
  {
    const std::lock_guard lock(state->mutex);
    state->have_caps = true;
    state->refusal.reset();
  }
  state->negotiation.capsCame();
  state->copier.drop();
  return TRUE;
}

static gboolean gst_drm_modifier_sink_propose_allocation(GstBaseSink *sink, GstQuery *query) {
  GstDrmModifierSink *self = SELF(sink);
  SinkState *state = self->state;
  std::shared_ptr<KmsDevice> device;
  bool overlays = false;
  {
    const std::lock_guard lock(state->mutex);
    if (state->display) {
      device = state->display->device();
      overlays = state->display->overlayPossible();
    }
  }
  if (!device) return FALSE;
  const std::string note = state->allocation.answer(query, device, overlays);
  if (!note.empty()) GST_ELEMENT_INFO(self, RESOURCE, SETTINGS, ("%s", note.c_str()), (nullptr));
  return TRUE;
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

static Result<Committer::Submitted> show_buffer(GstDrmModifierSink *self, GstBuffer *buffer, const Picture &picture) {
  SinkState *state = self->state;
  DisplayFrameRequest request;
  GST_OBJECT_LOCK(self);
  const bool allow_copy = state->allow_copy;
  request.fence_timeout = std::chrono::milliseconds(state->fence_timeout);
  request.on_fence_error = state->on_fence_error;
  const bool overlays = state->overlay.mode != OverlayMode::Off;
  request.style = state->overlay.style;
  GST_OBJECT_UNLOCK(self);
  if (overlays) {
    sceneFromBuffer(buffer, state->caps.width(), state->caps.height(), state->scene);
    request.overlay = &state->scene;
  }
  request.crop = picture.crop;
  request.overlay_x = picture.x;
  request.overlay_y = picture.y;
  request.pts = GST_BUFFER_PTS(buffer);
  request.wait = gst_base_sink_get_sync(GST_BASE_SINK(self));
  if (request.wait) request.due = dueOf(GST_BASE_SINK(self), buffer);

  auto layout = frameLayout(buffer, picture.caps);
  if (!layout) return layout.error();
  if (layout->allDmaBuf()) {
    auto source = importSource(buffer, *layout, state->need.format.modifier);
    if (!source) return source.error();
    request.source = *source;
    request.keep = keepBuffer(state->keepers, gst_buffer_ref(buffer));
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
  auto copy =
      state->copier.copy(buffer, picture.caps, state->display->device(), [state] { return state->interrupted.load(); });
  if (!copy && copy.error().code == ECANCELED && state->interrupted) return Committer::Submitted::Interrupted;
  if (!copy) return copy.error();
  {
    const std::lock_guard lock(state->mutex);
    ++state->stats.copies;
    state->stats.bytes_copied += copy->bytes;
  }
  request.source = copy->source;
  request.keep = copy->keep;
  auto imported = state->display->import(request.source);
  if (!imported) return imported.error();
  return state->display->show(std::move(*imported), std::move(request));
}

// One warning a run: a crop is seldom that of a single frame.
static void warn_of_crop(GstDrmModifierSink *self, const Error &error) {
  {
    const std::lock_guard lock(self->state->mutex);
    if (std::exchange(self->state->crop_warned, true)) return;
  }
  GST_ELEMENT_WARNING(self, STREAM, FORMAT, ("frames are dropped: %s", error.message().c_str()), (nullptr));
}

static void warn_of_cut(GstDrmModifierSink *self, GstBuffer *buffer, const Picture &picture) {
  if (std::exchange(self->state->cut_warned, true)) return;
  const GstVideoCropMeta *meta = gst_buffer_get_video_crop_meta(buffer);
  GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                      ("a frame's GstVideoCropMeta asks for %ux%u at %u,%u of a picture of %dx%d: %s", meta->width,
                       meta->height, meta->x, meta->y, picture.caps.width(), picture.caps.height(),
                       picture.crop ? "what lies outside is left out" : "all of the picture is shown"),
                      (nullptr));
}

// GST_FLOW_FLUSHING: interrupted, the frame was not taken.
static GstFlowReturn show(GstDrmModifierSink *self, GstBuffer *buffer) {
  SinkState *state = self->state;
  const auto give_up = [state] {
    const std::lock_guard lock(state->mutex);
    ++state->stats.dropped;
    return GST_FLOW_OK;
  };
  // what was refused goes unlooked at until caps come; a frame that differs may be one that can be shown
  const Picture picture = pictureOf(buffer, state->caps);
  if (picture.cut) warn_of_cut(self, buffer, picture);
  const FrameShape shape = shapeOf(buffer, picture);
  const bool waiting = state->negotiation.isWaiting();
  if (waiting && shape == state->refused) return give_up();
  state->display->forgetRefusals();
  auto shown = show_buffer(self, buffer, picture);
  if (!shown) {
    state->refused = shape;
    if (waiting) return give_up();
    if (state->display->cropRefused() && state->negotiation.giveUpFrame(shown.error())) {
      warn_of_crop(self, shown.error());
      return give_up();
    }
    if (state->display->pairRefused() && !state->negotiation.waitedTooLong()) {
      GST_INFO_OBJECT(self, "%s", shown.error().message().c_str());
      GstCaps *now = gst_pad_get_current_caps(GST_BASE_SINK_PAD(self));
      const auto offers =
          state->display->offers(static_cast<uint32_t>(shape.width), static_cast<uint32_t>(shape.height));
      const bool asked = state->negotiation.renegotiate(GST_BASE_SINK_PAD(self), now, offers, shown.error());
      gst_clear_caps(&now);
      if (asked) {
        const std::lock_guard lock(state->mutex);
        ++state->stats.renegotiations;
        ++state->stats.dropped;
        return GST_FLOW_OK;
      }
    }
    post_error(self, shown.error());
    return GST_FLOW_ERROR;
  }
  if (*shown == Committer::Submitted::Interrupted) return GST_FLOW_FLUSHING;
  state->negotiation.taken();
  return GST_FLOW_OK;
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
    if (tell_of_end_without_caps(self)) {
      gst_event_unref(event);
      return FALSE;
    }
    // The message says that everything has been shown or given up. Interrupted by a pause it goes on afterwards.
    while (state->display) {
      auto drained = state->display->drain();
      if (const auto unshown = state->negotiation.endedUnshown();
          unshown && drained && state->display->counters().commit.shown == 0)
        drained = *unshown;
      if (drained && *drained == Committer::Submitted::Accepted) break;
      // a stream that failed has no end: whoever waits for either message would take it for a success
      if (!drained) post_error(self, drained.error());
      if (!drained || gst_base_sink_wait_preroll(sink) != GST_FLOW_OK) {
        gst_event_unref(event);
        return FALSE;
      }
    }
    break;
  case GST_EVENT_TAG: {
    GstTagList *tags = nullptr;
    gst_event_parse_tag(event, &tags);
    GstVideoOrientationMethod tagged;
    if (!gst_video_orientation_from_tag(tags, &tagged)) break;
    GST_OBJECT_LOCK(self);
    state->tagged = tagged;
    GST_OBJECT_UNLOCK(self);
    apply_look(self);
    break;
  }
  case GST_EVENT_FLUSH_STOP:
    gst_clear_buffer(&state->prerolled);
    if (state->display) state->display->flush();
    if (state->flips) state->flips->pause();
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
  add("dropped", c.commit.dropped + c.unseen + own.dropped);
  add("commits", c.commit.commits);
  add("busy-retries", c.commit.busy_retries);
  add("copies", own.copies);
  add("bytes-copied", own.bytes_copied);
  add("boxes", c.boxes);
  add("overlay-redraws", c.overlay_redraws);
  add("tests", c.tests);
  add("tests-refused", c.tests_refused);
  add("renegotiations", own.renegotiations);
  add("imports", c.imports);
  add("import-hits", c.import_hits);
  add("fence-waits", c.commit.fence_waits + own.fence_waits);
  add("fence-timeouts", c.commit.fence_timeouts + own.fence_timeouts);
  add("fence-errors", c.commit.fence_errors + own.fence_errors);
  add("fence-wait-ns", c.commit.fence_wait_ns + own.fence_wait_ns);
  add("in-fences", c.commit.in_fences);
  add("suspensions", c.commit.suspensions);
  const FlipStatistics::Summary flips = state->flips ? state->flips->summary() : FlipStatistics::Summary();
  add("flip-interval-ns", flips.interval);
  add("longest-flip-interval-ns", flips.longest);
  add("late-flips", flips.late);
  add("missed-vblanks", flips.missed);
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
  case PROP_MESSAGE_FLIPS: g_value_set_boolean(value, state->message_flips); break;
  case PROP_MAX_IN_FLIGHT: g_value_set_uint(value, state->max_in_flight); break;
  case PROP_FENCE_TIMEOUT: g_value_set_uint(value, state->fence_timeout); break;
  case PROP_ON_FENCE_ERROR: g_value_set_enum(value, state->on_fence_error); break;
  case PROP_DEVICE_PROFILE: text(state->device_profile); break;
  case PROP_AUTO_MODE: g_value_set_enum(value, static_cast<gint>(state->auto_mode)); break;
  case PROP_ON_UNPLUG: g_value_set_enum(value, static_cast<gint>(state->on_unplug)); break;
  case PROP_HDR: g_value_set_enum(value, static_cast<gint>(state->hdr)); break;
  case PROP_VRR: g_value_set_boolean(value, state->vrr); break;
  case PROP_ASYNC_FLIPS: g_value_set_boolean(value, state->async_flips); break;
  case PROP_PLANE_ID: g_value_set_uint(value, state->plane_id); break;
  case PROP_ZPOS: g_value_set_int(value, state->zpos); break;
  case PROP_ALPHA: g_value_set_double(value, state->alpha); break;
  case PROP_FORCE_ASPECT_RATIO: g_value_set_boolean(value, state->keep_aspect); break;
  case PROP_ROTATE_METHOD:
  case PROP_VIDEO_DIRECTION: g_value_set_enum(value, state->orientation); break;
  default:
    if (!getOverlayProperty(state->overlay, id - PROP_OVERLAY, value))
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void gst_drm_modifier_sink_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  SinkState *state = SELF(object)->state;
  if (gst_video_overlay_set_property(object, PROP_RENDER_RECTANGLE, id, value)) return;
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
  case PROP_MESSAGE_FLIPS: state->message_flips = g_value_get_boolean(value); break;
  case PROP_MAX_IN_FLIGHT: state->max_in_flight = g_value_get_uint(value); break;
  case PROP_FENCE_TIMEOUT: state->fence_timeout = g_value_get_uint(value); break;
  case PROP_ON_FENCE_ERROR: state->on_fence_error = static_cast<GstZcOnFenceError>(g_value_get_enum(value)); break;
  case PROP_DEVICE_PROFILE: text(state->device_profile); break;
  case PROP_AUTO_MODE: state->auto_mode = static_cast<AutoMode>(g_value_get_enum(value)); break;
  case PROP_ON_UNPLUG: state->on_unplug = static_cast<OnUnplug>(g_value_get_enum(value)); break;
  case PROP_HDR: state->hdr = static_cast<HdrMode>(g_value_get_enum(value)); break;
  case PROP_VRR: state->vrr = g_value_get_boolean(value); break;
  case PROP_ASYNC_FLIPS: state->async_flips = g_value_get_boolean(value); break;
  case PROP_PLANE_ID: state->plane_id = g_value_get_uint(value); break;
  case PROP_ZPOS: state->zpos = g_value_get_int(value); break;
  case PROP_ALPHA: state->alpha = g_value_get_double(value); break;
  case PROP_FORCE_ASPECT_RATIO: state->keep_aspect = g_value_get_boolean(value); break;
  case PROP_ROTATE_METHOD:
  case PROP_VIDEO_DIRECTION:
    state->orientation = static_cast<GstVideoOrientationMethod>(g_value_get_enum(value));
    state->custom = state->orientation == GST_VIDEO_ORIENTATION_CUSTOM;
    if (state->custom) state->orientation = GST_VIDEO_ORIENTATION_IDENTITY;
    break;
  default:
    if (!setOverlayProperty(state->overlay, id - PROP_OVERLAY, value))
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
  apply_look(SELF(object));
}

// The rectangle of the display that frames are put into; sides of 0 or below: all of it.
static void gst_drm_modifier_sink_set_render_rectangle(GstVideoOverlay *overlay, gint x, gint y, gint width,
                                                       gint height) {
  SinkState *state = SELF(overlay)->state;
  GST_OBJECT_LOCK(overlay);
  state->rectangle.reset();
  if (width > 0 && height > 0) state->rectangle = Rect{x, y, width, height};
  GST_OBJECT_UNLOCK(overlay);
  apply_look(SELF(overlay));
}

// There is no window, and what is on screen stays there by itself.
static void gst_drm_modifier_sink_set_window_handle(GstVideoOverlay *, guintptr) {}
static void gst_drm_modifier_sink_expose(GstVideoOverlay *) {}

static void gst_drm_modifier_sink_overlay_init(GstVideoOverlayInterface *overlay) {
  overlay->set_render_rectangle = gst_drm_modifier_sink_set_render_rectangle;
  overlay->set_window_handle = gst_drm_modifier_sink_set_window_handle;
  overlay->expose = gst_drm_modifier_sink_expose;
}

static void gst_drm_modifier_sink_finalize(GObject *object) {
  delete SELF(object)->state;
  G_OBJECT_CLASS(gst_drm_modifier_sink_parent_class)->finalize(object);
}

static void gst_drm_modifier_sink_init(GstDrmModifierSink *self) {
  self->state = new SinkState;
  gst_pad_add_probe(GST_BASE_SINK_PAD(self), GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, watch_caps, self->state, nullptr);
}

static GType auto_mode_type() {
  static const GEnumValue values[] = {{static_cast<gint>(AutoMode::Match), "By the size of the frames", "match"},
                                      {static_cast<gint>(AutoMode::Native), "The output's preferred mode", "native"},
                                      {static_cast<gint>(AutoMode::Keep), "The output's present mode", "keep"},
                                      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("GstDrmModifierSinkAutoMode", values);
  return type;
}

static GType on_unplug_type() {
  static const GEnumValue values[] = {
      {static_cast<gint>(OnUnplug::Pause), "Drop frames until the output is plugged in again", "pause"},
      {static_cast<gint>(OnUnplug::Error), "End the stream with an error", "error"},
      {static_cast<gint>(OnUnplug::Ignore), "Go on showing frames", "ignore"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("GstDrmModifierSinkOnUnplug", values);
  return type;
}

static GType hdr_type() {
  static const GEnumValue values[] = {
      {static_cast<gint>(HdrMode::Auto), "Where the screen says that it can show it", "auto"},
      {static_cast<gint>(HdrMode::Always), "Whatever the screen says", "always"},
      {static_cast<gint>(HdrMode::Never), "Never", "never"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("GstDrmModifierSinkHdr", values);
  return type;
}

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

  g_object_class_install_property(
      object, PROP_DEVICE_PROFILE,
      g_param_spec_string("device-profile", "Device profile",
                          "JSON description of a display to play against instead of a real one: everything is "
                          "negotiated, tested and counted, nothing is shown",
                          nullptr, ready));
  g_object_class_install_property(object, PROP_AUTO_MODE,
                                  g_param_spec_enum("auto-mode", "Automatic mode",
                                                    "What decides on the mode where mode is not set", auto_mode_type(),
                                                    static_cast<gint>(AutoMode::Match), ready));
  g_object_class_install_property(object, PROP_ON_UNPLUG,
                                  g_param_spec_enum("on-unplug", "On unplug",
                                                    "What becomes of frames while the output is unplugged",
                                                    on_unplug_type(), static_cast<gint>(OnUnplug::Pause), ready));
  g_object_class_install_property(
      object, PROP_HDR,
      g_param_spec_enum("hdr", "HDR",
                        "When the screen is told that frames are PQ or HLG, with their mastering metadata", hdr_type(),
                        static_cast<gint>(HdrMode::Auto), ready));
  g_object_class_install_property(object, PROP_VRR,
                                  g_param_spec_boolean("vrr", "Variable refresh",
                                                       "Let the refresh follow the frames where screen and device can",
                                                       FALSE, ready));
  g_object_class_install_property(
      object, PROP_ASYNC_FLIPS,
      g_param_spec_boolean(
          "async-flips", "Asynchronous flips",
          "Show frames at once instead of at the next vertical blank, where device and driver can: the "
          "picture may tear",
          FALSE, ready));
  g_object_class_install_property(
      object, PROP_PLANE_ID,
      g_param_spec_uint("plane-id", "Plane id", "The plane to show frames on (0: choose)", 0, G_MAXUINT, 0, ready));
  g_object_class_install_property(
      object, PROP_ZPOS,
      g_param_spec_int("zpos", "Z position",
                       "Height of the frames' plane in the stack; only planes that can have "
                       "it are used (-1: as it is)",
                       -1, G_MAXINT, -1, playing));
  g_object_class_install_property(
      object, PROP_ALPHA,
      g_param_spec_double("alpha", "Alpha", "Opacity of the frames' plane; below 1 only planes that can are used", 0, 1,
                          1, playing));
  g_object_class_install_property(
      object, PROP_FORCE_ASPECT_RATIO,
      g_param_spec_boolean("force-aspect-ratio", "Force aspect ratio",
                           "Keep the frame's proportions where it is scaled, instead of filling the rectangle", TRUE,
                           playing));
  g_object_class_install_property(
      object, PROP_ROTATE_METHOD,
      g_param_spec_enum("rotate-method", "Rotate method",
                        "How the display turns or mirrors the frames (auto: as the stream's tags say)",
                        GST_TYPE_VIDEO_ORIENTATION_METHOD, GST_VIDEO_ORIENTATION_IDENTITY, playing));
  g_object_class_override_property(object, PROP_VIDEO_DIRECTION, "video-direction");
  gst_video_overlay_install_properties(object, PROP_RENDER_RECTANGLE);
  installOverlayProperties(object, PROP_OVERLAY);

  GstElementClass *element = GST_ELEMENT_CLASS(klass);
  element->change_state = gst_drm_modifier_sink_change_state;
  gst_element_class_set_static_metadata(element, "DRM modifier sink", "Sink/Video",
                                        "Shows dma-bufs on a display plane with atomic modesetting, without copies",
                                        "gst-zerocopy");
  GstCaps *caps = templateCaps();
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
