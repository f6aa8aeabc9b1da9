// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcpool
 * @title: GstZcPool
 * @short_description: Pool of linear video frames in dma-bufs
 * @see_also: #GstZcAllocator, #GstVideoBufferPool
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcpool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/held_buffers.h"
#include "gst/zerocopy/stride_align.h"

GST_DEBUG_CATEGORY_STATIC(gst_zc_pool_debug);
#define GST_CAT_DEFAULT gst_zc_pool_debug

struct _GstZcPool {
  GstBufferPool parent;
  struct GstZcPoolPrivate *priv;
};

struct _GstZcPoolClass {
  GstBufferPoolClass parent_class;
};

struct GstZcPoolPrivate {
  GstAllocator *own_allocator = nullptr; // owned
  guint stride_align = GST_ZC_DEFAULT_STRIDE_ALIGN;

  std::mutex lock; // of what follows; alloc_buffer() runs in whatever thread acquires
  GstVideoAlignment least = {};
  GstAllocator *allocator = nullptr; // owned, of the present configuration
  GstAllocationParams params = {};
  GstVideoInfo info = {};
  GstVideoAlignment alignment = {};
  std::string last_error;

  std::atomic<guint64> allocated{0}, delayed{0}, discarded{0};
  std::atomic<GstClockTime> fence_timeout{GST_ZC_POOL_DEFAULT_FENCE_TIMEOUT};
  std::optional<gstzc::HeldBuffers> held; // as long as the pool lives
};

namespace {

// What devices still do with a buffer that is released. Stands on the buffer between its reset, which takes off the
// metas that tell, and its release.
struct Pending {
  std::vector<gstzc::Fence> fences;
  bool broken = false; // nobody can tell
};

GQuark pending_quark() {
  static GQuark quark = g_quark_from_static_string("gst-zc-pool-pending");
  return quark;
}

void free_pending(gpointer pending) { delete static_cast<Pending *>(pending); }

// A user's allocator is taken if it makes dma-bufs; elements that know nothing of them pass their default one, or none.
bool usable(GstAllocator *allocator) {
  return allocator != nullptr && GST_IS_DMABUF_ALLOCATOR(allocator) &&
         !GST_OBJECT_FLAG_IS_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstZcMemoryNeed need_of(GstAllocator *allocator) {
  return GST_IS_ZC_ALLOCATOR(allocator) ? gst_zc_allocator_get_need(GST_ZC_ALLOCATOR(allocator))
                                        : GST_ZC_MEMORY_NEED_ANY;
}

void merge_alignment(GstVideoAlignment *into, const GstVideoAlignment *other) {
  into->padding_top = std::max(into->padding_top, other->padding_top);
  into->padding_bottom = std::max(into->padding_bottom, other->padding_bottom);
  into->padding_left = std::max(into->padding_left, other->padding_left);
  into->padding_right = std::max(into->padding_right, other->padding_right);
  for (guint p = 0; p < GST_VIDEO_MAX_PLANES; ++p) into->stride_align[p] |= other->stride_align[p];
}

// gst_video_info_align() adds sides up in 32 bits and takes what wraps round for small
bool padding_possible(const GstVideoAlignment *alignment) {
  constexpr guint kMax = gstzc::kMaxFrameSide;
  return alignment->padding_top <= kMax && alignment->padding_bottom <= kMax && alignment->padding_left <= kMax &&
         alignment->padding_right <= kMax;
}

} // namespace

#define gst_zc_pool_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstZcPool, gst_zc_pool, GST_TYPE_BUFFER_POOL,
                        GST_DEBUG_CATEGORY_INIT(gst_zc_pool_debug, "zcpool", 0, "pool of frames in dma-bufs"))

static const gchar **gst_zc_pool_get_options(GstBufferPool *) {
  static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT, nullptr};
  return options;
}

// Keeps the reason for gst_zc_pool_dup_last_error(). With the lock held.
static gboolean refuse(GstZcPool *self, const std::string &why, const GstCaps *caps) {
  gchar *text = caps != nullptr ? gst_caps_to_string(caps) : nullptr;
  self->priv->last_error = text != nullptr ? why + " (" + text + ")" : why;
  g_free(text);
  GST_WARNING_OBJECT(self, "configuration refused: %s", self->priv->last_error.c_str());
  return FALSE;
}

