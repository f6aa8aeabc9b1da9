// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * SECTION:element-fenceinfer
 * @title: fenceinfer
 *
 * Runs an ONNX model on each frame where it lies and passes the same frame on, with what the model found as
 * GstAnalyticsRelationMeta. Frames are read in dma-bufs (linear) and in system memory, and by a CUDA device in its own
 * memory; none is copied or converted.
 * The thread that delivers frames only queues them; worker threads run the model on several at a time or on batches,
 * and a task of the source pad pushes the frames in order. None of them sleeps for the fences of a frame: a frame
 * whose producer is not done waits in the queue, at most `fence-timeout`, and `on-fence-error` says what happens to
 * one whose fences fail or come too late.
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
#include <utility>

#include <gst/video/video.h>

#include "gst/infer/device/tensor_device.h"
#include "gst/infer/element/device_choice.h"
#include "gst/infer/element/element_state.h"
#include "gst/infer/element/settings.h"
#include "gst/infer/element/tensor_layout.h"
#include "gst/infer/model/model.h"
#include "gst/infer/output/findings_meta.h"
#include "gst/infer/output/results.h"
#include "gst/infer/output/tensor_meta.h"
#include "gst/infer/stats.h"
#include "gst/infer/stream/frame_job.h"
#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/stream/frame_setup.h"
#include "gst/infer/stream/runner.h"
#include "gst/infer/stream/skip_policy.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcinferencemeta.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/shallow_copy.h"

GST_DEBUG_CATEGORY(gst_fence_infer_debug);
#define GST_CAT_DEFAULT gst_fence_infer_debug

using namespace gstzc;
using namespace gstzc::infer;

G_DEFINE_TYPE_WITH_CODE(GstFenceInfer, gst_fence_infer, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_fence_infer_debug, "fenceinfer", 0, "inference on frames in place"))
GST_ELEMENT_REGISTER_DEFINE(fenceinfer, "fenceinfer", GST_RANK_NONE, GST_TYPE_FENCE_INFER)

static guint stats_property; // the id behind those of the settings

// --- results

static GstStructure *stats_structure(GstFenceInfer *self) {
  FenceInferState *s = self->state;
  const auto device = deviceOf(self);
  std::lock_guard lock(s->stats_mutex);
  const FrameQueue::Counts counts = s->queue->counts();
  Stats stats = s->stats;
  stats.queue_depth = counts.held - (s->counted && counts.held > 0 ? 1 : 0);
  if (device != nullptr) {
    stats.copies += device->copies();
    stats.bytes_copied += device->bytesCopied();
  }
  stats.dropped += counts.dropped - s->dropped_before;
  return stats.structure();
}

