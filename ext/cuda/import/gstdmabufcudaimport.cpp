// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:element-dmabufcudaimport
 * @title: dmabufcudaimport
 * @short_description: dma-bufs as memory of a CUDA device, without copies
 *
 * Each frame that comes in a dma-buf leaves as `memory:CUDAMemory` over the same memory. The way to do that depends on
 * device, driver and who made the buffer: the element tries them on the first frame, and trusts one when the device
 * has shown the frame's content. A frame whose producer is not done goes on at once; the device waits for its fences.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 v4l2src io-mode=dmabuf ! dmabufcudaimport ! cudaconvertscale ! nvh264enc ! fakesink
 * ]|
 *
 * Since: 0.1
 */
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gst/base/gstbasetransform.h>
#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/import/import_caps.h"
#include "ext/cuda/import/import_session.h"
#include "ext/cuda/import/reader_contexts.h"
#include "ext/cuda/import/route_reports.h"
#include "ext/cuda/import/teardown_watch.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcpool.h"

GST_DEBUG_CATEGORY_STATIC(gst_dmabuf_cuda_import_debug);
#define GST_CAT_DEFAULT gst_dmabuf_cuda_import_debug

using namespace gstzc;
using namespace gstzc::cuda;

namespace {

constexpr guint kBuffersHeld = 2; // here at a time: one goes on, one whose device work ends

struct Settings {
  std::string route = "auto";
  bool allow_copy = false;
  guint fence_timeout = kFenceTimeoutDefault; // ms
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
  gint device = -1;
};

// For callbacks that may come when the element is gone.
class WeakElement {
public:
  explicit WeakElement(gpointer element) { g_weak_ref_init(&ref_, element); }
  ~WeakElement() { g_weak_ref_clear(&ref_); }
  WeakElement(const WeakElement &) = delete;
  WeakElement &operator=(const WeakElement &) = delete;
  GstElement *get() { return static_cast<GstElement *>(g_weak_ref_get(&ref_)); } // transfer full

private:
  GWeakRef ref_;
};

struct Importer {
  Settings settings; // under the object lock

  GstCudaContext *context = nullptr;  // of start() until stop(), or that was set before
  std::atomic<gint> other_device{-1}; // of a context that was offered and not taken

  bool allow_copy = false; // of this run

  FrameCaps in; // streaming thread
  GstVideoInfo out = {};
  bool device_warned = false; // this run, that another device is meant

  std::mutex mutex; // of the pointer, and what follows: properties, queries, events and state changes look at them
  std::unique_ptr<ImportSession> session;
  std::shared_ptr<ImportSession::Counters> counters; // of this run
  GstCudaContext *known_context = nullptr;           // the one above, for who asks
  std::string chosen_route;
  std::vector<RouteReport> reports;
  ImportCache::Counters last_cache; // of the session closed last
  bool stopping = false, flushing = false;

  std::unique_ptr<TeardownWatch> watch;
  std::atomic<guint64> frames{0}, dropped{0};
  std::atomic<bool> interrupted{false}, fence_warned{false}, failed{false};
};

enum {
  PROP_0,
  PROP_ROUTE,
  PROP_ALLOW_COPY,
  PROP_FENCE_TIMEOUT,
  PROP_ON_FENCE_ERROR,
  PROP_DEVICE_ID,
  PROP_CHOSEN_ROUTE,
  PROP_STATS,
};

} // namespace

struct GstDmabufCudaImport {
  GstBaseTransform parent;
  Importer *importer;
};
struct GstDmabufCudaImportClass {
  GstBaseTransformClass parent_class;
};

GType gst_dmabuf_cuda_import_get_type();
#define gst_dmabuf_cuda_import_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstDmabufCudaImport, gst_dmabuf_cuda_import, GST_TYPE_BASE_TRANSFORM,
                        GST_DEBUG_CATEGORY_INIT(gst_dmabuf_cuda_import_debug, "dmabufcudaimport", 0,
                                                "dmabufcudaimport element"))
GST_ELEMENT_REGISTER_DEFINE(dmabufcudaimport, "dmabufcudaimport", GST_RANK_NONE, gst_dmabuf_cuda_import_get_type())

#define SELF(obj) reinterpret_cast<GstDmabufCudaImport *>(obj)

static Settings settings_of(GstDmabufCudaImport *self) {
  GST_OBJECT_LOCK(self);
  const Settings settings = self->importer->settings;
  GST_OBJECT_UNLOCK(self);
  return settings;
}

// ---- errors ----

static void post_error(GstDmabufCudaImport *self, const Error &error) {
  const std::string text = error.message();
  GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", text.c_str()), (nullptr));
}

