// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:element-dmabufupload
 * @title: dmabufupload
 * @short_description: lets software producers write straight into dma-bufs
 *
 * Frames from system memory leave as linear DMA_DRM dma-bufs. The element offers upstream a pool of dma-bufs; a
 * producer that takes it writes into memory that displays and GPUs can import, and no byte is copied. Frames that
 * arrive in other memory are copied once, and counted.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc ! video/x-raw,format=NV12 ! dmabufupload ! kmssink
 * ]|
 *
 * Since: 0.1
 */
#include "gst/upload/gstdmabufupload.h"

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <mutex>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/upload/downstream_pool.h"
#include "gst/upload/upload_caps.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "gst/zerocopy/shallow_copy.h"

GST_DEBUG_CATEGORY_STATIC(gst_dmabuf_upload_debug);
#define GST_CAT_DEFAULT gst_dmabuf_upload_debug

using namespace gstzc;

namespace {

constexpr guint kMaxStrideAlign = 4096; // a page: more than any device asks for

struct Settings {
  GstZcMemorySource memory = GST_ZC_MEMORY_SOURCE_AUTO;
  std::string heap_name = "system";
  guint stride_align = GST_ZC_DEFAULT_STRIDE_ALIGN;
};

struct PoolCounts {
  guint64 buffers = 0, delayed = 0, discarded = 0;
};

struct Stats {
  std::atomic<guint64> frames{0}, passed{0}, copies{0}, bytes_copied{0};
};

struct Upload {
  Settings settings; // under the object lock

  std::mutex allocation_lock; // a pad that is deactivated still answers ALLOCATION: stop() and that may meet
  // streaming thread (and start/stop, when there is none)
  GstAllocator *allocator = nullptr; // null: `open_error` says why
  GstZcMemoryNeed allocator_need = GST_ZC_MEMORY_NEED_ANY;
  std::string open_error;
  GstResourceError open_code = GST_RESOURCE_ERROR_NOT_FOUND;
  FrameCaps in, out;
  GstCaps *in_caps = nullptr, *out_caps = nullptr;
  DownstreamWishes downstream;
  bool copy_told = false;

  std::mutex pools_lock;              // of the pointers below: properties and state changes look at them
  GstBufferPool *offered = nullptr;   // our pool that upstream was offered last
  GstBufferPool *copy_pool = nullptr; // active, for frames that have to be copied: ours or downstream's
  PoolCounts old_pools;               // of pools that are gone

  std::atomic<bool> interrupted{false}; // by a flush or the end: nothing may wait

  Stats stats;
};

enum { PROP_0, PROP_MEMORY, PROP_HEAP_NAME, PROP_STRIDE_ALIGN, PROP_STATS };

void add_counts(PoolCounts *counts, GstBufferPool *pool) {
  if (pool == nullptr || !GST_IS_ZC_POOL(pool)) return;
  counts->buffers += gst_zc_pool_get_n_allocated(GST_ZC_POOL(pool));
  counts->delayed += gst_zc_pool_get_n_delayed(GST_ZC_POOL(pool));
  counts->discarded += gst_zc_pool_get_n_discarded(GST_ZC_POOL(pool));
}

// False for memory that is known not to meet the need. Of other memory its device tells.
bool meets_need(GstBuffer *buffer, GstZcMemoryNeed need) {
  if (need == GST_ZC_MEMORY_NEED_ANY) return true;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) {
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    const GstZcMemoryTraits traits = gst_zc_memory_get_traits(memory);
    const bool known =
        gst_is_zc_memory(memory) ? gst_zc_memory_get_source(memory) != GST_ZC_MEMORY_SOURCE_DMA_HEAP : traits != 0;
    if (known && (traits & GST_ZC_MEMORY_TRAIT_CONTIGUOUS) == 0) return false;
  }
  return true;
}

} // namespace

struct _GstDmabufUpload {
  GstBaseTransform parent;
  Upload *upload;
};