static void post_error_once(GstFenceInfer *self, GQuark domain, gint code, const Error &error) {
  GST_OBJECT_LOCK(self);
  const bool first = !self->state->error_posted;
  self->state->error_posted = true;
  GST_OBJECT_UNLOCK(self);
  if (first)
    gst_element_message_full(GST_ELEMENT(self), GST_MESSAGE_ERROR, domain, code,
                             g_strdup(validText(error.message()).c_str()), nullptr, __FILE__, GST_FUNCTION, __LINE__);
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

static void post_latency(GstFenceInfer *self) {
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
}

static void account(GstFenceInfer *self, const FrameResult &result) {
  FenceInferState *s = self->state;
  bool grown = false;
  {
    std::lock_guard lock(s->stats_mutex);
    for (const PictureResult &picture : result.pictures) {
      s->stats.addRun(picture.times.wait, picture.times.fill, picture.times.run, picture.times.batch);
      s->stats.post.add(static_cast<guint64>(picture.decode.count()));
      if (picture.in_place) ++s->stats.in_place;
    }
    if (result.pictures.empty()) ++s->stats.skipped;
    s->stats.copies += result.copies;
    s->stats.bytes_copied += result.bytes_copied;
    s->stats.mappings = s->mappings->counters();
    const auto took = static_cast<guint64>(result.took.count());
    // not the mean, with which half of the frames would be late: it falls much slower than it rises
    if (s->measured_ns == 0)
      s->measured_ns = took;
    else if (took > s->measured_ns)
      s->measured_ns += (took - s->measured_ns) / 8;
    else
      s->measured_ns -= (s->measured_ns - took) / 64;
    grown = s->latencyHasGrown();
  }
  if (grown) post_latency(self);
}

// Counts how a frame's fences ended, and says on the bus where they ended badly.
static void report_fence(GstFenceInfer *self, guint64 frame, const FrameQueue::FenceEnd &end,
                         const FenceVerdict &verdict) {
  FenceInferState *s = self->state;
  {
    std::lock_guard lock(s->stats_mutex);
    s->stats.add(end);
    if (verdict.fate != FrameFate::Use) ++s->stats.errors;
  }
  if (verdict.fate == FrameFate::Use) return;

  const std::string text = verdict.error.message();
  GST_DEBUG_OBJECT(self, "frame %" G_GUINT64_FORMAT ": %s", frame, text.c_str());
  if (verdict.fate == FrameFate::Fail) {
    post_error_once(self, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, verdict.error);
  } else if (!s->warned_of_fence) { // a producer that hangs does so for frame after frame
    s->warned_of_fence = true;
    GST_ELEMENT_WARNING(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
  }
}

// How old results are: 0 frames for the frame's own.
struct Age {
  guint frames = 0;
  GstClockTime timestamp = GST_CLOCK_TIME_NONE; // of the frame that was looked at
};

// Takes the buffer; the one that is to leave, or null where that failed, which was said on the bus then.
static GstBuffer *attach(GstFenceInfer *self, GstBuffer *buffer, const FrameResult &result, const Settings &settings,
                         guint64 frame, const FrameSetup &setup, const Age &age) {
  const Model &model = *setup.model;
  buffer = writableShallow(buffer);
  std::vector<RegionFindings> regions;
  for (const PictureResult &picture : result.pictures) {
    RegionFindings region = {picture.findings, {}, picture.object};
    if (settings.output != OutputKind::TensorMeta && model.decoder != nullptr)
      region.ids = attachFindings(buffer, picture.findings, {picture.object, &model.labels});
    if (!picture.tensors.tensors.empty() && !picture.object) { // kept where they were asked for when the frame came
      const Status attached =
          attachTensors(buffer, picture.tensors, model.engine->outputs(), model.tags, picture.shared);
      if (!attached) {
        post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, attached.error());
        gst_buffer_unref(buffer);
        std::lock_guard lock(self->state->stats_mutex);
        ++self->state->stats.errors;
        return nullptr;
      }
    }
    regions.push_back(std::move(region));
  }
  gst_buffer_add_zc_inference_meta(buffer, GST_OBJECT_NAME(self), age.timestamp, age.frames);
  if (settings.message_results) {
    const ResultHead head = {frame, setup.caps.width(), setup.caps.height(), age.frames == 0};
    gst_element_post_message(GST_ELEMENT(self),
                             gst_message_new_element(GST_OBJECT(self), resultStructure(buffer, head, regions)));
  }
  return buffer;
}

// --- source-pad task

static void post_stats(GstFenceInfer *self, guint interval) {
  FenceInferState *s = self->state;
  if (interval == 0) return;
  const gint64 now = g_get_monotonic_time();
  if (now - s->stats_posted < static_cast<gint64>(interval) * 1000) return;
  s->stats_posted = now;
  GstStructure *structure = stats_structure(self);
  gst_structure_set_name(structure, "fenceinfer-stats");
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), structure));
}

// A frame that the model did not look at. Takes the buffer; the one that is to leave.
static GstBuffer *pass_skipped(GstFenceInfer *self, GstBuffer *buffer, const Settings &settings, guint64 frame,
                               GstFlowReturn *flow) {
  FenceInferState *s = self->state;
  const bool repeat = settings.repeat_results && s->last && s->last_setup;
  {
    std::lock_guard lock(s->stats_mutex);
    ++s->stats.skipped;
    if (repeat) ++s->stats.stale;
  }
  if (!repeat) return buffer;
  const Age age = {static_cast<guint>(std::min<guint64>(frame - s->last_frame, G_MAXUINT)), s->last_pts};
  buffer = attach(self, buffer, *s->last, settings, frame, *s->last_setup, age);
  if (buffer == nullptr) *flow = GST_FLOW_ERROR;
  return buffer;
}