// Of fences, one warning a run: a producer that hangs does so for frame after frame.
static void tell_of_fence(GstDmabufCudaImport *self, FrameFate fate, const Error &error) {
  const std::string text = error.message();
  GST_DEBUG_OBJECT(self, "%s", text.c_str());
  if (fate == FrameFate::Fail)
    GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
  else if (!self->importer->fence_warned.exchange(true))
    GST_ELEMENT_WARNING(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr));
}

struct LateFence {
  FrameFate fate;
  Error error;
};

// Of a frame that has gone on. On the poller's thread, which messages could keep: so in another one.
static void tell_late(const std::shared_ptr<WeakElement> &weak, GstZcOnFenceError policy, const FenceResult &result,
                      std::chrono::milliseconds timeout) {
  if (result.outcome == FenceOutcome::Signalled || result.outcome == FenceOutcome::Cancelled) return;
  GstElement *element = weak->get();
  if (element == nullptr) return;
  auto *late = new LateFence{judgeFence(result, policy, timeout).fate, fenceError(result, timeout)};
  late->error.remedy += ". The frame had gone on, with an event that tells its consumers";
  if (late->fate == FrameFate::Fail) SELF(element)->importer->failed = true;
  gst_element_call_async(
      element,
      [](GstElement *e, gpointer data) {
        const auto *what = static_cast<LateFence *>(data);
        tell_of_fence(SELF(e), what->fate, what->error);
      },
      late, [](gpointer data) { delete static_cast<LateFence *>(data); });
  gst_object_unref(element);
}

// ---- routes ----

// Streaming thread, after each import: who asks from another thread sees a copy.
static void tell_of_route(GstDmabufCudaImport *self, bool failed) {
  Importer *m = self->importer;
  RouteChoice &choice = m->session->imports().choice();
  if (!choice.takeChanged() && !failed) return;
  const std::string chosen = choice.chosen() != nullptr ? choice.chosen()->name() : "";
  {
    const std::lock_guard lock(m->mutex);
    m->chosen_route = chosen;
    m->reports = choice.reports();
  }
  std::string refused;
  for (const RouteReport &report : choice.reports())
    if (report.stage != RouteStage::Chosen && report.stage != RouteStage::NotTried)
      refused += "; " + report.route + ": " + report.reason;
  GST_INFO_OBJECT(self, "route %s%s%s", chosen.c_str(), choice.trusted() ? ", its content is right" : "",
                  refused.c_str());
  GstStructure *structure =
      gst_structure_new("dmabufcudaimport-route", "route", G_TYPE_STRING, chosen.c_str(), "trusted", G_TYPE_BOOLEAN,
                        static_cast<gboolean>(choice.trusted()), nullptr);
  GValue reports = routeReportsValue(choice.reports());
  gst_structure_take_value(structure, "routes", &reports);
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), structure));
  g_object_notify(G_OBJECT(self), "chosen-route");
}

// ---- life ----

static gboolean check_driver(GstDmabufCudaImport *self) {
  const auto driver = Driver::get();
  if (driver && gst_cuda_load_library()) return TRUE;
  const std::string why = driver ? "GStreamer's gst-cuda library finds a function missing" : driver.error().message();
  GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("No CUDA driver that can be used: %s", why.c_str()), (nullptr));
  return FALSE;
}

static std::string name_of(const ContextPtr &context) {
  char name[256] = "", bus[32] = "";
  context->driver.cuDeviceGetName(name, sizeof name, context->device);
  context->driver.cuDeviceGetPCIBusId(bus, sizeof bus, context->device);
  return "CUDA device " + std::to_string(context->device) + " (" + name + ", " + bus + ")";
}

// A context that a fault of the device has ended stays with elements and bins that know it.
static bool works(GstCudaContext *context) {
  const ContextPtr known = contextOf(context);
  if (!known) return false;
  ContextScope scope(*known);
  return scope.status() && known->driver.cuCtxSynchronize() == CUDA_SUCCESS;
}

static void publish_context(Importer *m) {
  const std::lock_guard lock(m->mutex);
  gst_object_replace(reinterpret_cast<GstObject **>(&m->known_context), GST_OBJECT_CAST(m->context));
}

static void drop_context(Importer *m) {
  gst_clear_object(&m->context);
  publish_context(m);
}

