/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a consumer needs of the memory it is given, in the ALLOCATION query. Plain C. */
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GstZcMemoryNeed:
 * @GST_ZC_MEMORY_NEED_ANY: scattered pages do
 * @GST_ZC_MEMORY_NEED_CONTIGUOUS: physically contiguous memory: the device has no IOMMU
 *
 * What a device can deal with. A larger value is the stricter need.
 *
 * Since: 0.1
 */
typedef enum {
  GST_ZC_MEMORY_NEED_ANY,
  GST_ZC_MEMORY_NEED_CONTIGUOUS,
} GstZcMemoryNeed;

#define GST_TYPE_ZC_MEMORY_NEED (gst_zc_memory_need_get_type())

/**
 * GST_ZC_MEMORY_NEED_API_TYPE:
 *
 * The API type under which a need stands in an ALLOCATION query, among the metas. No buffer ever has such a meta.
 *
 * Since: 0.1
 */
#define GST_ZC_MEMORY_NEED_API_TYPE (gst_zc_memory_need_api_get_type())

GSTZC_API GType gst_zc_memory_need_get_type(void);
GSTZC_API GType gst_zc_memory_need_api_get_type(void);

GSTZC_API void gst_query_add_zc_memory_need(GstQuery *query, GstZcMemoryNeed need, const gchar *who);
GSTZC_API GstZcMemoryNeed gst_query_parse_zc_memory_need(GstQuery *query, const gchar **who);

G_END_DECLS