#define gst_dmabuf_upload_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstDmabufUpload, gst_dmabuf_upload, GST_TYPE_BASE_TRANSFORM,
                        GST_DEBUG_CATEGORY_INIT(gst_dmabuf_upload_debug, "dmabufupload", 0, "dmabufupload element"))
GST_ELEMENT_REGISTER_DEFINE(dmabufupload, "dmabufupload", GST_RANK_NONE, GST_TYPE_DMABUF_UPLOAD)

static void replace_pool(Upload *u, GstBufferPool **where, GstBufferPool *pool) {
  GstBufferPool *old;
  {
    std::lock_guard guard(u->pools_lock);
    old = *where;
    *where = pool;
    add_counts(&u->old_pools, old);
  }
  gst_clear_object(&old);
}

static void drop_copy_pool(Upload *u) {
  if (u->copy_pool != nullptr) gst_buffer_pool_set_active(u->copy_pool, FALSE);
  replace_pool(u, &u->copy_pool, nullptr);
}

// Has a streaming thread come back that waits for a buffer or for a fence.
static void set_flushing(Upload *u, gboolean flushing) {
  u->interrupted = flushing;
  GstBufferPool *pool = nullptr;
  {
    std::lock_guard guard(u->pools_lock);
    if (u->copy_pool != nullptr) pool = GST_BUFFER_POOL_CAST(gst_object_ref(u->copy_pool));
  }
  if (pool != nullptr && gst_buffer_pool_is_active(pool)) gst_buffer_pool_set_flushing(pool, flushing);
  gst_clear_object(&pool);
}

// ---- errors ----

static void post_no_memory(GstDmabufUpload *self, GstResourceError code, std::string why) {
  const DownstreamWishes &downstream = self->upload->downstream;
  if (downstream.need() == GST_ZC_MEMORY_NEED_CONTIGUOUS)
    why = downstream.needBy() + " needs physically contiguous memory: " + why;
  // gst_element_message_full and not GST_ELEMENT_ERROR: the code is a variable
  gst_element_message_full(GST_ELEMENT_CAST(self), GST_MESSAGE_ERROR, GST_RESOURCE_ERROR, code,
                           g_strdup_printf("Cannot allocate dma-bufs: %s", why.c_str()),
                           g_strdup("memory=memfd works everywhere, but is for tests only: its memory is no dma-buf"),
                           __FILE__, GST_FUNCTION, __LINE__);
}

// ---- life ----

// Of memory that meets the need; else there is none, and `open_error`.
static void open_allocator(GstDmabufUpload *self, GstZcMemoryNeed need) {
  Upload *u = self->upload;
  GST_OBJECT_LOCK(self);
  const Settings settings = u->settings;
  GST_OBJECT_UNLOCK(self);
  gst_clear_object(&u->allocator);
  u->allocator_need = need;
  u->open_error.clear();
  GError *error = nullptr;
  u->allocator = gst_zc_allocator_new_full(settings.memory, settings.heap_name.c_str(), need, &error);
  if (u->allocator != nullptr) return;
  u->open_error = error->message;
  u->open_code = static_cast<GstResourceError>(error->code);
  g_clear_error(&error);
}

static gboolean gst_dmabuf_upload_start(GstBaseTransform *trans) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  Upload *u = self->upload;
  GST_OBJECT_LOCK(self);
  const GstZcMemorySource memory = u->settings.memory;
  GST_OBJECT_UNLOCK(self);

  u->interrupted = false;
  u->stats.frames = u->stats.passed = u->stats.copies = u->stats.bytes_copied = 0;
  {
    std::lock_guard guard(u->pools_lock);
    u->old_pools = {};
  }
  open_allocator(self, GST_ZC_MEMORY_NEED_ANY);
  if (u->allocator != nullptr) return TRUE;
  if (memory == GST_ZC_MEMORY_SOURCE_AUTO) {
    // Frames that are dma-bufs already, and downstream's own pool, need no memory of ours: an error only with the first
    // frame that does.
    GST_INFO_OBJECT(self, "%s", u->open_error.c_str());
    return TRUE;
  }
  post_no_memory(self, u->open_code, u->open_error);
  return FALSE;
}

