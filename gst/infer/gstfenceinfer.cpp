// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * SECTION:element-fenceinfer
 * @title: fenceinfer
 *
 * Runs an ONNX model on each frame where it lies and passes the same frame on, with what the model found as
 * GstAnalyticsRelationMeta. Frames are read in dma-bufs (linear) and in system memory; none is copied or converted.
 * The model runs in a task of the source pad, not in the thread that delivers the frames. Neither of them sleeps for
 * the fences of a frame: a frame whose producer is not done waits in the queue between them, at most `fence-timeout`,
 * and `on-fence-error` says what happens to one whose fences fail or come too late.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 -m v4l2src ! video/x-raw,format=NV12 ! fenceinfer model-file=face.onnx message-results=true ! fakesink
 * ]|
 */
#include "gst/infer/gstfenceinfer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <gst/video/video.h>

#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/inference.h"
#include "gst/infer/engine/onnx_engine.h"
#include "gst/infer/output/results.h"
#include "gst/infer/stats.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/shallow_copy.h"

GST_DEBUG_CATEGORY_STATIC(gst_fence_infer_debug);
#define GST_CAT_DEFAULT gst_fence_infer_debug

using namespace gstzc;
using namespace gstzc::infer;

namespace {

enum DecoderProperty { DECODER_AUTO, DECODER_BLAZEFACE };
enum ResizeProperty { RESIZE_AUTO, RESIZE_STRETCH, RESIZE_LETTERBOX };

enum Property {
  PROP_0,
  PROP_MODEL_FILE,
  PROP_DECODER,
  PROP_THRESHOLD,
  PROP_IOU_THRESHOLD,
  PROP_MAX_DETECTIONS,
  PROP_RESIZE_MODE,
  PROP_MAX_IN_FLIGHT,
  PROP_INTRA_THREADS,
  PROP_MESSAGE_RESULTS,
  PROP_FENCE_TIMEOUT,
  PROP_ON_FENCE_ERROR,
  PROP_STATS,
};

constexpr gfloat kThreshold = 0.5f, kIouThreshold = 0.3f;
constexpr gint kMaxDetections = 100;
constexpr guint kMaxInFlight = 3;
constexpr gint kIntraThreads = 1;

struct Settings { // under the object lock
  std::string model_file;
  gint decoder = DECODER_AUTO;
  gint resize = RESIZE_AUTO;
  guint max_in_flight = kMaxInFlight;
  gint intra_threads = kIntraThreads;
  gboolean message_results = FALSE;
  guint fence_timeout = kFenceTimeoutDefault; // ms
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
  DecodeOptions decode = {kThreshold, kIouThreshold, kMaxDetections};
};

// A frame that waits for its fences only.
class UntilReadable : public FrameQueue::Work {
public:
  explicit UntilReadable(FrameQueue &queue) : queue_(queue) {}
  void start(const FrameQueue::FenceEnd &) override { queue_.done(this); }
  bool giveUp() override { return false; }
  void abandoned() override {}

private:
  FrameQueue &queue_;
};

struct State {
  Settings settings;

  FrameQueue queue;
  Cancellation cancel;
  // Queue and task open and close together under this: a task that pauses because the queue was closed must not do so
  // after somebody opened it and started the task. Never held while waiting for the task.
  std::mutex task_mutex;
  std::unique_ptr<Inference> inference; // changes only between READY and PAUSED
  FrameCaps caps;                       // of the frames that leave now: the task's, or anybody's while it is stopped
  guint64 frame = 0;                    // number of the next one; as above
  bool warned_of_fence = false;         // as above
  bool error_posted = false;            // under the object lock

  std::mutex stats_mutex;
  Stats stats;                     // under stats_mutex
  guint64 latency_ns = 0;          // measured, smoothed; under stats_mutex
  guint64 latency_reported_ns = 0; // in the last answer to a latency query; under stats_mutex
};

} // namespace

struct _GstFenceInfer {
  GstElement parent;
  GstPad *sinkpad;
  GstPad *srcpad;
  State *state;
};

G_DEFINE_TYPE_WITH_CODE(GstFenceInfer, gst_fence_infer, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_fence_infer_debug, "fenceinfer", 0, "inference on frames in place"))
GST_ELEMENT_REGISTER_DEFINE(fenceinfer, "fenceinfer", GST_RANK_NONE, GST_TYPE_FENCE_INFER)

static GType decoder_get_type() {
  static const GEnumValue values[] = {
      {DECODER_AUTO, "The first that fits the model's outputs", "auto"},
      {DECODER_BLAZEFACE, "MediaPipe's BlazeFace, front and back", "blazeface"},
      {0, nullptr, nullptr},
  };
  static const GType type = g_enum_register_static("GstFenceInferDecoder", values);
  return type;
}