static gboolean ensure_context(GstDmabufCudaImport *self, gint device) {
  Importer *m = self->importer;
  m->other_device = -1;
  const gboolean found = gst_cuda_ensure_element_context(GST_ELEMENT(self), device, &m->context);
  if (found && !works(m->context)) {
    guint same = 0;
    g_object_get(m->context, "cuda-device-id", &same, nullptr);
    GST_WARNING_OBJECT(self, "the pipeline's CUDA context does not work any more: a new one");
    gst_clear_object(&m->context);
    m->context = gst_cuda_context_new(same);
    if (m->context != nullptr)
      gst_element_post_message(
          GST_ELEMENT(self), gst_message_new_have_context(GST_OBJECT(self), gst_context_new_cuda_context(m->context)));
  }
  if (m->context == nullptr) {
    int n = 0;
    if (const auto driver = Driver::get()) (*driver)->cuDeviceGetCount(&n);
    GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                      ("No context on CUDA device %d (cuda-device-id=%d): the driver has %d device%s", MAX(device, 0),
                       device, n, n == 1 ? "" : "s"),
                      ("GST_DEBUG=cudacontext:2 has the driver's reason"));
    return FALSE;
  }
  publish_context(m);
  m->device_warned = m->other_device >= 0;
  if (m->device_warned)
    GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                        ("The pipeline's CUDA context is on device %d, and cuda-device-id=%d: frames will be copied "
                         "between the devices, or refused",
                         m->other_device.load(), device),
                        ("Set the same cuda-device-id on all CUDA elements, or none here"));
  return TRUE;
}

static gboolean gst_dmabuf_cuda_import_start(GstBaseTransform *trans) {
  GstDmabufCudaImport *self = SELF(trans);
  Importer *m = self->importer;
  const Settings settings = settings_of(self);
  if (!ensure_context(self, settings.device)) return FALSE;

  const auto counters = std::make_shared<ImportSession::Counters>();
  m->allow_copy = settings.allow_copy;
  m->frames = m->dropped = 0;
  m->interrupted = m->fence_warned = m->failed = false;
  auto session = ImportSession::open(m->context, {settings.route, settings.allow_copy}, counters);
  if (!session) {
    post_error(self, session.error());
    drop_context(m);
    return FALSE;
  }
  const std::vector<RouteReport> &routes = (*session)->imports().choice().reports();
  bool known = settings.route == "auto";
  std::string names = "auto";
  for (const RouteReport &report : routes) {
    known = known || report.route == settings.route;
    names += ", " + report.route;
  }
  if (!known) {
    GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("route=%s: there is no such route", settings.route.c_str()),
                      ("There are: %s", names.c_str()));
    drop_context(m);
    return FALSE;
  }
  GST_INFO_OBJECT(self, "%s; fences are waited for by %s", name_of((*session)->context()).c_str(),
                  (*session)->gateName());
  {
    const std::lock_guard lock(m->mutex);
    m->session = session.take();
    m->counters = counters;
    m->chosen_route.clear();
    m->reports = routes;
    m->last_cache = {};
    m->stopping = m->flushing = false;
  }
  ImportSession *open = m->session.get();
  m->watch = std::make_unique<TeardownWatch>(
      GST_ELEMENT(self), [open] { return open->pendingFences() > 0; }, [open] { open->open(); });
  return TRUE;
}

static gboolean gst_dmabuf_cuda_import_stop(GstBaseTransform *trans) {
  Importer *m = SELF(trans)->importer;
  m->watch.reset();
  std::unique_ptr<ImportSession> session;
  {
    const std::lock_guard lock(m->mutex);
    session = std::move(m->session);
    if (session) m->last_cache = session->imports().counters();
  }
  session.reset(); // waits for the device, not with the lock
  drop_context(m);
  return TRUE;
}

// While it is stopped or flushed nothing waits: neither this element, nor the device, nor who waits for the device.
static void set_interrupted(Importer *m, bool *reason, bool on) {
  const std::lock_guard lock(m->mutex);
  *reason = on;
  m->interrupted = m->stopping || m->flushing;
  if (m->session) m->session->keepOpen(m->interrupted);
}

static GstStateChangeReturn gst_dmabuf_cuda_import_change_state(GstElement *element, GstStateChange transition) {
  Importer *m = SELF(element)->importer;
  if (transition == GST_STATE_CHANGE_NULL_TO_READY && !check_driver(SELF(element))) return GST_STATE_CHANGE_FAILURE;
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) set_interrupted(m, &m->stopping, true);
  return GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
}

