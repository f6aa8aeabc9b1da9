// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:element-cudadmabufexport
 * @title: cudadmabufexport
 * @short_description: memory of a CUDA device as dma-bufs, for display or network
 *
 * The way back from `memory:CUDAMemory`. A frame that dmabufcudaimport made goes on as the dma-buf that it was; else
 * the driver is asked for a dma-buf of the device's memory, once for each memory of a pool; where it has none, and
 * copies are allowed, the device copies the frame into one. The frame goes on at once, with an event (GstZcFenceMeta)
 * for what the device has still to do; consumers that do not know of it get it when it is done.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc ! cudaupload ! cudaconvertscale ! cudadmabufexport ! drmmodifiersink
 * ]|
 *
 * Since: 0.1
 */
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gst/base/gstbasetransform.h>
#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "ext/cuda/export/export_session.h"
#include "ext/cuda/import/import_caps.h"
#include "ext/cuda/import/route_reports.h"
#include "ext/cuda/import/teardown_watch.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcpool.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_dmabuf_export_debug);
#define GST_CAT_DEFAULT gst_cuda_dmabuf_export_debug

using namespace gstzc;
using namespace gstzc::cuda;

namespace {

constexpr guint kCopies = 3; // buffers of a copy: one that is written, one downstream, one on a screen

struct Exporter {
  ExportSession::Wishes wishes; // under the object lock
  guint fence_timeout = kFenceTimeoutDefault;

  GstVideoInfo in = {}; // streaming thread
  FrameCaps out;
  bool fences_known = false;     // by downstream
  bool meta_known = false;       // where planes lie: its GstVideoMeta
  GstBufferPool *pool = nullptr; // of copies

  std::mutex mutex;                       // of what follows
  std::unique_ptr<ExportSession> session; // of the context of the frames; replaced by the streaming thread alone
  std::string chosen;
  std::vector<RouteReport> reports;
  std::shared_ptr<ExportSession::Counters> counters = std::make_shared<ExportSession::Counters>();
  std::atomic<guint64> frames{0}, waits{0};
  std::atomic<bool> stopping{false}, flushing{false};
  bool late_warned = false; // streaming thread, as start
};

enum { PROP_0, PROP_ROUTE, PROP_ALLOW_COPY, PROP_FENCE_TIMEOUT, PROP_CHOSEN_ROUTE, PROP_STATS };

} // namespace

struct GstCudaDmabufExport {
  GstBaseTransform parent;
  Exporter *exporter;
};
struct GstCudaDmabufExportClass {
  GstBaseTransformClass parent_class;
};

GType gst_cuda_dmabuf_export_get_type();
#define gst_cuda_dmabuf_export_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstCudaDmabufExport, gst_cuda_dmabuf_export, GST_TYPE_BASE_TRANSFORM,
                        GST_DEBUG_CATEGORY_INIT(gst_cuda_dmabuf_export_debug, "cudadmabufexport", 0,
                                                "cudadmabufexport element"))
GST_ELEMENT_REGISTER_DEFINE(cudadmabufexport, "cudadmabufexport", GST_RANK_NONE, gst_cuda_dmabuf_export_get_type())

#define SELF(obj) reinterpret_cast<GstCudaDmabufExport *>(obj)

static void post_error(GstCudaDmabufExport *self, const Error &error) {
  const std::string text = error.message();
  GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", text.c_str()), (nullptr));
}

// ---- life ----

static gboolean gst_cuda_dmabuf_export_start(GstBaseTransform *trans) {
  GstCudaDmabufExport *self = SELF(trans);
  Exporter *m = self->exporter;
  GST_OBJECT_LOCK(self);
  const std::string route = m->wishes.route;
  GST_OBJECT_UNLOCK(self);
  bool known = route == "auto";
  std::string names = "auto";
  for (const char *name : kExportRoutes) {
    known = known || route == name;
    names += std::string(", ") + name;
  }
  if (!known) {
    GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("route=%s: there is no such route", route.c_str()),
                      ("There are: %s", names.c_str()));
    return FALSE;
  }
  const std::lock_guard lock(m->mutex);
  m->counters = std::make_shared<ExportSession::Counters>();
  m->frames = m->waits = 0;
  m->stopping = m->flushing = m->late_warned = false;
  m->chosen.clear();
  m->reports.clear();
  return TRUE;
}