static GType resize_get_type() {
  static const GEnumValue values[] = {
      {RESIZE_AUTO, "As the decoder's models are trained", "auto"},
      {RESIZE_STRETCH, "The frame fills the model's input", "stretch"},
      {RESIZE_LETTERBOX, "The frame keeps its shape, in the middle of the model's input", "letterbox"},
      {0, nullptr, nullptr},
  };
  static const GType type = g_enum_register_static("GstFenceInferResizeMode", values);
  return type;
}

// --- results

static void post_error_once(GstFenceInfer *self, GQuark domain, gint code, const Error &error) {
  GST_OBJECT_LOCK(self);
  const bool first = !self->state->error_posted;
  self->state->error_posted = true;
  GST_OBJECT_UNLOCK(self);
  if (first)
    gst_element_message_full(GST_ELEMENT(self), GST_MESSAGE_ERROR, domain, code, g_strdup(error.message().c_str()),
                             nullptr, __FILE__, GST_FUNCTION, __LINE__);
}

// After end of stream no flow return reaches the source any more: says on the bus what stopped the task.
static void post_flow_error_once(GstFenceInfer *self, GstFlowReturn flow) {
  if (flow != GST_FLOW_NOT_LINKED && flow >= GST_FLOW_EOS) return;
  GST_OBJECT_LOCK(self);
  const bool told = self->state->error_posted;
  self->state->error_posted = true;
  GST_OBJECT_UNLOCK(self);
  if (!told) GST_ELEMENT_FLOW_ERROR(self, flow);
}

// `waited`: for the frame's fences
static void account(GstFenceInfer *self, const FrameResult &result, std::chrono::nanoseconds waited) {
  State *s = self->state;
  bool grown = false;
  {
    std::lock_guard lock(s->stats_mutex);
    ++s->stats.inferred;
    s->stats.preprocess.add(result.preprocess_ns);
    s->stats.infer.add(result.infer_ns);
    s->stats.mappings = s->inference->mappingCounters();
    const guint64 took = static_cast<guint64>(waited.count()) + result.preprocess_ns + result.infer_ns;
    s->latency_ns = s->latency_ns == 0 ? took : (s->latency_ns * 7 + took) / 8;
    // a pipeline that was told too little is late with every frame: have it ask again
    grown = s->latency_reported_ns != 0 && s->latency_ns > s->latency_reported_ns + s->latency_reported_ns / 4;
    if (grown) s->latency_reported_ns = s->latency_ns;
  }
  if (grown) gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
}

// What becomes of a frame whose fences ended so; says on the bus where they ended badly.
static FrameFate judge_fence(GstFenceInfer *self, guint64 frame, const FrameQueue::FenceEnd &end) {
  State *s = self->state;
  GST_OBJECT_LOCK(self);
  const GstZcOnFenceError policy = s->settings.on_fence_error;
  GST_OBJECT_UNLOCK(self);
  const FenceVerdict verdict =
      end.result ? judgeFence(*end.result, policy, end.timeout) : judgeFence(end.result.error(), policy);
  {
    std::lock_guard lock(s->stats_mutex);
    s->stats.add(end);
    if (verdict.fate != FrameFate::Use) ++s->stats.errors;
    if (verdict.fate == FrameFate::Drop) ++s->stats.dropped;
  }
  if (verdict.fate == FrameFate::Use) return verdict.fate;

  const std::string text = verdict.error.message();
  GST_DEBUG_OBJECT(self, "frame %" G_GUINT64_FORMAT ": %s", frame, text.c_str());
  if (verdict.fate == FrameFate::Fail) {
    post_error_once(self, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, verdict.error);
  } else if (!s->warned_of_fence) { // a producer that hangs does so for frame after frame
    s->warned_of_fence = true;
    GST_ELEMENT_WARNING(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
  }
  return verdict.fate;
}

// Takes the buffer; the one that is to leave, or null where the run was cancelled or failed (then `flow` says which).
static GstBuffer *infer_frame(GstFenceInfer *self, GstBuffer *buffer, guint64 frame, std::chrono::nanoseconds waited,
                              GstFlowReturn *flow) {
  State *s = self->state;
  GST_OBJECT_LOCK(self);
  const DecodeOptions options = s->settings.decode;
  const gboolean message = s->settings.message_results;
  GST_OBJECT_UNLOCK(self);

  auto result = s->inference->process(buffer, options, s->cancel);
  if (!result) {
    gst_buffer_unref(buffer);
    const bool cancelled = result.error().code == ECANCELED;
    {
      std::lock_guard lock(s->stats_mutex);
      ++(cancelled ? s->stats.dropped : s->stats.errors);
    }
    if (cancelled)
      GST_DEBUG_OBJECT(self, "frame %" G_GUINT64_FORMAT ": cancelled", frame);
    else
      post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, result.error());
    *flow = cancelled ? GST_FLOW_FLUSHING : GST_FLOW_ERROR;
    return nullptr;
  }

  account(self, *result, waited);
  buffer = writableShallow(buffer);
  attachBoxes(buffer, result->boxes);
  if (message)
    gst_element_post_message(
        GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), resultStructure(buffer, frame, s->caps.width(),
                                                                                     s->caps.height(), result->boxes)));
  return buffer;
}

