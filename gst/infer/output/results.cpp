// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/results.h"

#include <gst/analytics/analytics.h>

namespace gstzc::infer {

void attachBoxes(GstBuffer *buffer, const std::vector<FrameBox> &boxes) {
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (meta == nullptr) meta = gst_buffer_add_analytics_relation_meta(buffer);
  for (const FrameBox &box : boxes) {
    GstAnalyticsODMtd mtd;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string(box.label.c_str()), box.x, box.y, box.width,
                                           box.height, box.score, &mtd);
  }
}

GstStructure *resultStructure(const GstBuffer *buffer, guint64 frame, int width, int height,
                              const std::vector<FrameBox> &boxes) {
  GstStructure *result =
      gst_structure_new("fenceinfer-result", "timestamp", G_TYPE_UINT64, GST_BUFFER_PTS(buffer), "frame", G_TYPE_UINT64,
                        frame, "width", G_TYPE_INT, width, "height", G_TYPE_INT, height, nullptr);
  GValue array = G_VALUE_INIT;
  gst_value_array_init(&array, static_cast<guint>(boxes.size()));
  for (const FrameBox &box : boxes) {
    GValue item = G_VALUE_INIT;
    g_value_init(&item, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&item,
                       gst_structure_new("detection", "label", G_TYPE_STRING, box.label.c_str(), "score", G_TYPE_DOUBLE,
                                         static_cast<double>(box.score), "x", G_TYPE_INT, box.x, "y", G_TYPE_INT, box.y,
                                         "w", G_TYPE_INT, box.width, "h", G_TYPE_INT, box.height, nullptr));
    gst_value_array_append_and_take_value(&array, &item);
  }
  gst_structure_take_value(result, "detections", &array);
  return result;
}

} // namespace gstzc::infer