static gboolean gst_dmabuf_upload_stop(GstBaseTransform *trans) {
  Upload *u = GST_DMABUF_UPLOAD(trans)->upload;
  const std::lock_guard lock(u->allocation_lock);
  drop_copy_pool(u);
  replace_pool(u, &u->offered, nullptr);
  u->downstream.reset();
  gst_clear_caps(&u->in_caps);
  gst_clear_caps(&u->out_caps);
  gst_clear_object(&u->allocator);
  return TRUE;
}

static GstStateChangeReturn gst_dmabuf_upload_change_state(GstElement *element, GstStateChange transition) {
  // a streaming thread that waits for a buffer of a bounded pool downstream, or for a fence, has to come back first
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) set_flushing(GST_DMABUF_UPLOAD(element)->upload, TRUE);
  return GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
}

// ---- caps ----

static GstCaps *gst_dmabuf_upload_transform_caps(GstBaseTransform *, GstPadDirection direction, GstCaps *caps,
                                                 GstCaps *filter) {
  GstCaps *result = direction == GST_PAD_SINK ? uploadedCaps(caps) : uploadableCaps(caps);
  if (filter != nullptr) {
    GstCaps *filtered = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    result = filtered;
  }
  return result;
}

// Sizes of zero are outside the template. They are let in as far as sink_event(), which says what is wrong with them.
static bool has_zero_side(GstCaps *caps) {
  if (!gst_caps_is_fixed(caps)) return false;
  gint width = -1, height = -1;
  const GstStructure *structure = gst_caps_get_structure(caps, 0);
  gst_structure_get(structure, "width", G_TYPE_INT, &width, nullptr);
  gst_structure_get(structure, "height", G_TYPE_INT, &height, nullptr);
  return width == 0 || height == 0;
}

static gboolean gst_dmabuf_upload_accept_caps(GstBaseTransform *trans, GstPadDirection direction, GstCaps *caps) {
  if (direction == GST_PAD_SINK && has_zero_side(caps)) return TRUE;
  return GST_BASE_TRANSFORM_CLASS(parent_class)->accept_caps(trans, direction, caps);
}

static gboolean gst_dmabuf_upload_sink_event(GstBaseTransform *trans, GstEvent *event) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  switch (GST_EVENT_TYPE(event)) {
  case GST_EVENT_CAPS: {
    GstCaps *caps = nullptr;
    gst_event_parse_caps(event, &caps);
    if (has_zero_side(caps)) {
      const auto parsed = parseFrameCaps(caps);
      GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                        ("%s", parsed.ok() ? "caps of size zero" : parsed.error().message().c_str()), (nullptr));
      gst_event_unref(event);
      return FALSE;
    }
    break;
  }
  case GST_EVENT_FLUSH_START: set_flushing(self->upload, TRUE); break;
  case GST_EVENT_FLUSH_STOP: set_flushing(self->upload, FALSE); break;
  default: break;
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

static gboolean gst_dmabuf_upload_set_caps(GstBaseTransform *trans, GstCaps *in_caps, GstCaps *out_caps) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  Upload *u = self->upload;
  auto in = parseFrameCaps(in_caps), out = parseFrameCaps(out_caps);
  if (!in || !out) {
    const Error &error = in ? out.error() : in.error();
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("%s", error.message().c_str()), (nullptr));
    return FALSE;
  }
  u->in = *in;
  u->out = *out;
  gst_caps_replace(&u->in_caps, in_caps);
  gst_caps_replace(&u->out_caps, out_caps);
  drop_copy_pool(u);
  u->copy_told = false;
  return TRUE;
}

// ---- allocation ----