// The frame's work is done. Takes the buffer; the one that is to leave, or null where it is not to (then `flow` says
// why).
static GstBuffer *finish_job(GstFenceInfer *self, GstBuffer *buffer, FrameJob &job, FrameQueue::FenceEnd fence,
                             const Settings &settings, guint64 frame, GstFlowReturn *flow) {
  FenceInferState *s = self->state;
  const FenceVerdict &verdict = job.verdict();
  if (const auto &failed = job.failedOnDevice(); failed) fence.result = *failed;
  report_fence(self, frame, fence, verdict);
  switch (verdict.fate) {
  case FrameFate::Use: break;
  case FrameFate::Pass: return buffer;
  case FrameFate::Fail: *flow = GST_FLOW_ERROR; [[fallthrough]];
  case FrameFate::Drop: gst_buffer_unref(buffer); return nullptr;
  }
  if (!job.task().look) return pass_skipped(self, buffer, settings, frame, flow);
  auto result = job.takeResult();
  if (!result) {
    gst_buffer_unref(buffer);
    const bool cancelled = result.error().code == ECANCELED;
    if (!cancelled) {
      std::lock_guard lock(s->stats_mutex);
      ++s->stats.errors;
    }
    if (cancelled)
      GST_DEBUG_OBJECT(self, "frame %" G_GUINT64_FORMAT ": cancelled", frame);
    else
      post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, result.error());
    *flow = cancelled ? GST_FLOW_FLUSHING : GST_FLOW_ERROR;
    return nullptr;
  }
  account(self, *result);
  const GstClockTime timestamp = GST_BUFFER_PTS(buffer);
  buffer = attach(self, buffer, *result, settings, frame, *job.task().setup, {0, timestamp});
  if (buffer == nullptr) {
    *flow = GST_FLOW_ERROR;
    return nullptr;
  }
  s->last.reset();
  if (settings.repeat_results && settings.region == InferenceRegion::Frame) {
    s->last = result.take();
    s->last_setup = job.task().setup;
    s->last_frame = frame;
    s->last_pts = timestamp;
  }
  return buffer;
}

static GstFlowReturn handle_buffer(GstFenceInfer *self, FrameQueue::Item item) {
  FenceInferState *s = self->state;
  const Settings settings = settingsOf(self);
  const guint64 frame = s->frame++;
  GstFlowReturn flow = GST_FLOW_OK;
  GstBuffer *buffer = GST_BUFFER_CAST(item.object);
  if (item.work == nullptr)
    buffer = pass_skipped(self, buffer, settings, frame, &flow);
  else
    buffer = finish_job(self, buffer, static_cast<FrameJob &>(*item.work), item.fence, settings, frame, &flow);
  item.work.reset();
  {
    std::lock_guard lock(s->stats_mutex);
    ++(buffer != nullptr ? s->stats.frames : s->stats.dropped);
    s->counted = true; // it is still held while it is pushed: it must not count twice
  }
  post_stats(self, settings.stats_interval);
  s->discont = s->discont || item.discont || buffer == nullptr;
  if (buffer == nullptr) return flow;
  if (std::exchange(s->discont, false)) {
    buffer = writableShallow(buffer);
    GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
  }
  return gst_pad_push(self->srcpad, buffer);
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
  raise_pool_minimum(query, self->state->queue->capacity());
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
  self->state->queue->start();
  gst_pad_start_task(self->srcpad, gst_fence_infer_loop, self, nullptr);
}

static void close_queue(GstFenceInfer *self) {
  std::lock_guard lock(self->state->task_mutex);
  self->state->queue->setFlushing();
}