static void drop_pool(Exporter *m) {
  if (m->pool != nullptr) gst_buffer_pool_set_active(m->pool, FALSE);
  gst_clear_object(&m->pool);
}

static void replace_session(Exporter *m, std::unique_ptr<ExportSession> session) {
  {
    const std::lock_guard lock(m->mutex);
    std::swap(m->session, session);
    if (m->session) m->session->keepOpen(m->stopping || m->flushing);
  }
  session.reset(); // waits for the device, not with the lock
}

static gboolean gst_cuda_dmabuf_export_stop(GstBaseTransform *trans) {
  Exporter *m = SELF(trans)->exporter;
  drop_pool(m);
  replace_session(m, nullptr);
  return TRUE;
}

// While it is stopped or flushed no copy waits for a fence, and nobody for such a copy.
static void set_interrupted(Exporter *m, std::atomic<bool> *reason, bool on) {
  const std::lock_guard lock(m->mutex);
  *reason = on;
  if (m->session) m->session->keepOpen(m->stopping || m->flushing);
}

static GstStateChangeReturn gst_cuda_dmabuf_export_change_state(GstElement *element, GstStateChange transition) {
  Exporter *m = SELF(element)->exporter;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) set_interrupted(m, &m->stopping, true);
  return GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
}

static gboolean gst_cuda_dmabuf_export_sink_event(GstBaseTransform *trans, GstEvent *event) {
  Exporter *m = SELF(trans)->exporter;
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_START) set_interrupted(m, &m->flushing, true);
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) set_interrupted(m, &m->flushing, false);
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

// ---- caps and allocation ----

static GstCaps *gst_cuda_dmabuf_export_transform_caps(GstBaseTransform *, GstPadDirection direction, GstCaps *caps,
                                                      GstCaps *filter) {
  GstCaps *result = direction == GST_PAD_SINK ? importableCaps(caps, nullptr) : exportedFrom(caps);
  if (filter == nullptr) return result;
  GstCaps *filtered = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(result);
  return filtered;
}

static gboolean gst_cuda_dmabuf_export_set_caps(GstBaseTransform *trans, GstCaps *in, GstCaps *out) {
  Exporter *m = SELF(trans)->exporter;
  auto frame = parseFrameCaps(out);
  if (!frame || !gst_video_info_from_caps(&m->in, in)) {
    const std::string text = frame ? "caps that are no raw video" : frame.error().message();
    GST_ELEMENT_ERROR(trans, STREAM, FORMAT, ("%s", text.c_str()), ("%" GST_PTR_FORMAT, out));
    return FALSE;
  }
  m->out = *frame;
  drop_pool(m);
  return TRUE;
}

// For copies: downstream's pool if it is of dma-bufs that the device can write, else one of our own.
static gboolean gst_cuda_dmabuf_export_decide_allocation(GstBaseTransform *trans, GstQuery *query) {
  Exporter *m = SELF(trans)->exporter;
  m->fences_known = gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr);
  m->meta_known = gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  drop_pool(m);
  GstBufferPool *offered = nullptr;
  guint size = 0, min = 0, max = 0;
  if (gst_query_get_n_allocation_pools(query) > 0)
    gst_query_parse_nth_allocation_pool(query, 0, &offered, &size, &min, &max);
  if (offered != nullptr) {
    GstStructure *config = gst_buffer_pool_get_config(offered);
    GstAllocator *allocator = nullptr;
    gst_buffer_pool_config_get_allocator(config, &allocator, nullptr);
    gst_structure_free(config);
    if (allocator != nullptr && GST_IS_ZC_ALLOCATOR(allocator)) m->pool = GST_BUFFER_POOL(gst_object_ref(offered));
  }
  if (m->pool != nullptr) {
    GstCaps *caps = nullptr;
    gst_query_parse_allocation(query, &caps, nullptr);
    GstStructure *config = gst_buffer_pool_get_config(m->pool);
    GstAllocator *allocator = nullptr;
    gst_buffer_pool_config_get_allocator(config, &allocator, nullptr);
    gst_buffer_pool_config_set_params(config, caps, MAX(size, static_cast<guint>(GST_VIDEO_INFO_SIZE(&m->out.info))),
                                      MAX(min, kCopies), max);
    if (!gst_buffer_pool_set_config(m->pool, config)) gst_clear_object(&m->pool);
  }
  GST_DEBUG_OBJECT(trans, "downstream: fences %d, pool %" GST_PTR_FORMAT ", taken %" GST_PTR_FORMAT, m->fences_known,
                   offered, m->pool);
  gst_clear_object(&offered);
  // the base class makes no buffers: each frame brings its memory
  while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
  while (gst_query_get_n_allocation_params(query) > 0) gst_query_remove_nth_allocation_param(query, 0);
  return TRUE;
}