static gboolean gst_dmabuf_cuda_import_sink_event(GstBaseTransform *trans, GstEvent *event) {
  Importer *m = SELF(trans)->importer;
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_START) set_interrupted(m, &m->flushing, true);
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) set_interrupted(m, &m->flushing, false);
  if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
    GstCaps *caps = nullptr;
    gst_event_parse_caps(event, &caps);
    if (const auto format = haveImportableFormat(caps); !format) {
      const std::string text = format.error().message();
      GST_ELEMENT_ERROR(trans, STREAM, FORMAT, ("%s", text.c_str()), ("%" GST_PTR_FORMAT, caps));
      gst_event_unref(event);
      return FALSE;
    }
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

static void gst_dmabuf_cuda_import_set_context(GstElement *element, GstContext *context) {
  GstDmabufCudaImport *self = SELF(element);
  Importer *m = self->importer;
  const gint device = settings_of(self).device;
  const bool taken = m->context == nullptr && gst_cuda_handle_set_context(element, context, device, &m->context);
  if (taken) publish_context(m);
  guint other = 0;
  if (!taken && m->context == nullptr && gst_context_has_context_type(context, GST_CUDA_CONTEXT_TYPE) &&
      gst_structure_get_uint(gst_context_get_structure(context), "cuda-device-id", &other))
    m->other_device = static_cast<gint>(other);
  GST_ELEMENT_CLASS(parent_class)->set_context(element, context);
}

static gboolean gst_dmabuf_cuda_import_query(GstBaseTransform *trans, GstPadDirection direction, GstQuery *query) {
  if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT) {
    Importer *m = SELF(trans)->importer;
    GstCudaContext *context = nullptr;
    {
      const std::lock_guard lock(m->mutex);
      gst_object_replace(reinterpret_cast<GstObject **>(&context), GST_OBJECT_CAST(m->known_context));
    }
    const gboolean answered = gst_cuda_handle_context_query(GST_ELEMENT(trans), query, context);
    gst_clear_object(&context);
    if (answered) return TRUE;
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->query(trans, direction, query);
}

// ---- caps and allocation ----

static GstCaps *gst_dmabuf_cuda_import_transform_caps(GstBaseTransform *, GstPadDirection direction, GstCaps *caps,
                                                      GstCaps *filter) {
  GstCaps *result = direction == GST_PAD_SINK ? importedCaps(caps) : importableCaps(caps, filter);
  if (filter != nullptr) {
    GstCaps *filtered = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    result = filtered;
  }
  return result;
}