static void gst_fence_infer_loop(gpointer data) {
  auto *self = GST_FENCE_INFER(data);
  FenceInferState *s = self->state;
  auto item = s->queue->pop();
  if (!item) {
    std::lock_guard lock(s->task_mutex);
    if (s->queue->closed()) gst_pad_pause_task(self->srcpad);
    return;
  }
  GstFlowReturn flow = GST_FLOW_OK;
  if (GST_IS_BUFFER(item->object)) {
    flow = handle_buffer(self, std::move(*item));
    std::lock_guard lock(s->stats_mutex);
    s->queue->finishedBuffer();
    s->counted = false;
  } else if (GST_IS_EVENT(item->object)) {
    if (GST_EVENT_TYPE(item->object) == GST_EVENT_CAPS) s->last.reset(); // they are in pixels of other frames
    gst_pad_push_event(self->srcpad, GST_EVENT_CAST(item->object));
  } else {
    s->queue->answered(answer_query(self, GST_QUERY_CAST(item->object)));
  }
  if (flow == GST_FLOW_EOS) { // the events go on: the end of the stream is one of them
    s->queue->endSegment();
    GST_DEBUG_OBJECT(self, "downstream takes no more of this segment");
  } else if (flow != GST_FLOW_OK) {
    GST_DEBUG_OBJECT(self, "stopping: %s", gst_flow_get_name(flow));
    bool ends = false;
    {
      std::lock_guard lock(s->task_mutex);
      ends = s->queue->setFlow(flow);
      gst_pad_pause_task(self->srcpad); // does not wait: this is the task
    }
    if (ends) post_flow_error_once(self, flow);
  }
}

// --- pads

// Drops what waits; events that stay on a pad are kept for the next buffers where the stream goes on (flush).
static void drop_queued(GstFenceInfer *self, bool goes_on) {
  FenceInferState *s = self->state;
  auto cleared = s->queue->clear();
  for (GstEvent *event : cleared.events) {
    const GstEventType type = GST_EVENT_TYPE(event);
    if (goes_on && (gst_event_type_get_flags(type) & GST_EVENT_TYPE_STICKY) != 0 && type != GST_EVENT_SEGMENT &&
        type != GST_EVENT_EOS) {
      gst_pad_store_sticky_event(self->srcpad, event);
    }
    gst_event_unref(event);
  }
  if (auto runner = runnerOf(self); runner) runner->dropUnwanted(); // what was being worked on for the frames dropped
  s->last.reset();
  s->discont = false;
}

// What frames need that come from now on: again, where caps or model have changed. Null: said on the bus.
static std::shared_ptr<const FrameSetup> setup_of(GstFenceInfer *self, const ModelRunner &runner) {
  FenceInferState *s = self->state;
  auto model = runner.model();
  if (s->setup && s->setup->model == model) return s->setup;
  s->setup.reset();
  useBatch(self, *model);
  auto setup = FrameSetup::create(std::move(model), *s->caps, s->reader);
  if (!setup)
    post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, setup.error());
  else
    s->setup = setup.take();
  return s->setup;
}

static bool use_caps(GstFenceInfer *self, const GstCaps *caps) {
  FenceInferState *s = self->state;
  s->setup.reset();
  s->reader.reset();
  s->caps.reset();
  auto parsed = parseFrameCaps(caps);
  if (!parsed) {
    post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, parsed.error());
    return false;
  }
  if (readByDevice(*parsed, settingsOf(self))) {
    auto device = ensureDevice(self);
    if (!device) {
      Error error = device.error();
      error.what = "frames that a CUDA device has to read: " + error.what;
      post_error_once(self, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, error);
      return false;
    }
    s->reader = device.take();
  }
  s->caps = parsed.take();
  const GstVideoInfo &info = s->caps->info;
  bool grown = false;
  {
    std::lock_guard lock(s->stats_mutex);
    s->frame_ns = GST_VIDEO_INFO_FPS_N(&info) > 0
                      ? gst_util_uint64_scale_int(GST_SECOND, GST_VIDEO_INFO_FPS_D(&info), GST_VIDEO_INFO_FPS_N(&info))
                      : 0;
    grown = s->latencyHasGrown();
    s->stats.device = s->reader ? s->reader->name() : "cpu";
  }
  if (grown) post_latency(self);
  const auto runner = runnerOf(self);
  return runner && setup_of(self, *runner) != nullptr;
}

static bool look_at(GstFenceInfer *self, GstBuffer *buffer, const Settings &settings) {
  FenceInferState *s = self->state;
  if (GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_GAP)) return false; // nothing is in it
  GstClockTime running_time = GST_CLOCK_TIME_NONE;
  if (s->segment.format == GST_FORMAT_TIME && GST_BUFFER_PTS_IS_VALID(buffer))
    running_time = gst_segment_to_running_time(&s->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  const auto verdict = s->skip.decide(running_time, settings.inference_interval, settings.qos);
  if (verdict == SkipPolicy::Verdict::Late)
    GST_DEBUG_OBJECT(self, "too late to be looked at: %" GST_PTR_FORMAT, buffer);
  return verdict == SkipPolicy::Verdict::Look;
}