// Downstream answered. Its pool is taken out of the answer, so that the base class allocates no output buffers.
static gboolean gst_dmabuf_upload_decide_allocation(GstBaseTransform *trans, GstQuery *query) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  Upload *u = self->upload;
  drop_copy_pool(u);
  GST_OBJECT_LOCK(self);
  // a user that names the memory wants that, and not the display's
  const bool want_pool = u->settings.memory == GST_ZC_MEMORY_SOURCE_AUTO;
  GST_OBJECT_UNLOCK(self);
  u->downstream.read(query, want_pool, u->in_caps, u->in, u->out_caps, u->out);
  if (u->downstream.need() != u->allocator_need) open_allocator(self, u->downstream.need());
  if (u->downstream.pool() != nullptr)
    GST_DEBUG_OBJECT(self, "downstream's pool %" GST_PTR_FORMAT " is %s", u->downstream.pool(),
                     u->downstream.use() == PoolUse::Upstream ? "for upstream"
                     : u->downstream.use() == PoolUse::Copies ? "for copies only"
                                                              : "of no use here");

  while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
  guint index = 0;
  // announced to upstream with our own word; cropping by meta would have to be undone in a copy
  while (gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, &index))
    gst_query_remove_nth_allocation_meta(query, index);
  while (gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, &index))
    gst_query_remove_nth_allocation_meta(query, index);
  return TRUE;
}

static GstBufferPool *new_pool(GstDmabufUpload *self) {
  Upload *u = self->upload;
  GST_OBJECT_LOCK(self);
  const guint stride_align = u->settings.stride_align;
  GST_OBJECT_UNLOCK(self);
  GstBufferPool *pool = gst_zc_pool_new(u->allocator, stride_align);
  gst_zc_pool_set_alignment(GST_ZC_POOL(pool), &u->downstream.alignment());
  return pool;
}

static gboolean gst_dmabuf_upload_propose_allocation(GstBaseTransform *trans, GstQuery *decide_query, GstQuery *query) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  Upload *u = self->upload;
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->propose_allocation(trans, decide_query, query)) return FALSE;
  if (decide_query == nullptr) return TRUE; // passthrough: downstream has answered

  const std::lock_guard lock(u->allocation_lock);
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, u->downstream.metaParams());
  GstCaps *caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  const auto frame = parseFrameCaps(caps);
  if (!frame || GST_VIDEO_INFO_SIZE(&frame->info) > G_MAXUINT) return FALSE;

  if (u->downstream.use() == PoolUse::Upstream && gst_caps_is_equal(caps, u->in_caps)) {
    gst_query_add_allocation_pool(query, u->downstream.pool(), u->downstream.size(), u->downstream.min(),
                                  u->downstream.max());
    return TRUE;
  }
  // A pool that only we can fill: frames of ours would be foreign to downstream. Upstream's are copied into it.
  if (u->downstream.use() == PoolUse::Copies) return TRUE;
  if (u->allocator == nullptr) return TRUE; // upstream allocates itself, and if that needs a copy the error is told

  const guint size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&frame->info));
  // A producer whose pool cannot allocate fails without saying why. One that has no pool gets our error, with the
  // reason.
  GError *error = nullptr;
  GstMemory *trial = gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(u->allocator), size, nullptr, &error);
  if (trial == nullptr) {
    GST_WARNING_OBJECT(self, "no pool for upstream: %s", error->message);
    g_clear_error(&error);
    return TRUE;
  }
  gst_memory_unref(trial);

  gst_query_add_allocation_param(query, u->allocator, &u->downstream.params());
  if (!need_pool) return TRUE;
  GstBufferPool *pool = new_pool(self);
  GstStructure *config = gst_buffer_pool_get_config(pool);
  // without GST_BUFFER_POOL_OPTION_VIDEO_META: the user adds it when it can deal with strides
  gst_buffer_pool_config_set_params(config, caps, size, u->downstream.min(), 0);
  gst_buffer_pool_config_set_allocator(config, u->allocator, &u->downstream.params());
  if (!gst_buffer_pool_set_config(pool, config)) {
    gst_object_unref(pool);
    return TRUE;
  }
  // no upper limit: a queue behind us may hold any number of frames, and a producer must not wait for one forever
  gst_query_add_allocation_pool(query, pool, size, u->downstream.min(), 0);
  replace_pool(u, &u->offered, pool);
  return TRUE;
}