// Caps with a format that nobody knows are taken as an event, which is refused with an error that names it; refused
// here they would end in one that does not.
static gboolean gst_dmabuf_cuda_import_accept_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps) {
  if (direction == GST_PAD_SINK && gst_caps_is_fixed(caps) && !haveImportableFormat(caps)) {
    GstCaps *known = gst_pad_get_pad_template_caps(GST_BASE_TRANSFORM_SINK_PAD(trans));
    const gboolean memory = gst_caps_can_intersect(known, caps);
    gst_caps_unref(known);
    return memory;
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->accept_caps(trans, direction, caps);
}

static gboolean gst_dmabuf_cuda_import_set_caps(GstBaseTransform *trans, GstCaps *in_caps, GstCaps *out_caps) {
  GstDmabufCudaImport *self = SELF(trans);
  Importer *m = self->importer;
  auto in = parseFrameCaps(in_caps);
  if (!in || !gst_video_info_from_caps(&m->out, out_caps)) {
    const std::string text = in ? "caps that are no raw video" : in.error().message();
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", text.c_str()), ("%" GST_PTR_FORMAT, out_caps));
    return FALSE;
  }
  m->in = *in;
  if (m->session) m->session->imports().forget();
  return TRUE;
}

static void check_device(GstDmabufCudaImport *self, GstCudaContext *reader) {
  Importer *m = self->importer;
  if (m->context == nullptr || m->device_warned) return;
  guint here = 0, there = 0;
  g_object_get(m->context, "cuda-device-id", &here, nullptr);
  g_object_get(reader, "cuda-device-id", &there, nullptr);
  if (here == there) return;
  m->device_warned = true;
  GST_ELEMENT_WARNING(self, RESOURCE, SETTINGS,
                      ("Frames are memory of CUDA device %u, and who comes behind works on device %u: they will be "
                       "copied between the devices, or refused",
                       here, there),
                      ("Set the same cuda-device-id on all CUDA elements, or none"));
}

// In which contexts frames are read: those of the pools that are offered, and of elements that offer none.
static gboolean find_readers(GstDmabufCudaImport *self, GstQuery *query) {
  ImportSession *session = self->importer->session.get();
  if (session == nullptr) return TRUE;
  std::vector<GstContextPtr> contexts = contextsBehind(GST_BASE_TRANSFORM_SRC_PAD(self));
  for (guint i = 0; i < gst_query_get_n_allocation_pools(query); ++i) {
    GstBufferPool *pool = nullptr;
    gst_query_parse_nth_allocation_pool(query, i, &pool, nullptr, nullptr, nullptr);
    if (pool != nullptr && GST_IS_CUDA_BUFFER_POOL(pool)) {
      check_device(self, GST_CUDA_BUFFER_POOL(pool)->context);
      contexts.emplace_back(GST_CUDA_CONTEXT(gst_object_ref(GST_CUDA_BUFFER_POOL(pool)->context)));
    }
    gst_clear_object(&pool);
  }
  for (const GstContextPtr &context : contexts) {
    const auto added = session->readIn(context.get());
    if (added) continue;
    post_error(self, added.error());
    return FALSE;
  }
  return TRUE;
}

// The stream of the pool that downstream offers: GStreamer's elements say so on which one they read.
static GstCudaStream *stream_of_pool(GstQuery *query) {
  GstCudaStream *stream = nullptr;
  for (guint i = 0; stream == nullptr && i < gst_query_get_n_allocation_pools(query); ++i) {
    GstBufferPool *pool = nullptr;
    gst_query_parse_nth_allocation_pool(query, i, &pool, nullptr, nullptr, nullptr);
    if (pool == nullptr) continue;
    GstStructure *config = gst_buffer_pool_get_config(pool);
    stream = gst_buffer_pool_config_get_cuda_stream(config);
    gst_structure_free(config);
    gst_object_unref(pool);
  }
  return stream;
}

// Of downstream's pools only the stream is of use: each frame brings its memory.
static gboolean gst_dmabuf_cuda_import_decide_allocation(GstBaseTransform *trans, GstQuery *query) {
  if (!find_readers(SELF(trans), query)) return FALSE;
  GstCudaStream *stream = stream_of_pool(query);
  GST_DEBUG_OBJECT(trans, "downstream reads on %s stream", stream != nullptr ? "its own" : "an unknown");
  if (ImportSession *session = SELF(trans)->importer->session.get()) session->readOn(stream);
  gst_clear_cuda_stream(&stream);
  while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
  while (gst_query_get_n_allocation_params(query) > 0) gst_query_remove_nth_allocation_param(query, 0);
  return TRUE;
}

// A pool of dma-bufs that the CPU can write, for producers that have none of their own.
static GstBufferPool *new_pool(GstDmabufCudaImport *self, GstCaps *caps, guint size) {
  GError *error = nullptr;
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_AUTO, "system", &error);
  GstMemory *trial =
      allocator != nullptr ? gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), size, nullptr, &error) : nullptr;
  GstBufferPool *pool = nullptr;
  if (trial != nullptr) {
    gst_memory_unref(trial);
    pool = gst_zc_pool_new(allocator, GST_ZC_DEFAULT_STRIDE_ALIGN);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    // without GST_BUFFER_POOL_OPTION_VIDEO_META: the user adds it when it can deal with strides
    gst_buffer_pool_config_set_params(config, caps, size, kBuffersHeld, 0);
    gst_buffer_pool_config_set_allocator(config, allocator, nullptr);
    if (!gst_buffer_pool_set_config(pool, config)) gst_clear_object(&pool);
  } else {
    GST_INFO_OBJECT(self, "no pool for upstream: %s", error->message);
  }
  g_clear_error(&error);
  gst_clear_object(&allocator);
  return pool;
}

static gboolean gst_dmabuf_cuda_import_propose_allocation(GstBaseTransform *trans, GstQuery *decide_query,
                                                          GstQuery *query) {
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->propose_allocation(trans, decide_query, query)) return FALSE;
  for (const GType api : {GST_VIDEO_META_API_TYPE, GST_ZC_FENCE_META_API_TYPE})
    if (!gst_query_find_allocation_meta(query, api, nullptr)) gst_query_add_allocation_meta(query, api, nullptr);
  GstCaps *caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  const auto frame = parseFrameCaps(caps);
  if (!frame) return FALSE;
  if (!frame->linear() || GST_VIDEO_INFO_SIZE(&frame->info) == 0 || GST_VIDEO_INFO_SIZE(&frame->info) > G_MAXUINT)
    return TRUE; // only the producer knows the layout
  const auto size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&frame->info));
  GstBufferPool *pool = need_pool ? new_pool(SELF(trans), caps, size) : nullptr;
  gst_query_add_allocation_pool(query, pool, size, kBuffersHeld, 0);
  gst_clear_object(&pool);
  return TRUE;
}

// ---- frames ----