// --- source-pad task

static bool use_caps(GstFenceInfer *self, const GstCaps *caps) {
  auto parsed = parseFrameCaps(caps);
  Status status = parsed ? self->state->inference->setCaps(*parsed) : Status(parsed.error());
  if (!status) {
    post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, status.error());
    return false;
  }
  self->state->caps = *parsed;
  return true;
}

// The frame may have lain in the queue for long, and the kernel, once it is told of a read, waits for whoever writes
// into the memory by then, without a deadline that we could set. So nobody does.
static void look_again(GstFenceInfer *self, FrameQueue::Item *item) {
  const auto &result = item->fence.result;
  if (!result || result->outcome != FenceOutcome::Signalled) return;
  GST_OBJECT_LOCK(self);
  const std::chrono::milliseconds timeout(self->state->settings.fence_timeout);
  GST_OBJECT_UNLOCK(self);
  auto fences = frameFences(GST_BUFFER_CAST(item->object), Access::Read);
  if (fences && fences->none()) return;
  const auto start = FrameQueue::Clock::now();
  FrameQueue::FenceEnd &end = item->fence;
  end.timeout = timeout;
  if (fences)
    end.result = waitForFences(std::move(*fences), timeout, [self] { return self->state->queue.closed(); });
  else
    end.result = fences.error();
  end.waited = true;
  end.wait += FrameQueue::Clock::now() - start;
}

// Takes the buffer.
static GstFlowReturn handle_buffer(GstFenceInfer *self, FrameQueue::Item item) {
  State *s = self->state;
  GstBuffer *buffer = GST_BUFFER_CAST(item.object);
  GstFlowReturn flow = GST_FLOW_OK;
  const guint64 frame = s->frame++;
  look_again(self, &item);
  const FrameQueue::FenceEnd &fence = item.fence;
  if (fence.result && fence.result->outcome == FenceOutcome::Cancelled) {
    gst_buffer_unref(buffer);
    std::lock_guard lock(s->stats_mutex);
    ++s->stats.dropped;
    return GST_FLOW_FLUSHING;
  }
  switch (judge_fence(self, frame, fence)) {
  case FrameFate::Use: buffer = infer_frame(self, buffer, frame, fence.wait, &flow); break;
  case FrameFate::Pass: break;
  case FrameFate::Drop: gst_clear_buffer(&buffer); break;
  case FrameFate::Fail:
    gst_clear_buffer(&buffer);
    flow = GST_FLOW_ERROR;
    break;
  }
  if (buffer == nullptr) return flow;
  {
    std::lock_guard lock(s->stats_mutex);
    ++s->stats.frames;
  }
  return gst_pad_push(self->srcpad, buffer);
}

static GstFlowReturn handle_event(GstFenceInfer *self, GstEvent *event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
    GstCaps *caps = nullptr;
    gst_event_parse_caps(event, &caps);
    if (!use_caps(self, caps)) {
      gst_event_unref(event);
      return GST_FLOW_NOT_NEGOTIATED;
    }
  }
  gst_pad_push_event(self->srcpad, event);
  return GST_FLOW_OK;
}

// Frames that we hold are frames that the pool's owner has to have more of. Where downstream has no pool the producer
// makes its own: it is told without one.
static void raise_pool_minimum(GstQuery *query, guint held) {
  const guint n = gst_query_get_n_allocation_pools(query);
  for (guint i = 0; i < n; ++i) {
    GstBufferPool *pool = nullptr;
    guint size = 0, min = 0, max = 0;
    gst_query_parse_nth_allocation_pool(query, i, &pool, &size, &min, &max);
    min += held;
    if (max != 0 && min > max) min = max;
    gst_query_set_nth_allocation_pool(query, i, pool, size, min, max);
    gst_clear_object(&pool);
  }
  if (n > 0) return;
  GstCaps *caps = nullptr;
  gst_query_parse_allocation(query, &caps, nullptr);
  const auto frame = parseFrameCaps(caps);
  if (frame && GST_VIDEO_INFO_SIZE(&frame->info) <= G_MAXUINT)
    gst_query_add_allocation_pool(query, nullptr, static_cast<guint>(GST_VIDEO_INFO_SIZE(&frame->info)), held, 0);
}