static Result<GstBufferPool *> new_pool(const FrameCaps &out, GstCaps *caps) {
  GError *error = nullptr;
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_UDMABUF, nullptr, &error);
  if (allocator == nullptr) {
    Error failed{std::string("no dma-bufs to copy into: ") + error->message, 0, ""};
    g_error_free(error);
    return failed;
  }
  const auto size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&out.info));
  GstBufferPool *pool = gst_zc_pool_new(allocator, GST_ZC_DEFAULT_STRIDE_ALIGN);
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size, kCopies, 0);
  gst_buffer_pool_config_set_allocator(config, allocator, nullptr);
  gst_object_unref(allocator);
  if (gst_buffer_pool_set_config(pool, config)) return pool;
  gst_object_unref(pool);
  return Error{"a pool of dma-bufs for copies", EINVAL, ""};
}

static Result<GstBuffer *> acquire_copy(GstCudaDmabufExport *self) {
  Exporter *m = self->exporter;
  if (m->pool == nullptr) {
    GstCaps *caps = gst_pad_get_current_caps(GST_BASE_TRANSFORM_SRC_PAD(self));
    auto pool = new_pool(m->out, caps);
    gst_clear_caps(&caps);
    if (!pool) return pool.error();
    m->pool = *pool;
  }
  GstBuffer *buffer = nullptr;
  if (gst_buffer_pool_set_active(m->pool, TRUE) &&
      gst_buffer_pool_acquire_buffer(m->pool, &buffer, nullptr) == GST_FLOW_OK)
    return buffer;
  return Error{"no dma-buf to copy the frame into", ENOMEM, ""};
}

static gboolean gst_cuda_dmabuf_export_propose_allocation(GstBaseTransform *trans, GstQuery *decide_query,
                                                          GstQuery *query) {
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->propose_allocation(trans, decide_query, query)) return FALSE;
  for (const GType api : {GST_VIDEO_META_API_TYPE, GST_ZC_FENCE_META_API_TYPE})
    if (!gst_query_find_allocation_meta(query, api, nullptr)) gst_query_add_allocation_meta(query, api, nullptr);
  return TRUE; // no pool: producers on the device have their own
}

// ---- frames ----

static Status ensure_session(GstCudaDmabufExport *self, GstBuffer *in) {
  Exporter *m = self->exporter;
  GstMemory *memory = gst_buffer_n_memory(in) > 0 ? gst_buffer_peek_memory(in, 0) : nullptr;
  if (memory == nullptr || !gst_is_cuda_memory(memory))
    return Error{"a frame that is no CUDA memory", EINVAL, "Its producer has to keep to its memory:CUDAMemory caps"};
  GstCudaContext *context = GST_CUDA_MEMORY_CAST(memory)->context;
  if (m->session && m->session->context() == context) return Nothing{};
  GST_OBJECT_LOCK(self);
  const ExportSession::Wishes wishes = m->wishes;
  GST_OBJECT_UNLOCK(self);
  replace_session(m, nullptr);
  auto session = ExportSession::open(context, wishes, m->counters);
  if (!session) return session.error();
  replace_session(m, session.take());
  return Nothing{};
}

static void tell_of_route(GstCudaDmabufExport *self) {
  Exporter *m = self->exporter;
  if (!m->session->takeChanged()) return;
  {
    const std::lock_guard lock(m->mutex);
    m->chosen = m->session->chosen();
    m->reports = m->session->reports();
  }
  GST_INFO_OBJECT(self, "route %s%s", m->session->chosen().c_str(),
                  m->session->trusted() ? ", its content is right" : "");
  gst_element_post_message(
      GST_ELEMENT(self),
      gst_message_new_element(GST_OBJECT(self),
                              gst_structure_new("cudadmabufexport-route", "route", G_TYPE_STRING,
                                                m->session->chosen().c_str(), "trusted", G_TYPE_BOOLEAN,
                                                static_cast<gboolean>(m->session->trusted()), nullptr)));
  g_object_notify(G_OBJECT(self), "chosen-route");
}