// How a frame's fences ended before it goes on. OK: it does.
static GstFlowReturn judge(GstDmabufCudaImport *self, const Settings &settings, const Result<FenceResult> &end) {
  Importer *m = self->importer;
  if (end && end->outcome == FenceOutcome::Cancelled && (m->interrupted || goesDown(GST_ELEMENT(self))))
    return GST_FLOW_FLUSHING;
  const FenceVerdict verdict =
      end ? judgeFence(*end, settings.on_fence_error, std::chrono::milliseconds(settings.fence_timeout))
          : judgeFence(end.error(), settings.on_fence_error);
  if (verdict.fate == FrameFate::Use) return GST_FLOW_OK;
  tell_of_fence(self, verdict.fate, verdict.error);
  if (verdict.fate == FrameFate::Pass) return GST_FLOW_OK;
  ++m->dropped;
  return verdict.fate == FrameFate::Fail ? GST_FLOW_ERROR : GST_BASE_TRANSFORM_FLOW_DROPPED;
}

static GstFlowReturn import_frame(GstDmabufCudaImport *self, const Settings &settings, GstBuffer *in,
                                  const ImportSource &source, ImportSession::Imported *imported) {
  Importer *m = self->importer;
  ImportSession::Request request;
  request.frame = in;
  request.source = source;
  request.timeout = std::chrono::milliseconds(settings.fence_timeout);
  request.interrupted = [self] { return self->importer->interrupted || goesDown(GST_ELEMENT(self)); };
  auto prepared =
      m->session->prepare(request, [weak = std::make_shared<WeakElement>(self), policy = settings.on_fence_error](
                                       const FenceResult &result, std::chrono::milliseconds timeout) {
        tell_late(weak, policy, result, timeout);
      });
  tell_of_route(self, !prepared.ok());
  if (!prepared) {
    post_error(self, prepared.error());
    return GST_FLOW_ERROR;
  }
  if (prepared->end) {
    if (const GstFlowReturn flow = judge(self, settings, *prepared->end); flow != GST_FLOW_OK) return flow;
  } else if (prepared->failure) {
    m->watch->arm();
  }
  auto wrapped = m->session->wrap(*prepared, in, m->out);
  if (!wrapped) {
    post_error(self, wrapped.error());
    return GST_FLOW_ERROR;
  }
  *imported = wrapped.take();
  return GST_FLOW_OK;
}

static GstFlowReturn copy_frame(GstDmabufCudaImport *self, const Settings &settings, GstBuffer *in,
                                ImportSession::Imported *imported) {
  Importer *m = self->importer;
  const auto interrupted = [self] { return self->importer->interrupted || goesDown(GST_ELEMENT(self)); };
  auto fences = frameFences(in, Access::Read);
  if ((!fences || !fences->none()) && waitPoint("import-host-fences")) {
    ++m->counters->fence_waits;
    const Result<FenceResult> end =
        fences ? waitForFences(fences.take(), std::chrono::milliseconds(settings.fence_timeout), interrupted)
               : Result<FenceResult>(fences.error());
    if (!end || end->outcome == FenceOutcome::Failed) ++m->counters->fence_errors;
    if (end && end->outcome == FenceOutcome::TimedOut) ++m->counters->fence_timeouts;
    if (const GstFlowReturn flow = judge(self, settings, end); flow != GST_FLOW_OK) return flow;
  }
  auto copied = m->session->copyFromHost(in, m->in, interrupted);
  if (!copied) {
    if (copied.error().code == ECANCELED && interrupted()) return GST_FLOW_FLUSHING;
    post_error(self, copied.error());
    return GST_FLOW_ERROR;
  }
  *imported = copied.take();
  return GST_FLOW_OK;
}

static GstFlowReturn get_memory(GstDmabufCudaImport *self, GstBuffer *in, ImportSession::Imported *imported) {
  const Settings settings = settings_of(self);
  const auto layout = frameLayout(in, self->importer->in);
  if (!layout) {
    const std::string text = layout.error().message();
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("Frame refused: %s", text.c_str()), ("%" GST_PTR_FORMAT, in));
    return GST_FLOW_ERROR;
  }
  if (!layout->allDmaBuf()) {
    if (self->importer->allow_copy) return copy_frame(self, settings, in, imported);
    post_error(self, {"a frame in memory that is no dma-buf", 0,
                      "Put dmabufupload before this element, or set allow-copy=true"});
    return GST_FLOW_ERROR;
  }
  const auto source = importSource(in, *layout);
  if (source) return import_frame(self, settings, in, *source, imported);
  if (self->importer->allow_copy && source.error().code == EOPNOTSUPP && layout->caps.linear())
    return copy_frame(self, settings, in, imported);
  post_error(self, source.error());
  return GST_FLOW_ERROR;
}