// Downstream's answer is the answer, so that its pool reaches the producer through us.
static bool answer_query(GstFenceInfer *self, GstQuery *query) {
  const gboolean answered = gst_pad_peer_query(self->srcpad, query);
  if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return answered;
  GST_OBJECT_LOCK(self);
  const guint held = self->state->settings.max_in_flight;
  GST_OBJECT_UNLOCK(self);
  raise_pool_minimum(query, held);
  // we read any stride and offset, but whole frames only; and wait for fences on behalf of all that comes after us
  for (const GType api : {GST_VIDEO_META_API_TYPE, GST_ZC_FENCE_META_API_TYPE})
    if (!gst_query_find_allocation_meta(query, api, nullptr)) gst_query_add_allocation_meta(query, api, nullptr);
  guint index = 0;
  while (gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, &index))
    gst_query_remove_nth_allocation_meta(query, index);
  // what downstream needs stays; a tee before us has to hear from each of its branches
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_ANY, nullptr);
  return true;
}

static void gst_fence_infer_loop(gpointer data);

static void open_queue(GstFenceInfer *self) {
  std::lock_guard lock(self->state->task_mutex);
  self->state->cancel.reset();
  self->state->queue.start();
  gst_pad_start_task(self->srcpad, gst_fence_infer_loop, self, nullptr);
}

static void close_queue(GstFenceInfer *self) {
  std::lock_guard lock(self->state->task_mutex);
  self->state->queue.setFlushing();
  self->state->cancel.cancel();
}

static void gst_fence_infer_loop(gpointer data) {
  auto *self = GST_FENCE_INFER(data);
  State *s = self->state;
  const auto item = s->queue.pop();
  if (!item) {
    std::lock_guard lock(s->task_mutex);
    if (s->queue.closed()) gst_pad_pause_task(self->srcpad);
    return;
  }
  GstFlowReturn flow = GST_FLOW_OK;
  if (GST_IS_BUFFER(item->object)) {
    flow = handle_buffer(self, *item);
    s->queue.finishedBuffer();
  } else if (GST_IS_EVENT(item->object)) {
    flow = handle_event(self, GST_EVENT_CAST(item->object));
  } else {
    s->queue.answered(answer_query(self, GST_QUERY_CAST(item->object)));
  }
  if (flow == GST_FLOW_EOS) { // the events go on: the end of the stream is one of them
    const guint64 dropped = s->queue.endSegment();
    GST_DEBUG_OBJECT(self, "downstream takes no more of this segment");
    std::lock_guard lock(s->stats_mutex);
    s->stats.dropped += dropped;
  } else if (flow != GST_FLOW_OK) {
    GST_DEBUG_OBJECT(self, "stopping: %s", gst_flow_get_name(flow));
    bool ends = false;
    {
      std::lock_guard lock(s->task_mutex);
      ends = s->queue.setFlow(flow);
      gst_pad_pause_task(self->srcpad); // does not wait: this is the task
    }
    if (ends) post_flow_error_once(self, flow);
  }
}

// --- pads

// Drops what waits; events that stay on a pad are kept for the next buffers where the stream goes on (flush).
static void drop_queued(GstFenceInfer *self, bool goes_on) {
  State *s = self->state;
  auto cleared = s->queue.clear();
  {
    std::lock_guard lock(s->stats_mutex);
    s->stats.dropped += cleared.buffers;
  }
  for (GstEvent *event : cleared.events) {
    const GstEventType type = GST_EVENT_TYPE(event);
    if (goes_on && (gst_event_type_get_flags(type) & GST_EVENT_TYPE_STICKY) != 0 && type != GST_EVENT_SEGMENT &&
        type != GST_EVENT_EOS) {
      GstCaps *caps = nullptr;
      if (type == GST_EVENT_CAPS) gst_event_parse_caps(event, &caps);
      if (caps == nullptr || use_caps(self, caps)) gst_pad_store_sticky_event(self->srcpad, event);
    }
    gst_event_unref(event);
  }
}