// Takes a frame that finds no way into the queue.
static GstFlowReturn refuse(GstFenceInfer *self, GstBuffer *buffer, GstFlowReturn flow) {
  gst_buffer_unref(buffer);
  std::lock_guard lock(self->state->stats_mutex);
  ++self->state->stats.dropped;
  return flow;
}

static GstFlowReturn gst_fence_infer_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  auto *self = GST_FENCE_INFER(parent);
  FenceInferState *s = self->state;
  const auto runner = runnerOf(self);
  if (!gst_pad_has_current_caps(pad) || !s->caps) {
    post_error_once(self, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT,
                    {"a frame came before its caps", 0, "Put a capsfilter with video/x-raw caps before fenceinfer"});
    return refuse(self, buffer, GST_FLOW_NOT_NEGOTIATED);
  }
  const Settings settings = settingsOf(self);
  s->queue->setWhenFull(settings.drop_policy);
  FrameTask task;
  task.look = runner && look_at(self, buffer, settings);
  WaitsElsewhere on_device;
  if (s->reader) on_device = [s](GstZcDeviceEvent *event) { return s->reader->waitsFor(event); };
  auto fences = frameFences(buffer, Access::Read, on_device);
  if (!task.look && fences && fences->none()) return s->queue->pushBuffer(buffer);
  if (task.look) {
    task.setup = setup_of(self, *runner);
    if (task.setup == nullptr) return refuse(self, buffer, GST_FLOW_NOT_NEGOTIATED);
    task.decode = decodeOptions(settings, *task.setup->model);
    task.keep_tensors = wantsTensors(settings);
    task.device_tensors = wantsDeviceTensors(settings);
    task.early = queueCapacity(settings);
    task.objects = settings.region == InferenceRegion::Objects;
    if (task.objects) task.object_classes = parseObjectClasses(settings.object_class);
  }
  task.on_fence_error = settings.on_fence_error;
  task.fence_timeout = std::chrono::milliseconds(settings.fence_timeout);
  const bool look = task.look;
  auto job = std::make_shared<FrameJob>(buffer, std::move(task), s->queue, runner);
  bool left_out = false;
  const GstFlowReturn flow = s->queue->pushBuffer(buffer, std::move(job), std::move(fences),
                                                  std::chrono::milliseconds(settings.fence_timeout), &left_out);
  if (look && left_out) s->skip.giveTurnBack();
  return flow;
}

// What GStreamer makes of a plain FALSE.
static GstFlowReturn flow_of(gboolean pushed) { return pushed ? GST_FLOW_OK : GST_FLOW_ERROR; }

// Tells of a queue that is closed what closed it: a plain FALSE would be an error, and no event that comes while the
// element stops, or has no downstream, is one.
static GstFlowReturn gst_fence_infer_sink_event(GstPad *pad, GstObject *parent, GstEvent *event) {
  auto *self = GST_FENCE_INFER(parent);
  FenceInferState *s = self->state;
  switch (GST_EVENT_TYPE(event)) {
  case GST_EVENT_FLUSH_START: {
    const gboolean pushed = gst_pad_push_event(self->srcpad, event);
    close_queue(self);
    gst_pad_pause_task(self->srcpad); // returns when the task's round is over
    return flow_of(pushed);
  }
  case GST_EVENT_FLUSH_STOP: {
    const gboolean pushed = gst_pad_push_event(self->srcpad, event);
    const bool active = GST_PAD_MODE(self->srcpad) == GST_PAD_MODE_PUSH; // else there is no model to use the caps
    drop_queued(self, active);
    s->skip.reset();
    GST_OBJECT_LOCK(self);
    s->error_posted = false; // the stream begins anew
    GST_OBJECT_UNLOCK(self);
    gst_segment_init(&s->segment, GST_FORMAT_UNDEFINED);
    if (active) open_queue(self);
    return flow_of(pushed);
  }
  default: break;
  }
  if ((gst_event_type_get_flags(GST_EVENT_TYPE(event)) & GST_EVENT_TYPE_SERIALIZED) == 0)
    return flow_of(gst_pad_event_default(pad, parent, event));

  const bool eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
  if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
    GstCaps *caps = nullptr;
    gst_event_parse_caps(event, &caps);
    if (!use_caps(self, caps)) {
      gst_event_unref(event);
      return GST_FLOW_NOT_NEGOTIATED;
    }
  } else if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT) {
    gst_event_copy_segment(event, &s->segment);
  }
  const GstFlowReturn flow = s->queue->pushEvent(event);
  if (eos) {
    if (auto runner = runnerOf(self); runner) runner->hurry(); // with the event in the queue: FrameJob looks there
    post_flow_error_once(self, flow);
  }
  return flow;
}