static GstFlowReturn gst_dmabuf_cuda_import_prepare_output_buffer(GstBaseTransform *trans, GstBuffer *in,
                                                                  GstBuffer **out) {
  GstDmabufCudaImport *self = SELF(trans);
  Importer *m = self->importer;
  ++m->frames;
  if (m->failed) return GST_FLOW_ERROR; // an error was posted
  ImportSession::Imported imported;
  if (const GstFlowReturn flow = get_memory(self, in, &imported); flow != GST_FLOW_OK) return flow;

  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer, imported.memory);
  copyFrameMetadata(buffer, in);
  const GstVideoMeta *meta = gst_buffer_get_video_meta(in);
  const GstVideoInfo *info = &imported.info;
  gst_buffer_add_video_meta_full(buffer, meta != nullptr ? meta->flags : GST_VIDEO_FRAME_FLAG_NONE,
                                 GST_VIDEO_INFO_FORMAT(info), GST_VIDEO_INFO_WIDTH(info), GST_VIDEO_INFO_HEIGHT(info),
                                 GST_VIDEO_INFO_N_PLANES(info), info->offset, info->stride);
  if (imported.event != nullptr) {
    gst_buffer_add_zc_event_meta(buffer, imported.event, m->frames);
    gst_zc_device_event_unref(imported.event);
  }
  *out = buffer;
  return GST_FLOW_OK;
}

static GstFlowReturn gst_dmabuf_cuda_import_transform(GstBaseTransform *, GstBuffer *, GstBuffer *) {
  return GST_FLOW_OK; // all is done where the buffer is made
}

// ---- object ----

static GstStructure *make_stats(GstDmabufCudaImport *self) {
  Importer *m = self->importer;
  ImportCache::Counters cache;
  guint64 pending = 0;
  std::vector<RouteReport> reports;
  std::shared_ptr<ImportSession::Counters> counters;
  {
    const std::lock_guard lock(m->mutex);
    cache = m->session ? m->session->imports().counters() : m->last_cache;
    pending = m->session ? m->session->pendingFrames() : 0;
    reports = m->reports;
    counters = m->counters;
  }
  if (!counters) counters = std::make_shared<ImportSession::Counters>();
  GstStructure *stats = gst_structure_new_empty("stats");
  const auto add = [&](const char *name, guint64 value) {
    gst_structure_set(stats, name, G_TYPE_UINT64, value, nullptr);
  };
  add("frames", m->frames);
  add("dropped", m->dropped);
  add("imports", cache.imports);
  add("hits", cache.hits);
  add("entries", cache.entries);
  add("copies", counters->copies);
  add("bytes-copied", counters->bytes_copied);
  add("fence-waits", counters->fence_waits);
  add("fence-timeouts", counters->fence_timeouts);
  add("fence-errors", counters->fence_errors);
  add("retired", counters->retired);
  add("pending", pending);
  GValue routes = routeReportsValue(reports);
  gst_structure_take_value(stats, "routes", &routes);
  return stats;
}

static void gst_dmabuf_cuda_import_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  GstDmabufCudaImport *self = SELF(object);
  Importer *m = self->importer;
  const Settings settings = settings_of(self);
  switch (id) {
  case PROP_ROUTE: g_value_set_string(value, settings.route.c_str()); break;
  case PROP_ALLOW_COPY: g_value_set_boolean(value, settings.allow_copy); break;
  case PROP_FENCE_TIMEOUT: g_value_set_uint(value, settings.fence_timeout); break;
  case PROP_ON_FENCE_ERROR: g_value_set_enum(value, settings.on_fence_error); break;
  case PROP_DEVICE_ID: g_value_set_int(value, settings.device); break;
  case PROP_CHOSEN_ROUTE: {
    const std::lock_guard lock(m->mutex);
    g_value_set_string(value, m->chosen_route.empty() ? nullptr : m->chosen_route.c_str());
    break;
  }
  case PROP_STATS: g_value_take_boxed(value, make_stats(self)); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
}