static GstFlowReturn ensure_copy_pool(GstDmabufUpload *self) {
  Upload *u = self->upload;
  if (u->copy_pool != nullptr) return GST_FLOW_OK;
  GstBufferPool *pool;
  if (u->downstream.use() != PoolUse::None) {
    pool = GST_BUFFER_POOL_CAST(gst_object_ref(u->downstream.pool()));
    if (!gst_buffer_pool_is_active(pool) &&
        !configurePool(pool, u->downstream.use() == PoolUse::Upstream ? u->in_caps : u->out_caps, u->downstream.size(),
                       u->downstream.min(), u->downstream.max())) {
      gst_object_unref(pool);
      GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS, ("The pool of the element downstream refuses its configuration"),
                        (nullptr));
      return GST_FLOW_ERROR;
    }
  } else {
    if (u->allocator == nullptr) {
      post_no_memory(self, u->open_code, u->open_error);
      return GST_FLOW_ERROR;
    }
    pool = new_pool(self);
    if (GST_VIDEO_INFO_SIZE(&u->out.info) > G_MAXUINT ||
        !configurePool(pool, u->out_caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&u->out.info)), 0, 0, u->allocator,
                       &u->downstream.params())) {
      gst_object_unref(pool);
      GST_ELEMENT_ERROR(
          self, STREAM, FORMAT,
          ("No dma-buf can be laid out for frames of %" G_GSIZE_FORMAT " bytes", GST_VIDEO_INFO_SIZE(&u->out.info)),
          ("%" GST_PTR_FORMAT, u->out_caps));
      return GST_FLOW_ERROR;
    }
  }
  if (!gst_buffer_pool_set_active(pool, TRUE)) {
    gchar *why = GST_IS_ZC_POOL(pool) ? gst_zc_pool_dup_last_error(GST_ZC_POOL(pool)) : nullptr;
    post_no_memory(self, GST_RESOURCE_ERROR_NO_SPACE_LEFT, why != nullptr ? why : "the pool cannot be activated");
    g_free(why);
    gst_object_unref(pool);
    return GST_FLOW_ERROR;
  }
  replace_pool(u, &u->copy_pool, pool);
  return GST_FLOW_OK;
}

// ---- frames ----

static GstFlowReturn copy_frame(GstDmabufUpload *self, GstBuffer *in, GstBuffer **out) {
  Upload *u = self->upload;
  if (const GstFlowReturn flow = ensure_copy_pool(self); flow != GST_FLOW_OK) return flow;
  GstBuffer *buffer = nullptr;
  const GstFlowReturn flow = gst_buffer_pool_acquire_buffer(u->copy_pool, &buffer, nullptr);
  if (flow != GST_FLOW_OK) {
    if (flow != GST_FLOW_FLUSHING) {
      gchar *why = GST_IS_ZC_POOL(u->copy_pool) ? gst_zc_pool_dup_last_error(GST_ZC_POOL(u->copy_pool)) : nullptr;
      post_no_memory(self, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
                     why != nullptr ? why : "the pool of the element downstream gives no buffer");
      g_free(why);
    }
    return flow;
  }
  const auto bytes = copyFrame(buffer, u->out, in, u->in, [u] { return u->interrupted.load(); });
  if (!bytes) {
    gst_buffer_unref(buffer);
    // a fence may fail with ECANCELED as well
    if (bytes.error().code == ECANCELED && u->interrupted) return GST_FLOW_FLUSHING;
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("Frame refused: %s", bytes.error().message().c_str()),
                      ("%" GST_PTR_FORMAT ", %" GST_PTR_FORMAT, in, u->in_caps));
    return GST_FLOW_ERROR;
  }
  copyFrameMetadata(buffer, in);
  ++u->stats.copies;
  u->stats.bytes_copied += *bytes;
  if (!u->copy_told) {
    GST_WARNING_OBJECT(self, "upstream does not write into dma-bufs: each frame is copied once");
    u->copy_told = true;
  }
  *out = buffer;
  return GST_FLOW_OK;
}