static gboolean gst_zc_pool_set_config(GstBufferPool *pool, GstStructure *config) {
  GstZcPool *self = GST_ZC_POOL(pool);
  GstCaps *caps = nullptr;
  guint size = 0, min = 0, max = 0;
  std::lock_guard guard(self->priv->lock);
  if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || caps == nullptr)
    return refuse(self, "a configuration without caps", nullptr);
  auto parsed = gstzc::parseFrameCaps(caps);
  if (!parsed) return refuse(self, parsed.error().message(), nullptr);
  GstVideoInfo info = parsed->info;
  if (!parsed->linear() || GST_VIDEO_FORMAT_INFO_IS_TILED(info.finfo))
    return refuse(self, "tiled frames cannot be laid out here", caps);
  if (GST_VIDEO_INFO_SIZE(&info) == 0) return refuse(self, "no GStreamer format has this layout", caps);
  if (size != 0 && size < GST_VIDEO_INFO_SIZE(&info))
    return refuse(self,
                  "a size of " + std::to_string(size) + " bytes, but a frame has " +
                      std::to_string(GST_VIDEO_INFO_SIZE(&info)),
                  caps);

  GstAllocator *allocator = nullptr;
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  gst_buffer_pool_config_get_allocator(config, &allocator, &params);
  if (!usable(allocator) || need_of(allocator) < need_of(self->priv->own_allocator))
    allocator = self->priv->own_allocator;

  GstVideoAlignment alignment;
  gst_video_alignment_reset(&alignment);
  if (gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META)) {
    if (gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT)) {
      GstVideoAlignment asked;
      gst_video_alignment_reset(&asked);
      if (gst_buffer_pool_config_get_video_alignment(config, &asked)) merge_alignment(&alignment, &asked);
    }
    merge_alignment(&alignment, &self->priv->least);
    GstVideoAlignment own;
    gst_video_alignment_reset(&own);
    gstzc::strideMasks(info, self->priv->stride_align, own.stride_align);
    merge_alignment(&alignment, &own);
    if (!padding_possible(&alignment) || !gst_video_info_align(&info, &alignment))
      return refuse(self, "an alignment that cannot be met", caps);
    // told back, so that the user knows what it gets
    if (gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT))
      gst_buffer_pool_config_set_video_alignment(config, &alignment);
  }
  if (GST_VIDEO_INFO_SIZE(&info) > G_MAXUINT)
    return refuse(self, "frames of " + std::to_string(GST_VIDEO_INFO_SIZE(&info)) + " bytes", caps);
  GST_VIDEO_INFO_SIZE(&info) = std::max<gsize>(size, GST_VIDEO_INFO_SIZE(&info));

  gst_object_replace(reinterpret_cast<GstObject **>(&self->priv->allocator), GST_OBJECT_CAST(allocator));
  self->priv->params = params;
  self->priv->info = info;
  self->priv->alignment = alignment;
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&info)), min, max);
  gst_buffer_pool_config_set_allocator(config, allocator, &params);
  return GST_BUFFER_POOL_CLASS(parent_class)->set_config(pool, config);
}

static GstFlowReturn gst_zc_pool_alloc_buffer(GstBufferPool *pool, GstBuffer **buffer, GstBufferPoolAcquireParams *) {
  GstZcPool *self = GST_ZC_POOL(pool);
  std::lock_guard guard(self->priv->lock);
  const GstVideoInfo *info = &self->priv->info;

  GstMemory *memory;
  GError *error = nullptr;
  if (GST_IS_ZC_ALLOCATOR(self->priv->allocator))
    memory = gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(self->priv->allocator), GST_VIDEO_INFO_SIZE(info),
                                        &self->priv->params, &error);
  else
    memory = gst_allocator_alloc(self->priv->allocator, GST_VIDEO_INFO_SIZE(info), &self->priv->params);
  if (memory == nullptr) {
    self->priv->last_error = error != nullptr ? error->message : "the allocator failed";
    g_clear_error(&error);
    GST_WARNING_OBJECT(self, "%s", self->priv->last_error.c_str());
    return GST_FLOW_ERROR;
  }

  *buffer = gst_buffer_new();
  gst_buffer_append_memory(*buffer, memory);
  GstVideoMeta *meta = gst_buffer_add_video_meta_full(*buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                                      GST_VIDEO_INFO_WIDTH(info), GST_VIDEO_INFO_HEIGHT(info),
                                                      GST_VIDEO_INFO_N_PLANES(info), info->offset, info->stride);
  gst_video_meta_set_alignment(meta, self->priv->alignment);
  ++self->priv->allocated;
  return GST_FLOW_OK;
}