// Without the plugin that reads device memory, who can deliver other memory is asked for that; who cannot is told why
// it does not work when its caps come.
static void leave_out_unreadable(GstFenceInfer *self, GstQuery *query) {
  if (haveTensorDevice(kCudaDevice) || !gst_pad_is_linked(self->sinkpad)) return;
  GstCaps *possible = nullptr;
  gst_query_parse_caps_result(query, &possible);
  GstCaps *rest = withoutDeviceMemory(possible);
  GstCaps *upstream = gst_pad_peer_query_caps(self->sinkpad, rest);
  if (upstream != nullptr && !gst_caps_is_empty(upstream)) gst_query_set_caps_result(query, rest);
  gst_clear_caps(&upstream);
  gst_caps_unref(rest);
}

// Downstream's caps that we can read, with those of the model's tensor before them where they are asked for.
static gboolean answer_caps(GstFenceInfer *self, GstQuery *query) {
  if (!gst_pad_proxy_query_caps(self->sinkpad, query)) return FALSE;
  leave_out_unreadable(self, query);
  const Layout layout = settingsOf(self).layout;
  const auto runner = runnerOf(self);
  if (!runner || layout == Layout::Frame || (layout == Layout::Auto && !endsUnseen(self->srcpad))) return TRUE;
  const auto model = runner->model();
  if (layout == Layout::Auto && !scalersDoTheSame(*model)) return TRUE;
  GstCaps *tensor = tensorCaps(*model);
  if (tensor == nullptr) return TRUE;
  // what upstream can make is all we take then, because elements that can also pass frames on as they are do so; who is
  // about to link asks too, and must not be refused for frames that it makes already
  bool can = false;
  if (gst_pad_is_linked(self->sinkpad)) {
    GstCaps *upstream = gst_pad_peer_query_caps(self->sinkpad, tensor);
    can = upstream != nullptr && !gst_caps_is_empty(upstream);
    gst_clear_caps(&upstream);
  }
  GstCaps *possible = nullptr;
  gst_query_parse_caps_result(query, &possible);
  GstCaps *result = preferTensor(gst_caps_copy(possible), tensor, can);
  gst_query_set_caps_result(query, result);
  gst_caps_unref(result);
  gst_caps_unref(tensor);
  return TRUE;
}

static gboolean gst_fence_infer_sink_query(GstPad *pad, GstObject *parent, GstQuery *query) {
  auto *self = GST_FENCE_INFER(parent);
  if ((gst_query_type_get_flags(GST_QUERY_TYPE(query)) & GST_QUERY_TYPE_SERIALIZED) != 0) {
    if (auto runner = runnerOf(self); runner) runner->hurry(); // no frame comes before the answer
    return self->state->queue->pushQuery(query);
  }
  if (GST_QUERY_TYPE(query) == GST_QUERY_CAPS) return answer_caps(self, query);
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
    if (self->state->queue->restart()) gst_pad_start_task(self->srcpad, gst_fence_infer_loop, self, nullptr);
  } else if (GST_EVENT_TYPE(event) == GST_EVENT_QOS) {
    GstClockTimeDiff diff = 0;
    GstClockTime timestamp = GST_CLOCK_TIME_NONE;
    gst_event_parse_qos(event, nullptr, nullptr, &diff, &timestamp);
    self->state->skip.report(diff, timestamp);
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

  const guint held = self->state->queue->capacity();
  guint64 own = 0, most = 0;
  {
    std::lock_guard lock(self->state->stats_mutex);
    own = self->state->latency();
    most = std::max(own, self->state->frame_ns * held);
    self->state->latency_reported_ns = own;
  }
  min += own;
  if (GST_CLOCK_TIME_IS_VALID(max)) max += most;
  GST_DEBUG_OBJECT(self, "latency: own %" GST_TIME_FORMAT ", sum %" GST_TIME_FORMAT, GST_TIME_ARGS(own),
                   GST_TIME_ARGS(min));
  gst_query_set_latency(query, live, min, max);
  return TRUE;
}

