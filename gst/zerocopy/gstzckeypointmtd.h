/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Points of a detected object, among the analytics metadata of a buffer. Plain C. */
#pragma once

#include <gst/analytics/analytics.h>
#include <gst/gst.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GstZcKeypointsMtd:
 *
 * A handle to a set of keypoints in a #GstAnalyticsRelationMeta, as those of GStreamer's own analytics metadata:
 * usually on the stack, valid for as long as the meta is.
 *
 * Since: 0.1
 */
typedef GstAnalyticsMtd GstZcKeypointsMtd;

GSTZC_API GstAnalyticsMtdType gst_zc_keypoints_mtd_get_mtd_type(void);

GSTZC_API gboolean gst_analytics_relation_meta_add_zc_keypoints_mtd(GstAnalyticsRelationMeta *meta, gsize n_positions,
                                                                    const gfloat *positions, gsize n_confidences,
                                                                    const gfloat *confidences, GstZcKeypointsMtd *mtd);
GSTZC_API gboolean gst_analytics_relation_meta_get_zc_keypoints_mtd(GstAnalyticsRelationMeta *meta, guint id,
                                                                    GstZcKeypointsMtd *mtd);

GSTZC_API gsize gst_zc_keypoints_mtd_get_count(const GstZcKeypointsMtd *mtd);
GSTZC_API gboolean gst_zc_keypoints_mtd_get_position(const GstZcKeypointsMtd *mtd, gsize index, gfloat *x, gfloat *y,
                                                     gfloat *confidence);

G_END_DECLS