static gboolean gst_zc_pool_start(GstBufferPool *pool) {
  if (GST_BUFFER_POOL_CLASS(parent_class)->start(pool)) return TRUE;
  GST_BUFFER_POOL_CLASS(parent_class)->stop(pool); // the buffers before the one that failed would leak
  return FALSE;
}

static gboolean gst_zc_pool_stop(GstBufferPool *pool) {
  // what is held is neither with a user nor with the parent, which has to have all of them to stop
  GST_ZC_POOL(pool)->priv->held->takeBack();
  return GST_BUFFER_POOL_CLASS(parent_class)->stop(pool);
}

static void gst_zc_pool_reset_buffer(GstBufferPool *pool, GstBuffer *buffer) {
  // other memory than it was allocated with: it will be freed, which needs no waiting
  if (!GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_TAG_MEMORY)) {
    auto fences = gstzc::frameFences(buffer, gstzc::Access::ReadWrite);
    if (!fences) GST_WARNING_OBJECT(pool, "%s", fences.error().message().c_str());
    if (!fences || !fences->none()) {
      auto pending = std::make_unique<Pending>();
      pending->broken = !fences;
      if (fences) pending->fences = std::move(*fences).take();
      gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(buffer), pending_quark(), pending.release(), free_pending);
    }
  }
  GST_BUFFER_POOL_CLASS(parent_class)->reset_buffer(pool, buffer);
}

// To the parent, which puts it into its queue, or frees it because its memory is said to have changed.
static void give_back(GstZcPool *self, GstBuffer *buffer, bool intact) {
  if (!intact) {
    ++self->priv->discarded;
    GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_TAG_MEMORY);
  }
  GST_BUFFER_POOL_CLASS(parent_class)->release_buffer(GST_BUFFER_POOL_CAST(self), buffer);
}

static void gst_zc_pool_release_buffer(GstBufferPool *pool, GstBuffer *buffer) {
  GstZcPool *self = GST_ZC_POOL(pool);
  const std::unique_ptr<Pending> pending(
      static_cast<Pending *>(gst_mini_object_steal_qdata(GST_MINI_OBJECT_CAST(buffer), pending_quark())));
  if (!pending || pending->broken) {
    give_back(self, buffer, !pending);
    return;
  }
  ++self->priv->delayed;
  // far enough for "never", without overflow
  const GstClockTime timeout = std::min<GstClockTime>(self->priv->fence_timeout, 24 * 3600 * GST_SECOND);
  self->priv->held->hold(buffer, std::move(pending->fences), std::chrono::nanoseconds(timeout));
}

static void on_fences_over(GstZcPool *self, GstBuffer *buffer, const gstzc::FenceResult &result) {
  const bool over = result.outcome == gstzc::FenceOutcome::Signalled;
  const bool stopping = result.outcome == gstzc::FenceOutcome::Cancelled;
  if (!over && !stopping)
    GST_WARNING_OBJECT(self, "frame given up that a device used when it was released: %s", std::strerror(result.error));
  give_back(self, buffer, over || stopping);
}

