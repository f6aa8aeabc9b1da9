/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When a buffer's contents are there: fences that travel with it. Plain C. */
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/gstzcdeviceevent.h"
#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GstZcFenceAccess:
 * @GST_ZC_FENCE_ACCESS_READ: the contents are looked at
 * @GST_ZC_FENCE_ACCESS_WRITE: the contents are changed
 * @GST_ZC_FENCE_ACCESS_READ_WRITE: both
 *
 * What somebody does with a buffer. Who reads waits for those who write; who writes waits for everybody.
 *
 * Since: 0.1
 */
typedef enum {
  GST_ZC_FENCE_ACCESS_READ = 1,
  GST_ZC_FENCE_ACCESS_WRITE = 2,
  GST_ZC_FENCE_ACCESS_READ_WRITE = 3,
} GstZcFenceAccess;

/**
 * GST_ZC_FENCE_META_API_TYPE:
 *
 * In an ALLOCATION query: the consumer waits for the fences of #GstZcFenceMeta itself, so that the producer may hand
 * buffers on before they are written.
 *
 * Since: 0.1
 */
#define GST_ZC_FENCE_META_API_TYPE (gst_zc_fence_meta_api_get_type())

/**
 * GST_ZC_FENCE_META_INFO:
 *
 * The #GstMetaInfo of #GstZcFenceMeta, which tells one from metas of other kinds.
 *
 * Since: 0.1
 */
#define GST_ZC_FENCE_META_INFO (gst_zc_fence_meta_get_info())

typedef struct _GstZcFenceMeta GstZcFenceMeta;

/**
 * GstZcFenceMeta:
 * @meta: the parent
 *
 * What a consumer has to wait for before it touches the buffer's contents: a sync_file, a #GstZcDeviceEvent, or
 * nothing; and the producer's number for the frame. A buffer may carry several, e.g. one of each device that wrote into
 * it: all count. Copies of a buffer that share its memory carry the fences too, also those of a part of it or of its
 * metadata alone; deep copies do not, nor what elements write into other memory, nor a buffer that returned to its
 * pool. The meta is constant once it is added.
 *
 * Since: 0.1
 */
struct _GstZcFenceMeta {
  GstMeta meta;

  /*< private >*/
  gpointer fence; /* shared by copies; NULL without a sync_file */
  GstZcDeviceEvent *event;
  guint64 sequence;
};

GSTZC_API GType gst_zc_fence_meta_api_get_type(void);
GSTZC_API const GstMetaInfo *gst_zc_fence_meta_get_info(void);

GSTZC_API gint gst_zc_fence_meta_dup_fd(GstZcFenceMeta *self);
GSTZC_API GstZcDeviceEvent *gst_zc_fence_meta_get_event(GstZcFenceMeta *self);
GSTZC_API guint64 gst_zc_fence_meta_get_sequence(GstZcFenceMeta *self);

GSTZC_API GstZcFenceMeta *gst_buffer_add_zc_fence_meta(GstBuffer *buffer, gint fence_fd, guint64 sequence,
                                                       GError **error);
GSTZC_API GstZcFenceMeta *gst_buffer_add_zc_event_meta(GstBuffer *buffer, GstZcDeviceEvent *event, guint64 sequence);
GSTZC_API GstZcFenceMeta *gst_buffer_get_zc_fence_meta(GstBuffer *buffer);

GSTZC_API gboolean gst_buffer_get_zc_ready_fence(GstBuffer *buffer, GstZcFenceAccess access, gint *fd, GError **error);
GSTZC_API gboolean gst_buffer_wait_zc_fences(GstBuffer *buffer, GstZcFenceAccess access, GstClockTime timeout,
                                             GError **error);
GSTZC_API gboolean gst_buffer_import_zc_fence(GstBuffer *buffer, gint fence_fd, GstZcFenceAccess access,
                                              GError **error);

GSTZC_API gint gst_zc_fence_fd_get_status(gint fd);

G_END_DECLS