// The same memory leaves. Downstream relies on a GstVideoMeta, so one is added where the producer had none to say.
static GstBuffer *pass_frame(GstBuffer *in, const FrameLayout &layout) {
  if (gst_buffer_get_video_meta(in) != nullptr) return in;
  // a reference more for the copy to hold: the one to `in` stays with the base class
  GstBuffer *out = gst_buffer_is_writable(in) ? in : writableShallow(gst_buffer_ref(in));
  const GstVideoInfo *info = &layout.caps.info;
  gst_buffer_add_video_meta_full(out, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                 GST_VIDEO_INFO_WIDTH(info), GST_VIDEO_INFO_HEIGHT(info), GST_VIDEO_INFO_N_PLANES(info),
                                 info->offset, info->stride);
  return out;
}

static GstFlowReturn gst_dmabuf_upload_prepare_output_buffer(GstBaseTransform *trans, GstBuffer *in, GstBuffer **out) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(trans);
  Upload *u = self->upload;
  ++u->stats.frames;
  if (gst_base_transform_is_passthrough(trans)) {
    ++u->stats.passed;
    *out = in;
    return GST_FLOW_OK;
  }
  const auto layout = frameLayout(in, u->in);
  if (layout && layout->allDmaBuf() && meets_need(in, u->downstream.need())) {
    ++u->stats.passed;
    *out = pass_frame(in, *layout);
    return GST_FLOW_OK;
  }
  return copy_frame(self, in, out);
}

static GstFlowReturn gst_dmabuf_upload_transform(GstBaseTransform *, GstBuffer *, GstBuffer *) {
  return GST_FLOW_OK; // all is done where the buffer is chosen
}

// ---- object ----

static GstStructure *make_stats(GstDmabufUpload *self) {
  Upload *u = self->upload;
  PoolCounts pools;
  {
    std::lock_guard guard(u->pools_lock);
    pools = u->old_pools;
    add_counts(&pools, u->offered);
    add_counts(&pools, u->copy_pool);
  }
  return gst_structure_new("stats", "frames", G_TYPE_UINT64, u->stats.frames.load(), "passed", G_TYPE_UINT64,
                           u->stats.passed.load(), "copies", G_TYPE_UINT64, u->stats.copies.load(), "bytes-copied",
                           G_TYPE_UINT64, u->stats.bytes_copied.load(), "pool-buffers", G_TYPE_UINT64, pools.buffers,
                           "delayed", G_TYPE_UINT64, pools.delayed, "discarded", G_TYPE_UINT64, pools.discarded,
                           nullptr);
}