static void gst_zc_pool_finalize(GObject *object) {
  GstZcPool *self = GST_ZC_POOL(object);
  gst_clear_object(&self->priv->allocator);
  gst_clear_object(&self->priv->own_allocator);
  delete self->priv;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_zc_pool_class_init(GstZcPoolClass *klass) {
  G_OBJECT_CLASS(klass)->finalize = gst_zc_pool_finalize;
  GST_BUFFER_POOL_CLASS(klass)->get_options = gst_zc_pool_get_options;
  GST_BUFFER_POOL_CLASS(klass)->set_config = gst_zc_pool_set_config;
  GST_BUFFER_POOL_CLASS(klass)->alloc_buffer = gst_zc_pool_alloc_buffer;
  GST_BUFFER_POOL_CLASS(klass)->start = gst_zc_pool_start;
  GST_BUFFER_POOL_CLASS(klass)->stop = gst_zc_pool_stop;
  GST_BUFFER_POOL_CLASS(klass)->reset_buffer = gst_zc_pool_reset_buffer;
  GST_BUFFER_POOL_CLASS(klass)->release_buffer = gst_zc_pool_release_buffer;
}

static void gst_zc_pool_init(GstZcPool *self) {
  self->priv = new GstZcPoolPrivate;
  gst_video_alignment_reset(&self->priv->least);
  self->priv->held.emplace(
      [self](GstBuffer *buffer, const gstzc::FenceResult &result) { on_fences_over(self, buffer, result); });
}

/**
 * gst_zc_pool_new:
 * @allocator: (transfer none): makes the frames; a #GstZcAllocator or another #GstDmaBufAllocator that implements
 *   gst_allocator_alloc()
 * @stride_align: bytes that strides are a multiple of, a power of two; 0 for %GST_ZC_DEFAULT_STRIDE_ALIGN, 1 for
 *   GStreamer's default strides
 *
 * Returns: (transfer full): a pool, to be configured
 *
 * Since: 0.1
 */
GstBufferPool *gst_zc_pool_new(GstAllocator *allocator, guint stride_align) {
  g_return_val_if_fail(GST_IS_DMABUF_ALLOCATOR(allocator), nullptr);
  g_return_val_if_fail(!GST_OBJECT_FLAG_IS_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC), nullptr);
  g_return_val_if_fail(stride_align == 0 || gstzc::isPowerOfTwo(stride_align), nullptr);
  auto *self = static_cast<GstZcPool *>(g_object_new(GST_TYPE_ZC_POOL, nullptr));
  gst_object_ref_sink(self);
  self->priv->own_allocator = GST_ALLOCATOR_CAST(gst_object_ref(allocator));
  if (stride_align != 0) self->priv->stride_align = stride_align;
  return GST_BUFFER_POOL_CAST(self);
}

/**
 * gst_zc_pool_set_alignment:
 * @self: a #GstZcPool without a configuration
 * @alignment: padding in pixels and stride masks
 *
 * What every configuration with %GST_BUFFER_POOL_OPTION_VIDEO_META gets at least, whatever its user asks for: the needs
 * of an element that is not the user.
 *
 * Since: 0.1
 */
void gst_zc_pool_set_alignment(GstZcPool *self, const GstVideoAlignment *alignment) {
  g_return_if_fail(GST_IS_ZC_POOL(self));
  g_return_if_fail(alignment != nullptr);
  std::lock_guard guard(self->priv->lock);
  self->priv->least = *alignment;
}

/**
 * gst_zc_pool_get_n_allocated:
 * @self: a #GstZcPool
 *
 * Returns: how many buffers it has allocated so far, also those that are gone
 *
 * Since: 0.1
 */
guint64 gst_zc_pool_get_n_allocated(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), 0);
  return self->priv->allocated;
}

/**
 * gst_zc_pool_set_fence_timeout:
 * @self: a #GstZcPool
 * @timeout: how long a released buffer may stay in use by devices until it is given up
 *
 * %GST_ZC_POOL_DEFAULT_FENCE_TIMEOUT unless set. Counts for buffers that are released from now on.
 *
 * Since: 0.1
 */
void gst_zc_pool_set_fence_timeout(GstZcPool *self, GstClockTime timeout) {
  g_return_if_fail(GST_IS_ZC_POOL(self));
  self->priv->fence_timeout = timeout;
}

/**
 * gst_zc_pool_get_n_delayed:
 * @self: a #GstZcPool
 *
 * Returns: how many times a released buffer was held back because a device still used it
 *
 * Since: 0.1
 */
guint64 gst_zc_pool_get_n_delayed(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), 0);
  return self->priv->delayed;
}

/**
 * gst_zc_pool_get_n_discarded:
 * @self: a #GstZcPool
 *
 * Returns: how many buffers were freed instead of recycled because a device failed or did not come to an end
 *
 * Since: 0.1
 */
guint64 gst_zc_pool_get_n_discarded(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), 0);
  return self->priv->discarded;
}

/**
 * gst_zc_pool_get_n_held:
 * @self: a #GstZcPool
 *
 * Returns: how many buffers are held back at this moment
 *
 * Since: 0.1
 */
guint gst_zc_pool_get_n_held(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), 0);
  return static_cast<guint>(self->priv->held->size());
}

/**
 * gst_zc_pool_dup_last_error:
 * @self: a #GstZcPool
 *
 * Returns: (transfer full) (nullable): why the last configuration or allocation that failed did, for the user
 *
 * Since: 0.1
 */
gchar *gst_zc_pool_dup_last_error(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), nullptr);
  std::lock_guard guard(self->priv->lock);
  return self->priv->last_error.empty() ? nullptr : g_strdup(self->priv->last_error.c_str());
}