static GstFlowReturn gst_fence_infer_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  auto *self = GST_FENCE_INFER(parent);
  if (!gst_pad_has_current_caps(pad)) {
    gst_buffer_unref(buffer);
    post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                    {"a frame came before its caps", 0, "Put a capsfilter with video/x-raw caps before fenceinfer"});
    return GST_FLOW_NOT_NEGOTIATED;
  }
  GST_OBJECT_LOCK(self);
  const std::chrono::milliseconds timeout(self->state->settings.fence_timeout);
  GST_OBJECT_UNLOCK(self);
  return self->state->queue.pushBuffer(buffer, std::make_shared<UntilReadable>(self->state->queue),
                                       frameFences(buffer, Access::Read), timeout);
}

static gboolean gst_fence_infer_sink_event(GstPad *pad, GstObject *parent, GstEvent *event) {
  auto *self = GST_FENCE_INFER(parent);
  State *s = self->state;
  switch (GST_EVENT_TYPE(event)) {
  case GST_EVENT_FLUSH_START: {
    const gboolean pushed = gst_pad_push_event(self->srcpad, event);
    close_queue(self);
    gst_pad_pause_task(self->srcpad); // returns when the task's round is over
    return pushed;
  }
  case GST_EVENT_FLUSH_STOP: {
    const gboolean pushed = gst_pad_push_event(self->srcpad, event);
    const bool active = GST_PAD_MODE(self->srcpad) == GST_PAD_MODE_PUSH; // else there is no model to use the caps
    drop_queued(self, active);
    if (active) open_queue(self);
    return pushed;
  }
  default: break;
  }
  if ((gst_event_type_get_flags(GST_EVENT_TYPE(event)) & GST_EVENT_TYPE_SERIALIZED) == 0)
    return gst_pad_event_default(pad, parent, event);

  const bool eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
  const GstFlowReturn flow = s->queue.pushEvent(event);
  if (eos) post_flow_error_once(self, flow);
  return flow == GST_FLOW_OK;
}

static gboolean gst_fence_infer_sink_query(GstPad *pad, GstObject *parent, GstQuery *query) {
  auto *self = GST_FENCE_INFER(parent);
  if ((gst_query_type_get_flags(GST_QUERY_TYPE(query)) & GST_QUERY_TYPE_SERIALIZED) != 0)
    return self->state->queue.pushQuery(query);
  return gst_pad_query_default(pad, parent, query);
}

// Caps that we cannot read are refused by the accept-caps query before the event function sees them; here is the place
// to say why.
static GstPadProbeReturn explain_refused_caps(GstPad *, GstPadProbeInfo *info, gpointer data) {
  auto *self = GST_FENCE_INFER(data);
  GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
  if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS) return GST_PAD_PROBE_OK;
  GstCaps *caps = nullptr;
  gst_event_parse_caps(event, &caps);
  auto parsed = parseFrameCaps(caps);
  const Status readable = parsed ? checkReadable(*parsed) : Status(parsed.error());
  if (!readable) post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, readable.error());
  return GST_PAD_PROBE_OK;
}

static gboolean gst_fence_infer_src_event(GstPad *pad, GstObject *parent, GstEvent *event) {
  auto *self = GST_FENCE_INFER(parent);
  // a downstream that was missing is there now
  if (GST_EVENT_TYPE(event) == GST_EVENT_RECONFIGURE) {
    std::lock_guard lock(self->state->task_mutex);
    if (self->state->queue.restart()) gst_pad_start_task(self->srcpad, gst_fence_infer_loop, self, nullptr);
  }
  return gst_pad_event_default(pad, parent, event);
}

static gboolean gst_fence_infer_src_query(GstPad *pad, GstObject *parent, GstQuery *query) {
  auto *self = GST_FENCE_INFER(parent);
  if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY) return gst_pad_query_default(pad, parent, query);
  if (!gst_pad_peer_query(self->sinkpad, query)) return FALSE;
  gboolean live = FALSE;
  GstClockTime min = 0, max = 0;
  gst_query_parse_latency(query, &live, &min, &max);
  if (!live) return TRUE;

  // one frame's time, or what a frame was measured to take where that is more
  guint64 duration = 0;
  if (GstCaps *caps = gst_pad_get_current_caps(self->sinkpad); caps != nullptr) {
    if (auto parsed = parseFrameCaps(caps); parsed && GST_VIDEO_INFO_FPS_N(&parsed->info) > 0)
      duration = gst_util_uint64_scale_int(GST_SECOND, GST_VIDEO_INFO_FPS_D(&parsed->info),
                                           GST_VIDEO_INFO_FPS_N(&parsed->info));
    gst_caps_unref(caps);
  }
  GST_OBJECT_LOCK(self);
  const guint held = self->state->settings.max_in_flight;
  GST_OBJECT_UNLOCK(self);
  guint64 own = duration;
  {
    std::lock_guard lock(self->state->stats_mutex);
    own = std::max(own, self->state->latency_ns);
    self->state->latency_reported_ns = own;
  }
  min += own;
  if (GST_CLOCK_TIME_IS_VALID(max)) max += std::max(own, duration * held);
  GST_DEBUG_OBJECT(self, "latency: own %" GST_TIME_FORMAT ", sum %" GST_TIME_FORMAT, GST_TIME_ARGS(own),
                   GST_TIME_ARGS(min));
  gst_query_set_latency(query, live, min, max);
  return TRUE;
}