static void gst_dmabuf_cuda_import_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  GstDmabufCudaImport *self = SELF(object);
  Settings *settings = &self->importer->settings;
  GST_OBJECT_LOCK(self);
  switch (id) {
  case PROP_ROUTE: settings->route = g_value_get_string(value) != nullptr ? g_value_get_string(value) : "auto"; break;
  case PROP_ALLOW_COPY: settings->allow_copy = g_value_get_boolean(value); break;
  case PROP_FENCE_TIMEOUT: settings->fence_timeout = g_value_get_uint(value); break;
  case PROP_ON_FENCE_ERROR: settings->on_fence_error = static_cast<GstZcOnFenceError>(g_value_get_enum(value)); break;
  case PROP_DEVICE_ID: settings->device = g_value_get_int(value); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_dmabuf_cuda_import_dispose(GObject *object) {
  drop_context(SELF(object)->importer); // one that was set and never used
  G_OBJECT_CLASS(parent_class)->dispose(object);
}

static void gst_dmabuf_cuda_import_finalize(GObject *object) {
  delete SELF(object)->importer;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_dmabuf_cuda_import_class_init(GstDmabufCudaImportClass *klass) {
  GObjectClass *object_class = G_OBJECT_CLASS(klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS(klass);

  object_class->get_property = gst_dmabuf_cuda_import_get_property;
  object_class->set_property = gst_dmabuf_cuda_import_set_property;
  object_class->dispose = gst_dmabuf_cuda_import_dispose;
  object_class->finalize = gst_dmabuf_cuda_import_finalize;

  const auto ready = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto readable = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_property(
      object_class, PROP_ROUTE,
      g_param_spec_string("route", "Route",
                          "How dma-bufs become memory of the device: auto tries, in this order, dmabuf-fd, egl-image, "
                          "host-register, vulkan-bridge and, with allow-copy, staged-copy; a name is this one only",
                          "auto", ready));
  g_object_class_install_property(
      object_class, PROP_ALLOW_COPY,
      g_param_spec_boolean("allow-copy", "Allow copy",
                           "Copy frames with the CPU that cannot be imported; counted in the statistics", FALSE,
                           ready));
  g_object_class_install_property(object_class, PROP_FENCE_TIMEOUT, fenceTimeoutSpec());
  g_object_class_install_property(object_class, PROP_ON_FENCE_ERROR, onFenceErrorSpec());
  g_object_class_install_property(object_class, PROP_DEVICE_ID,
                                  g_param_spec_int("cuda-device-id", "CUDA device id",
                                                   "The device to import on (-1: that of the pipeline, else the first)",
                                                   -1, G_MAXINT, -1, ready));
  g_object_class_install_property(object_class, PROP_CHOSEN_ROUTE,
                                  g_param_spec_string("chosen-route", "Chosen route",
                                                      "The route that frames take; none before the first frame",
                                                      nullptr, readable));
  g_object_class_install_property(
      object_class, PROP_STATS,
      g_param_spec_boxed("stats", "Statistics",
                         "Counters since the last start: frames, dropped, imports (made), hits (frames whose import "
                         "was known), entries (imports now), copies, bytes-copied, fence-waits (frames that came with "
                         "fences), fence-timeouts, fence-errors, retired (frames given back after the device was "
                         "done), pending (frames that the device still uses); and routes: what was found of each",
                         GST_TYPE_STRUCTURE, readable));

  GstCaps *sink = importSinkCaps(), *src = importSrcCaps();
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink));
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, src));
  gst_caps_unref(sink);
  gst_caps_unref(src);
  gst_element_class_set_static_metadata(element_class, "dma-buf to CUDA importer", "Filter/Video/Hardware",
                                        "dma-bufs as memory of a CUDA device, without copies",
                                        "gst-zerocopy developers");
  element_class->change_state = gst_dmabuf_cuda_import_change_state;
  element_class->set_context = gst_dmabuf_cuda_import_set_context;

  trans_class->passthrough_on_same_caps = FALSE;
  trans_class->start = gst_dmabuf_cuda_import_start;
  trans_class->stop = gst_dmabuf_cuda_import_stop;
  trans_class->query = gst_dmabuf_cuda_import_query;
  trans_class->transform_caps = gst_dmabuf_cuda_import_transform_caps;
  trans_class->sink_event = gst_dmabuf_cuda_import_sink_event;
  trans_class->accept_caps = gst_dmabuf_cuda_import_accept_caps;
  trans_class->set_caps = gst_dmabuf_cuda_import_set_caps;
  trans_class->decide_allocation = gst_dmabuf_cuda_import_decide_allocation;
  trans_class->propose_allocation = gst_dmabuf_cuda_import_propose_allocation;
  trans_class->prepare_output_buffer = gst_dmabuf_cuda_import_prepare_output_buffer;
  trans_class->transform = gst_dmabuf_cuda_import_transform;
}

static void gst_dmabuf_cuda_import_init(GstDmabufCudaImport *self) { self->importer = new Importer; }
