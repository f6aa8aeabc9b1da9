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
#include <mutex>
#include <string>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"

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

  std::atomic<guint64> allocated{0};
};

namespace {

bool is_power_of_two(guint n) { return n != 0 && (n & (n - 1)) == 0; }

// Stride masks for `align` bytes in the first plane. Planes whose rows are shorter (the chroma of I420) get a
// proportionally smaller mask: the same one would double the stride of the luma.
void stride_masks(const GstVideoInfo *info, guint align, guint masks[GST_VIDEO_MAX_PLANES]) {
  const GstVideoFormatInfo *format = info->finfo;
  const gint first = std::max(GST_VIDEO_FORMAT_INFO_PSTRIDE(format, 0), 1);
  for (guint p = 0; p < GST_VIDEO_MAX_PLANES; ++p) {
    guint bytes = align;
    for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); ++c) {
      if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != p || GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c) == 0) continue;
      bytes = align * GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c) >> GST_VIDEO_FORMAT_INFO_W_SUB(format, c);
      bytes = std::clamp(bytes / first, 1u, align);
      break;
    }
    masks[p] = is_power_of_two(bytes) ? bytes - 1 : align - 1;
  }
}

void merge_alignment(GstVideoAlignment *into, const GstVideoAlignment *other) {
  into->padding_top = std::max(into->padding_top, other->padding_top);
  into->padding_bottom = std::max(into->padding_bottom, other->padding_bottom);
  into->padding_left = std::max(into->padding_left, other->padding_left);
  into->padding_right = std::max(into->padding_right, other->padding_right);
  for (guint p = 0; p < GST_VIDEO_MAX_PLANES; ++p) into->stride_align[p] |= other->stride_align[p];
}

} // namespace

#define gst_zc_pool_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstZcPool, gst_zc_pool, GST_TYPE_BUFFER_POOL,
                        GST_DEBUG_CATEGORY_INIT(gst_zc_pool_debug, "zcpool", 0, "pool of frames in dma-bufs"))

static const gchar **gst_zc_pool_get_options(GstBufferPool *) {
  static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT, nullptr};
  return options;
}

static gboolean gst_zc_pool_set_config(GstBufferPool *pool, GstStructure *config) {
  GstZcPool *self = GST_ZC_POOL(pool);
  GstCaps *caps = nullptr;
  guint size = 0, min = 0, max = 0;
  if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || caps == nullptr) {
    GST_WARNING_OBJECT(self, "configuration without caps");
    return FALSE;
  }
  auto parsed = gstzc::parseFrameCaps(caps);
  if (!parsed) {
    GST_WARNING_OBJECT(self, "%s", parsed.error().message().c_str());
    return FALSE;
  }
  GstVideoInfo info = parsed->info;
  if (!parsed->linear() || GST_VIDEO_FORMAT_INFO_IS_TILED(info.finfo)) {
    GST_WARNING_OBJECT(self, "tiled frames cannot be laid out here: %" GST_PTR_FORMAT, caps);
    return FALSE;
  }
  if (GST_VIDEO_INFO_SIZE(&info) == 0) {
    GST_WARNING_OBJECT(self, "no GStreamer format has this layout: %" GST_PTR_FORMAT, caps);
    return FALSE;
  }
  if (size != 0 && size < GST_VIDEO_INFO_SIZE(&info)) {
    GST_WARNING_OBJECT(self, "size %u, but a frame has %" G_GSIZE_FORMAT " bytes", size, GST_VIDEO_INFO_SIZE(&info));
    return FALSE;
  }

  GstAllocator *allocator = nullptr;
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  gst_buffer_pool_config_get_allocator(config, &allocator, &params);
  // a user's allocator is taken if it makes dma-bufs; elements that know nothing of them pass their default one, or
  // none
  if (allocator == nullptr || !GST_IS_DMABUF_ALLOCATOR(allocator) ||
      GST_OBJECT_FLAG_IS_SET(allocator, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC))
    allocator = self->priv->own_allocator;

  std::lock_guard guard(self->priv->lock);
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
    stride_masks(&info, self->priv->stride_align, own.stride_align);
    merge_alignment(&alignment, &own);
    if (!gst_video_info_align(&info, &alignment)) {
      GST_WARNING_OBJECT(self, "alignment cannot be met for %" GST_PTR_FORMAT, caps);
      return FALSE;
    }
    // told back, so that the user knows what it gets
    if (gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT))
      gst_buffer_pool_config_set_video_alignment(config, &alignment);
  }
  if (GST_VIDEO_INFO_SIZE(&info) > G_MAXUINT) {
    GST_WARNING_OBJECT(self, "frames of %" G_GSIZE_FORMAT " bytes", GST_VIDEO_INFO_SIZE(&info));
    return FALSE;
  }
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
}

static void gst_zc_pool_init(GstZcPool *self) {
  self->priv = new GstZcPoolPrivate;
  gst_video_alignment_reset(&self->priv->least);
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
  g_return_val_if_fail(stride_align == 0 || is_power_of_two(stride_align), nullptr);
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
 * gst_zc_pool_dup_last_error:
 * @self: a #GstZcPool
 *
 * Returns: (transfer full) (nullable): why the last allocation that failed did, for the user
 *
 * Since: 0.1
 */
gchar *gst_zc_pool_dup_last_error(GstZcPool *self) {
  g_return_val_if_fail(GST_IS_ZC_POOL(self), nullptr);
  std::lock_guard guard(self->priv->lock);
  return self->priv->last_error.empty() ? nullptr : g_strdup(self->priv->last_error.c_str());
}
