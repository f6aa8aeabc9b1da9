// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/results.h"

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

TEST(AttachBoxes, AddsToWhatIsThere) {
  GstBuffer *buffer = gst_buffer_new();
  attachBoxes(buffer, {});
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  ASSERT_NE(meta, nullptr) << "looked and found nothing";
  EXPECT_EQ(gst_analytics_relation_get_length(meta), 0u);

  attachBoxes(buffer, {{"face", 0, 0.9f, 1, 2, 3, 4, {}}, {"cat", 1, 0.5f, 5, 6, 7, 8, {}}});
  EXPECT_EQ(gst_buffer_get_analytics_relation_meta(buffer), meta);
  ASSERT_EQ(gst_analytics_relation_get_length(meta), 2u);
  GstAnalyticsODMtd box;
  ASSERT_TRUE(gst_analytics_relation_meta_get_od_mtd(meta, 1, &box));
  gint x, y, w, h;
  gfloat score;
  ASSERT_TRUE(gst_analytics_od_mtd_get_location(&box, &x, &y, &w, &h, &score));
  EXPECT_EQ(x, 5);
  EXPECT_EQ(y, 6);
  EXPECT_EQ(w, 7);
  EXPECT_EQ(h, 8);
  EXPECT_FLOAT_EQ(score, 0.5f);
  EXPECT_STREQ(g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&box)), "cat");
  gst_buffer_unref(buffer);
}

TEST(ResultStructure, RoundTripsThroughItsText) {
  GstBuffer *buffer = gst_buffer_new();
  GST_BUFFER_PTS(buffer) = 42;
  GstStructure *result = resultStructure(buffer, 7, 640, 480, {{"face", 0, 0.75f, 1, 2, 3, 4, {}}});
  gchar *text = gst_structure_to_string(result);
  gst_structure_free(result);
  result = gst_structure_from_string(text, nullptr);
  g_free(text);
  ASSERT_NE(result, nullptr);
  guint64 timestamp = 0, frame = 0;
  ASSERT_TRUE(
      gst_structure_get(result, "timestamp", G_TYPE_UINT64, &timestamp, "frame", G_TYPE_UINT64, &frame, nullptr));
  EXPECT_EQ(timestamp, 42u);
  EXPECT_EQ(frame, 7u);
  const GValue *list = gst_structure_get_value(result, "detections");
  ASSERT_TRUE(GST_VALUE_HOLDS_ARRAY(list));
  ASSERT_EQ(gst_value_array_get_size(list), 1u);
  const GstStructure *face = gst_value_get_structure(gst_value_array_get_value(list, 0));
  gint w = 0;
  EXPECT_TRUE(gst_structure_get_int(face, "w", &w));
  EXPECT_EQ(w, 3);
  EXPECT_STREQ(gst_structure_get_string(face, "label"), "face");
  gst_structure_free(result);
  gst_buffer_unref(buffer);
}

} // namespace
