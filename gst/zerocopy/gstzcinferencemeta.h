/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which look at which frame the results on a buffer are from. Plain C. */
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GST_ZC_INFERENCE_META_API_TYPE:
 *
 * The API type of #GstZcInferenceMeta.
 *
 * Since: 0.1
 */
#define GST_ZC_INFERENCE_META_API_TYPE (gst_zc_inference_meta_api_get_type())

/**
 * GST_ZC_INFERENCE_META_INFO:
 *
 * The #GstMetaInfo of #GstZcInferenceMeta.
 *
 * Since: 0.1
 */
#define GST_ZC_INFERENCE_META_INFO (gst_zc_inference_meta_get_info())

typedef struct _GstZcInferenceMeta GstZcInferenceMeta;

/**
 * GstZcInferenceMeta:
 * @meta: the parent
 *
 * Says that an inference element gave results for a buffer, and whether it looked at this very frame. Elements that do
 * not look at each frame may repeat the results of an older one: then this says of which. A buffer that nobody gave
 * results for has none; one that was looked at without anything being found has one. Each element that gives results
 * adds its own. Copies of a buffer carry it, whatever becomes of the picture.
 *
 * Since: 0.1
 */
struct _GstZcInferenceMeta {
  GstMeta meta;

  /*< private >*/
  gchar *source;
  GstClockTime timestamp;
  guint age;
};

GSTZC_API GType gst_zc_inference_meta_api_get_type(void);
GSTZC_API const GstMetaInfo *gst_zc_inference_meta_get_info(void);

GSTZC_API const gchar *gst_zc_inference_meta_get_source(GstZcInferenceMeta *self);
GSTZC_API GstClockTime gst_zc_inference_meta_get_timestamp(GstZcInferenceMeta *self);
GSTZC_API guint gst_zc_inference_meta_get_age(GstZcInferenceMeta *self);
GSTZC_API gboolean gst_zc_inference_meta_is_fresh(GstZcInferenceMeta *self);

GSTZC_API GstZcInferenceMeta *gst_buffer_add_zc_inference_meta(GstBuffer *buffer, const gchar *source,
                                                               GstClockTime timestamp, guint age);
GSTZC_API GstZcInferenceMeta *gst_buffer_get_zc_inference_meta(GstBuffer *buffer, const gchar *source);

G_END_DECLS