// Downstream would read before the device is done.
static GstFlowReturn wait_for_device(GstCudaDmabufExport *self, GstBuffer *out) {
  Exporter *m = self->exporter;
  if (m->fences_known || gst_buffer_get_zc_fence_meta(out) == nullptr) return GST_FLOW_OK;
  ++m->waits;
  const auto interrupted = [self, m] { return m->stopping || m->flushing || goesDown(GST_ELEMENT(self)); };
  GST_OBJECT_LOCK(self);
  const std::chrono::milliseconds timeout(m->fence_timeout);
  GST_OBJECT_UNLOCK(self);
  if (!waitPoint("export-host")) return GST_FLOW_OK;
  const auto done = waitForFrame(out, Access::Read, timeout, interrupted);
  if (done) return GST_FLOW_OK;
  if (interrupted()) return GST_FLOW_FLUSHING;
  const std::string text = done.error().message();
  GST_DEBUG_OBJECT(self, "%s", text.c_str());
  if (!std::exchange(m->late_warned, true)) // once a run: a device that hangs does so for frame after frame
    GST_ELEMENT_WARNING(self, RESOURCE, READ, ("%s", text.c_str()),
                        ("the frame is dropped, as all are that come late"));
  return GST_BASE_TRANSFORM_FLOW_DROPPED;
}

static GstFlowReturn gst_cuda_dmabuf_export_prepare_output_buffer(GstBaseTransform *trans, GstBuffer *in,
                                                                  GstBuffer **out) {
  GstCudaDmabufExport *self = SELF(trans);
  Exporter *m = self->exporter;
  ++m->frames;
  auto ready = ensure_session(self, in);
  ExportSession::Request request;
  request.acquire = [self] { return acquire_copy(self); };
  // who takes memory:DMABuf reads it in any case
  request.reads_video_meta = m->meta_known || m->out.memory == MemoryKind::DmaBuf;
  GST_OBJECT_LOCK(self);
  request.timeout = std::chrono::milliseconds(m->fence_timeout);
  GST_OBJECT_UNLOCK(self);
  auto buffer = ready ? m->session->exportFrame(in, m->in, request) : Result<GstBuffer *>(ready.error());
  if (!buffer) {
    post_error(self, buffer.error());
    return GST_FLOW_ERROR;
  }
  tell_of_route(self);
  if (const GstFlowReturn flow = wait_for_device(self, *buffer); flow != GST_FLOW_OK) {
    gst_buffer_unref(*buffer);
    return flow;
  }
  *out = *buffer;
  return GST_FLOW_OK;
}

static GstFlowReturn gst_cuda_dmabuf_export_transform(GstBaseTransform *, GstBuffer *, GstBuffer *) {
  return GST_FLOW_OK; // all is done where the buffer is made
}

// ---- object ----

static GstStructure *make_stats(GstCudaDmabufExport *self) {
  Exporter *m = self->exporter;
  const std::lock_guard lock(m->mutex);
  const ExportSession::Counters &c = *m->counters;
  GstStructure *stats =
      gst_structure_new("stats", "frames", G_TYPE_UINT64, m->frames.load(), "exports", G_TYPE_UINT64, c.exports.load(),
                        "hits", G_TYPE_UINT64, c.hits.load(), "originals", G_TYPE_UINT64, c.originals.load(), "copies",
                        G_TYPE_UINT64, c.copies.load(), "bytes-copied", G_TYPE_UINT64, c.bytes_copied.load(), "waits",
                        G_TYPE_UINT64, m->waits.load(), nullptr);
  GValue routes = routeReportsValue(m->reports);
  gst_structure_take_value(stats, "routes", &routes);
  return stats;
}