static gboolean gst_fence_infer_sink_activate_mode(GstPad *, GstObject *parent, GstPadMode mode, gboolean active) {
  auto *self = GST_FENCE_INFER(parent);
  if (mode != GST_PAD_MODE_PUSH) return FALSE;
  if (!active) self->state->queue.setFlushing(); // wakes the streaming thread, whose lock is taken next
  return TRUE;
}

static gboolean gst_fence_infer_src_activate_mode(GstPad *pad, GstObject *parent, GstPadMode mode, gboolean active) {
  auto *self = GST_FENCE_INFER(parent);
  if (mode != GST_PAD_MODE_PUSH) return FALSE;
  if (active) {
    open_queue(self);
    return TRUE;
  }
  close_queue(self);
  const gboolean stopped = gst_pad_stop_task(pad);
  drop_queued(self, false);
  return stopped;
}

// --- states

static void post_load_error(GstFenceInfer *self, const LoadError &failure) {
  const std::string text = failure.error.message();
  switch (failure.kind) {
  case LoadFailure::NoLibrary: GST_ELEMENT_ERROR(self, LIBRARY, INIT, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NotFound: GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NoAccess: GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::BadModel: GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NoProvider:
  case LoadFailure::OtherOptions: GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr)); break;
  }
}

static bool load_model(GstFenceInfer *self) {
  State *s = self->state;
  GST_OBJECT_LOCK(self);
  const Settings settings = s->settings;
  GST_OBJECT_UNLOCK(self);
  if (settings.model_file.empty()) {
    GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("model-file is not set. Set it to an ONNX file"), (nullptr));
    return false;
  }
  LoadResult loaded = loadOnnxEngine(settings.model_file, {settings.intra_threads});
  if (loaded.engine == nullptr) {
    post_load_error(self, loaded.failure);
    return false;
  }
  std::optional<ResizeMode> resize;
  if (settings.resize != RESIZE_AUTO)
    resize = settings.resize == RESIZE_STRETCH ? ResizeMode::Stretch : ResizeMode::Letterbox;
  auto inference = Inference::create(
      std::move(loaded.engine), settings.decoder == DECODER_AUTO ? DecoderKind::Auto : DecoderKind::BlazeFace, resize);
  if (!inference) {
    GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS,
                      ("model file %s: %s", settings.model_file.c_str(), inference.error().message().c_str()),
                      (nullptr));
    return false;
  }
  s->inference = inference.take();
  GST_INFO_OBJECT(self, "%s: %s, decoder %s, picture %dx%d", settings.model_file.c_str(),
                  s->inference->engine().name().c_str(), s->inference->decoder().name(), s->inference->plan().width,
                  s->inference->plan().height);

  s->queue.setCapacity(settings.max_in_flight);
  s->frame = 0;
  s->warned_of_fence = false;
  GST_OBJECT_LOCK(self);
  s->error_posted = false;
  GST_OBJECT_UNLOCK(self);
  std::lock_guard lock(s->stats_mutex);
  s->stats = {};
  s->latency_ns = s->latency_reported_ns = 0;
  return true;
}

static GstStateChangeReturn gst_fence_infer_change_state(GstElement *element, GstStateChange transition) {
  auto *self = GST_FENCE_INFER(element);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !load_model(self)) return GST_STATE_CHANGE_FAILURE;
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_fence_infer_parent_class)->change_state(element, transition);
  const bool stopped = transition == GST_STATE_CHANGE_PAUSED_TO_READY;
  const bool failed = transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE;
  if (stopped || failed) self->state->inference.reset();
  return result;
}

// --- properties