static void gst_dmabuf_upload_get_property(GObject *object, guint id, GValue *value, GParamSpec *pspec) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(object);
  Upload *u = self->upload;
  if (id == PROP_STATS) {
    g_value_take_boxed(value, make_stats(self));
    return;
  }
  GST_OBJECT_LOCK(self);
  switch (id) {
  case PROP_MEMORY: g_value_set_enum(value, u->settings.memory); break;
  case PROP_HEAP_NAME: g_value_set_string(value, u->settings.heap_name.c_str()); break;
  case PROP_STRIDE_ALIGN: g_value_set_uint(value, u->settings.stride_align); break;
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_dmabuf_upload_set_property(GObject *object, guint id, const GValue *value, GParamSpec *pspec) {
  GstDmabufUpload *self = GST_DMABUF_UPLOAD(object);
  Upload *u = self->upload;
  GST_OBJECT_LOCK(self);
  switch (id) {
  case PROP_MEMORY: u->settings.memory = static_cast<GstZcMemorySource>(g_value_get_enum(value)); break;
  case PROP_HEAP_NAME: {
    const gchar *name = g_value_get_string(value);
    u->settings.heap_name = name != nullptr ? name : "system";
    break;
  }
  case PROP_STRIDE_ALIGN: {
    const guint align = g_value_get_uint(value);
    if ((align & (align - 1)) == 0)
      u->settings.stride_align = align;
    else
      g_warning("%s: stride-align=%u is no power of two; %u stays", GST_OBJECT_NAME(self), align,
                u->settings.stride_align);
    break;
  }
  default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_dmabuf_upload_finalize(GObject *object) {
  delete GST_DMABUF_UPLOAD(object)->upload;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_dmabuf_upload_class_init(GstDmabufUploadClass *klass) {
  GObjectClass *object_class = G_OBJECT_CLASS(klass);
  GstElementClass *element_class = GST_ELEMENT_CLASS(klass);
  GstBaseTransformClass *trans_class = GST_BASE_TRANSFORM_CLASS(klass);

  object_class->get_property = gst_dmabuf_upload_get_property;
  object_class->set_property = gst_dmabuf_upload_set_property;
  object_class->finalize = gst_dmabuf_upload_finalize;

  const auto flags = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  g_object_class_install_property(
      object_class, PROP_MEMORY,
      g_param_spec_enum("memory", "Memory",
                        "Where dma-bufs come from; auto: downstream's pool if it proposes one, else udmabuf, else "
                        "the dma-heap. memfd is for tests only: its memory is no dma-buf",
                        GST_TYPE_ZC_MEMORY_SOURCE, GST_ZC_MEMORY_SOURCE_AUTO, flags));
  g_object_class_install_property(object_class, PROP_HEAP_NAME,
                                  g_param_spec_string("heap-name", "Heap name",
                                                      "Name in /dev/dma_heap, for memory=dma-heap and auto", "system",
                                                      flags));
  g_object_class_install_property(
      object_class, PROP_STRIDE_ALIGN,
      g_param_spec_uint("stride-align", "Stride alignment",
                        "Bytes that strides are a multiple of, a power of two (1 = GStreamer's default strides)", 1,
                        kMaxStrideAlign, GST_ZC_DEFAULT_STRIDE_ALIGN, flags));
  g_object_class_install_property(
      object_class, PROP_STATS,
      g_param_spec_boxed("stats", "Statistics",
                         "Counters since the last start: frames, passed (with the memory they came in), copies, "
                         "bytes-copied, pool-buffers (allocated here), delayed (released while a device used them), "
                         "discarded (given up by their device)",
                         GST_TYPE_STRUCTURE, static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)));

  GstCaps *sink = uploadSinkCaps(), *src = uploadSrcCaps();
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink));
  gst_element_class_add_pad_template(element_class, gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, src));
  gst_caps_unref(sink);
  gst_caps_unref(src);
  gst_element_class_set_static_metadata(element_class, "dma-buf uploader", "Filter/Video",
                                        "Lets software producers write straight into dma-bufs",
                                        "gst-zerocopy developers");
  element_class->change_state = gst_dmabuf_upload_change_state;

  trans_class->passthrough_on_same_caps = TRUE;
  trans_class->start = gst_dmabuf_upload_start;
  trans_class->stop = gst_dmabuf_upload_stop;
  trans_class->transform_caps = gst_dmabuf_upload_transform_caps;
  trans_class->accept_caps = gst_dmabuf_upload_accept_caps;
  trans_class->sink_event = gst_dmabuf_upload_sink_event;
  trans_class->set_caps = gst_dmabuf_upload_set_caps;
  trans_class->decide_allocation = gst_dmabuf_upload_decide_allocation;
  trans_class->propose_allocation = gst_dmabuf_upload_propose_allocation;
  trans_class->prepare_output_buffer = gst_dmabuf_upload_prepare_output_buffer;
  trans_class->transform = gst_dmabuf_upload_transform;

  gst_type_mark_as_plugin_api(GST_TYPE_ZC_MEMORY_SOURCE, static_cast<GstPluginAPIFlags>(0));
}

static void gst_dmabuf_upload_init(GstDmabufUpload *self) { self->upload = new Upload; }