static void gst_cuda_dmabuf_export_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  Exporter *m = SELF(object)->exporter;
  if (id == PROP_STATS) {
    g_value_take_boxed(value, make_stats(SELF(object)));
    return;
  }
  if (id == PROP_CHOSEN_ROUTE) {
    const std::lock_guard lock(m->mutex);
    g_value_set_string(value, m->chosen.empty() ? nullptr : m->chosen.c_str());
    return;
  }
  GST_OBJECT_LOCK(object);
  switch (id) {
  case PROP_ROUTE: g_value_set_string(value, m->wishes.route.c_str()); break;
  case PROP_ALLOW_COPY: g_value_set_boolean(value, m->wishes.allow_copy); break;
  case PROP_FENCE_TIMEOUT: g_value_set_uint(value, m->fence_timeout); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void gst_cuda_dmabuf_export_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  Exporter *m = SELF(object)->exporter;
  GST_OBJECT_LOCK(object);
  switch (id) {
  case PROP_ROUTE: m->wishes.route = g_value_get_string(value) != nullptr ? g_value_get_string(value) : "auto"; break;
  case PROP_ALLOW_COPY: m->wishes.allow_copy = g_value_get_boolean(value); break;
  case PROP_FENCE_TIMEOUT: m->fence_timeout = g_value_get_uint(value); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(object);
}

static void gst_cuda_dmabuf_export_finalize(GObject *object) {
  delete SELF(object)->exporter;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_dmabuf_export_class_init(GstCudaDmabufExportClass *klass) {
  GObjectClass *object_class = G_OBJECT_CLASS(klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS(klass);
  object_class->get_property = gst_cuda_dmabuf_export_get_property;
  object_class->set_property = gst_cuda_dmabuf_export_set_property;
  object_class->finalize = gst_cuda_dmabuf_export_finalize;

  const auto ready = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto readable = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_property(
      object_class, PROP_ROUTE,
      g_param_spec_string(
          "route", "Route",
          "How frames become dma-bufs: auto tries, in this order, original (frames of dmabufcudaimport), "
          "address-range and, with allow-copy, device-copy; a name is this one only",
          "auto", ready));
  g_object_class_install_property(
      object_class, PROP_ALLOW_COPY,
      g_param_spec_boolean("allow-copy", "Allow copy",
                           "Let the device copy frames that it cannot export; counted in the statistics", FALSE,
                           ready));
  g_object_class_install_property(object_class, PROP_FENCE_TIMEOUT, fenceTimeoutSpec());
  g_object_class_install_property(
      object_class, PROP_CHOSEN_ROUTE,
      g_param_spec_string("chosen-route", "Chosen route", "The route that the last frame took", nullptr, readable));
  g_object_class_install_property(
      object_class, PROP_STATS,
      g_param_spec_boxed(
          "stats", "Statistics",
          "Counters since the last start: frames, exports (memories that got a dma-buf), hits (frames "
          "whose memory had one), originals (frames that went on as the dma-buf that they were), copies, "
          "bytes-copied, waits (frames that were waited for, as downstream does not know fences); and "
          "routes: what was found of each",
          GST_TYPE_STRUCTURE, readable));

  GstCaps *sink = importSrcCaps(), *src = importableCaps(sink, nullptr);
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink));
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, src));
  gst_caps_unref(sink);
  gst_caps_unref(src);
  gst_element_class_set_static_metadata(element_class, "CUDA to dma-buf exporter", "Filter/Video/Hardware",
                                        "Memory of a CUDA device as dma-bufs", "gst-zerocopy developers");
  element_class->change_state = gst_cuda_dmabuf_export_change_state;

  trans_class->passthrough_on_same_caps = FALSE;
  trans_class->start = gst_cuda_dmabuf_export_start;
  trans_class->stop = gst_cuda_dmabuf_export_stop;
  trans_class->transform_caps = gst_cuda_dmabuf_export_transform_caps;
  trans_class->sink_event = gst_cuda_dmabuf_export_sink_event;
  trans_class->set_caps = gst_cuda_dmabuf_export_set_caps;
  trans_class->decide_allocation = gst_cuda_dmabuf_export_decide_allocation;
  trans_class->propose_allocation = gst_cuda_dmabuf_export_propose_allocation;
  trans_class->prepare_output_buffer = gst_cuda_dmabuf_export_prepare_output_buffer;
  trans_class->transform = gst_cuda_dmabuf_export_transform;
}

static void gst_cuda_dmabuf_export_init(GstCudaDmabufExport *self) { self->exporter = new Exporter; }
