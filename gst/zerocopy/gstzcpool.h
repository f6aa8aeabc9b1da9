/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pool of linear frames, one dma-buf each. Plain C. */
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GST_ZC_DEFAULT_STRIDE_ALIGN:
 *
 * Bytes that strides are a multiple of unless told otherwise. Displays and GPUs each have a pitch granularity for
 * linear frames, up to 256 bytes (AMD and NVIDIA scan-out; Intel 64, CUDA textures 32): 256 suits them all, and its
 * cost is a few bytes a row.
 *
 * Since: 0.1
 */
#define GST_ZC_DEFAULT_STRIDE_ALIGN 256

/**
 * GST_ZC_POOL_DEFAULT_FENCE_TIMEOUT:
 *
 * How long a released buffer may stay in use by devices until it is given up: longer than any healthy device takes, and
 * shorter than the kernel's own limit for the fences it lets users make (10 s).
 *
 * Since: 0.1
 */
#define GST_ZC_POOL_DEFAULT_FENCE_TIMEOUT (5 * GST_SECOND)

#define GST_TYPE_ZC_POOL (gst_zc_pool_get_type())
#define GST_ZC_POOL(obj) (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_ZC_POOL, GstZcPool))
#define GST_IS_ZC_POOL(obj) (G_TYPE_CHECK_INSTANCE_TYPE((obj), GST_TYPE_ZC_POOL))

typedef struct _GstZcPool GstZcPool;
typedef struct _GstZcPoolClass GstZcPoolClass;

/**
 * GstZcPool:
 *
 * A #GstBufferPool of video frames. Its caps may be `video/x-raw`, `video/x-raw(memory:DMABuf)` with a plain format, or
 * the linear formats of DMA_DRM; tiled modifiers are refused. Each buffer is one dma-buf with all planes, and carries a
 * #GstVideoMeta with the true strides and offsets. Options: %GST_BUFFER_POOL_OPTION_VIDEO_META and
 * %GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT. A user that does not ask for the former may not know of strides, so it gets
 * the default layout of the caps; with it strides are aligned.
 *
 * A buffer that is released while devices still read or write it (as the fences of its dma-bufs say) is held back until
 * they are done, and freed instead of recycled if they fail or take longer than the fence timeout. Nobody waits for it:
 * who needs a buffer meanwhile gets another one, a new one if the maximum allows. Deactivating the pool frees what is
 * held at once; the kernel keeps the memory for its devices.
 *
 * Since: 0.1
 */

GSTZC_API GType gst_zc_pool_get_type(void);

GSTZC_API GstBufferPool *gst_zc_pool_new(GstAllocator *allocator, guint stride_align);
GSTZC_API void gst_zc_pool_set_alignment(GstZcPool *self, const GstVideoAlignment *alignment);
GSTZC_API void gst_zc_pool_set_fence_timeout(GstZcPool *self, GstClockTime timeout);
GSTZC_API guint64 gst_zc_pool_get_n_allocated(GstZcPool *self);
GSTZC_API guint64 gst_zc_pool_get_n_delayed(GstZcPool *self);
GSTZC_API guint64 gst_zc_pool_get_n_discarded(GstZcPool *self);
GSTZC_API guint gst_zc_pool_get_n_held(GstZcPool *self);
GSTZC_API gchar *gst_zc_pool_dup_last_error(GstZcPool *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstZcPool, gst_object_unref)

G_END_DECLS