static void gst_fence_infer_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  auto *self = GST_FENCE_INFER(object);
  bool refused = false;
  GST_OBJECT_LOCK(self);
  Settings &settings = self->state->settings;
  // going up counts as up: the model is being loaded then
  const bool running = GST_STATE(self) > GST_STATE_READY ||
                       (GST_STATE_PENDING(self) != GST_STATE_VOID_PENDING && GST_STATE_PENDING(self) > GST_STATE_READY);
  switch (id) {
  case PROP_MODEL_FILE:
    if (running) {
      refused = true;
      break;
    }
    settings.model_file = g_value_get_string(value) != nullptr ? g_value_get_string(value) : "";
    break;
  case PROP_DECODER: settings.decoder = g_value_get_enum(value); break;
  case PROP_THRESHOLD: settings.decode.threshold = g_value_get_float(value); break;
  case PROP_IOU_THRESHOLD: settings.decode.iou_threshold = g_value_get_float(value); break;
  case PROP_MAX_DETECTIONS: settings.decode.max_detections = g_value_get_int(value); break;
  case PROP_RESIZE_MODE: settings.resize = g_value_get_enum(value); break;
  case PROP_MAX_IN_FLIGHT: settings.max_in_flight = g_value_get_uint(value); break;
  case PROP_INTRA_THREADS: settings.intra_threads = g_value_get_int(value); break;
  case PROP_MESSAGE_RESULTS: settings.message_results = g_value_get_boolean(value); break;
  case PROP_FENCE_TIMEOUT: settings.fence_timeout = g_value_get_uint(value); break;
  case PROP_ON_FENCE_ERROR: settings.on_fence_error = static_cast<GstZcOnFenceError>(g_value_get_enum(value)); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  const std::string current = settings.model_file;
  GST_OBJECT_UNLOCK(self);
  if (refused)
    GST_ELEMENT_WARNING(self, LIBRARY, SETTINGS,
                        ("model-file stays %s: it can be changed in the states NULL and READY only", current.c_str()),
                        (nullptr));
}

static void gst_fence_infer_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  auto *self = GST_FENCE_INFER(object);
  if (id == PROP_STATS) {
    std::lock_guard lock(self->state->stats_mutex);
    g_value_take_boxed(value, self->state->stats.structure());
    return;
  }
  GST_OBJECT_LOCK(self);
  const Settings &settings = self->state->settings;
  switch (id) {
  case PROP_MODEL_FILE:
    g_value_set_string(value, settings.model_file.empty() ? nullptr : settings.model_file.c_str());
    break;
  case PROP_DECODER: g_value_set_enum(value, settings.decoder); break;
  case PROP_THRESHOLD: g_value_set_float(value, settings.decode.threshold); break;
  case PROP_IOU_THRESHOLD: g_value_set_float(value, settings.decode.iou_threshold); break;
  case PROP_MAX_DETECTIONS: g_value_set_int(value, settings.decode.max_detections); break;
  case PROP_RESIZE_MODE: g_value_set_enum(value, settings.resize); break;
  case PROP_MAX_IN_FLIGHT: g_value_set_uint(value, settings.max_in_flight); break;
  case PROP_INTRA_THREADS: g_value_set_int(value, settings.intra_threads); break;
  case PROP_MESSAGE_RESULTS: g_value_set_boolean(value, settings.message_results); break;
  case PROP_FENCE_TIMEOUT: g_value_set_uint(value, settings.fence_timeout); break;
  case PROP_ON_FENCE_ERROR: g_value_set_enum(value, settings.on_fence_error); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(self);
}

// --- type