static gboolean gst_fence_infer_sink_activate_mode(GstPad *, GstObject *parent, GstPadMode mode, gboolean active) {
  auto *self = GST_FENCE_INFER(parent);
  if (mode != GST_PAD_MODE_PUSH) return FALSE;
  if (!active) self->state->queue->setFlushing(); // wakes the streaming thread, whose lock is taken next
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

static GstStateChangeReturn gst_fence_infer_change_state(GstElement *element, GstStateChange transition) {
  auto *self = GST_FENCE_INFER(element);
  if (transition == GST_STATE_CHANGE_READY_TO_PAUSED && !openModel(self)) return GST_STATE_CHANGE_FAILURE;
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(gst_fence_infer_parent_class)->change_state(element, transition);
  const bool stopped = transition == GST_STATE_CHANGE_PAUSED_TO_READY;
  const bool failed = transition == GST_STATE_CHANGE_READY_TO_PAUSED && result == GST_STATE_CHANGE_FAILURE;
  if (stopped || failed) closeModel(self);
  return result;
}

// --- properties

static void gst_fence_infer_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  auto *self = GST_FENCE_INFER(object);
  GST_OBJECT_LOCK(self);
  const bool known = setSetting(self->state->settings, id, value);
  GST_OBJECT_UNLOCK(self);
  if (!known) G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  if (id == modelFileId()) requestSwap(self);
}

static void gst_fence_infer_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  auto *self = GST_FENCE_INFER(object);
  if (id == stats_property) {
    g_value_take_boxed(value, stats_structure(self));
    return;
  }
  if (!getSetting(settingsOf(self), id, value)) G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
}

// --- type

// Dma-bufs first, in both notations: DMA_DRM (linear), DMABuf with a plain format; memory of CUDA; system memory.
static GstCaps *template_caps() {
  std::string formats, drm_formats;
  for (const GstVideoFormat format : readableFormats()) {
    formats += (formats.empty() ? "" : ", ") + std::string(gst_video_format_to_string(format));
    if (const char *name = drmFormatName(format); name != nullptr)
      drm_formats += (drm_formats.empty() ? "\"" : ", \"") + std::string(name) + "\"";
  }
  const std::string size = ", width=[ 1, 32767 ], height=[ 1, 32767 ]"; // what parseFrameCaps() takes
  const std::string text = "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={ " + drm_formats + " }" + size +
                           "; video/x-raw(memory:DMABuf), format={ " + formats + " }" + size + "; video/x-raw(" +
                           kCudaFeature + "), format={ " + formats + " }" + size + "; video/x-raw, format={ " +
                           formats + " }" + size;
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

  stats_property = installSettings(object) + 1;
  g_object_class_install_property(
      object, stats_property,
      g_param_spec_boxed("stats", "Statistics", "Counts and times (us) since the element went to PAUSED",
                         GST_TYPE_STRUCTURE, static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)));

  GstCaps *caps = template_caps();
  gst_element_class_add_pad_template(element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
  gst_element_class_add_pad_template(element, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);
  gst_element_class_set_static_metadata(element, "Inference on frames in place", "Filter/Analyzer/Video",
                                        "Runs an ONNX model on frames where they lie and attaches what it found",
                                        "gst-zerocopy");
  for (const GType type : settingTypes()) gst_type_mark_as_plugin_api(type, static_cast<GstPluginAPIFlags>(0));
}

static void gst_fence_infer_init(GstFenceInfer *self) {
  self->state = new FenceInferState;
  auto *klass = GST_ELEMENT_GET_CLASS(self);

  self->sinkpad = gst_pad_new_from_template(gst_element_class_get_pad_template(klass, "sink"), "sink");
  gst_pad_set_chain_function(self->sinkpad, gst_fence_infer_chain);
  gst_pad_set_event_full_function(self->sinkpad, gst_fence_infer_sink_event);
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