// The three notations, dma-bufs first: DMA_DRM (linear), DMABuf with a plain format, system memory.
static GstCaps *template_caps() {
  std::string formats, drm_formats;
  for (const GstVideoFormat format : readableFormats()) {
    formats += (formats.empty() ? "" : ", ") + std::string(gst_video_format_to_string(format));
    if (const char *name = drmFormatName(format); name != nullptr)
      drm_formats += (drm_formats.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  const std::string size = ", width=[ 1, 32767 ], height=[ 1, 32767 ]"; // what parseFrameCaps() takes
  const std::string text = "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={ " + drm_formats + " }" + size +
                           "; video/x-raw(memory:DMABuf), format={ " + formats + " }" + size +
                           "; video/x-raw, format={ " + formats + " }" + size;
  return gst_caps_from_string(text.c_str());
}

static void gst_fence_infer_finalize(GObject *object) {
  delete GST_FENCE_INFER(object)->state;
  G_OBJECT_CLASS(gst_fence_infer_parent_class)->finalize(object);
}

static void gst_fence_infer_class_init(GstFenceInferClass *klass) {
  auto *object = G_OBJECT_CLASS(klass);
  auto *element = GST_ELEMENT_CLASS(klass);
  object->set_property = gst_fence_infer_set_property;
  object->get_property = gst_fence_infer_get_property;
  object->finalize = gst_fence_infer_finalize;
  element->change_state = gst_fence_infer_change_state;

  const auto ready = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto playing = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
  const auto install = [object](guint id, GParamSpec *spec) { g_object_class_install_property(object, id, spec); };
  install(PROP_MODEL_FILE, g_param_spec_string("model-file", "Model file", "ONNX file of the model", nullptr, ready));
  install(PROP_DECODER, g_param_spec_enum("decoder", "Decoder", "What makes objects of the model's outputs",
                                          decoder_get_type(), DECODER_AUTO, ready));
  install(PROP_THRESHOLD, g_param_spec_float("threshold", "Threshold", "Objects with a lower score are left out", 0, 1,
                                             kThreshold, playing));
  install(PROP_IOU_THRESHOLD,
          g_param_spec_float("iou-threshold", "IoU threshold",
                             "Boxes that overlap by more (intersection over union) are the same object", 0, 1,
                             kIouThreshold, playing));
  install(PROP_MAX_DETECTIONS,
          g_param_spec_int("max-detections", "Maximum detections", "The best so many objects of a frame are kept", 1,
                           G_MAXINT, kMaxDetections, playing));
  install(PROP_RESIZE_MODE, g_param_spec_enum("resize-mode", "Resize mode", "How a frame gets the model's input size",
                                              resize_get_type(), RESIZE_AUTO, ready));
  install(PROP_MAX_IN_FLIGHT,
          g_param_spec_uint("max-in-flight", "Maximum in flight", "Frames held at a time; then upstream waits", 1, 64,
                            kMaxInFlight, ready));
  install(PROP_INTRA_THREADS,
          g_param_spec_int("intra-threads", "Threads of a run", "CPU threads that share the work of one frame", 1, 256,
                           kIntraThreads, ready));
  install(PROP_MESSAGE_RESULTS,
          g_param_spec_boolean("message-results", "Message results",
                               "Post an element message fenceinfer-result for each frame", FALSE, playing));
  install(PROP_FENCE_TIMEOUT, fenceTimeoutSpec());
  install(PROP_ON_FENCE_ERROR, onFenceErrorSpec());
  install(PROP_STATS,
          g_param_spec_boxed("stats", "Statistics", "Counts and times (ns) since the element went to PAUSED",
                             GST_TYPE_STRUCTURE, static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)));

  GstCaps *caps = template_caps();
  gst_element_class_add_pad_template(element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
  gst_element_class_add_pad_template(element, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);
  gst_element_class_set_static_metadata(element, "Inference on frames in place", "Filter/Analyzer/Video",
                                        "Runs an ONNX model on frames where they lie and attaches what it found",
                                        "gst-zerocopy");
  gst_type_mark_as_plugin_api(decoder_get_type(), static_cast<GstPluginAPIFlags>(0));
  gst_type_mark_as_plugin_api(resize_get_type(), static_cast<GstPluginAPIFlags>(0));
  gst_type_mark_as_plugin_api(GST_TYPE_ZC_ON_FENCE_ERROR, static_cast<GstPluginAPIFlags>(0));
}

static void gst_fence_infer_init(GstFenceInfer *self) {
  self->state = new State;
  auto *klass = GST_ELEMENT_GET_CLASS(self);

  self->sinkpad = gst_pad_new_from_template(gst_element_class_get_pad_template(klass, "sink"), "sink");
  gst_pad_set_chain_function(self->sinkpad, gst_fence_infer_chain);
  gst_pad_set_event_function(self->sinkpad, gst_fence_infer_sink_event);
  gst_pad_set_query_function(self->sinkpad, gst_fence_infer_sink_query);
  gst_pad_set_activatemode_function(self->sinkpad, gst_fence_infer_sink_activate_mode);
  gst_pad_add_probe(self->sinkpad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, explain_refused_caps, self, nullptr);
  GST_PAD_SET_PROXY_CAPS(self->sinkpad);
  gst_element_add_pad(GST_ELEMENT(self), self->sinkpad);

  self->srcpad = gst_pad_new_from_template(gst_element_class_get_pad_template(klass, "src"), "src");
  gst_pad_set_event_function(self->srcpad, gst_fence_infer_src_event);
  gst_pad_set_query_function(self->srcpad, gst_fence_infer_src_query);
  gst_pad_set_activatemode_function(self->srcpad, gst_fence_infer_src_activate_mode);
  GST_PAD_SET_PROXY_CAPS(self->srcpad);
  gst_element_add_pad(GST_ELEMENT(self), self->srcpad);
}
