// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzcinferencemeta.h"

#include <gtest/gtest.h>

#include "gst/zerocopy/shallow_copy.h"
#include "tests/support/criticals.h"

namespace {

TEST(InferenceMeta, SaysWhoLookedAtWhichFrame) {
  GstBuffer *buffer = gst_buffer_new();
  EXPECT_EQ(gst_buffer_get_zc_inference_meta(buffer, nullptr), nullptr);
  std::string name = "faces";
  ASSERT_NE(gst_buffer_add_zc_inference_meta(buffer, name.c_str(), 40 * GST_MSECOND, 0), nullptr);
  name = "other"; // it has a copy
  GstZcInferenceMeta *fresh = gst_buffer_get_zc_inference_meta(buffer, nullptr);
  ASSERT_NE(fresh, nullptr);
  EXPECT_STREQ(gst_zc_inference_meta_get_source(fresh), "faces");
  EXPECT_EQ(gst_zc_inference_meta_get_timestamp(fresh), 40 * GST_MSECOND);
  EXPECT_EQ(gst_zc_inference_meta_get_age(fresh), 0u);
  EXPECT_TRUE(gst_zc_inference_meta_is_fresh(fresh));

  gst_buffer_add_zc_inference_meta(buffer, "ages", GST_CLOCK_TIME_NONE, 3);
  GstZcInferenceMeta *old = gst_buffer_get_zc_inference_meta(buffer, "ages");
  ASSERT_NE(old, nullptr);
  EXPECT_FALSE(gst_zc_inference_meta_is_fresh(old));
  EXPECT_EQ(gst_zc_inference_meta_get_age(old), 3u);
  EXPECT_EQ(gst_zc_inference_meta_get_timestamp(old), GST_CLOCK_TIME_NONE);
  EXPECT_EQ(gst_buffer_get_zc_inference_meta(buffer, nullptr), old) << "the last";
  EXPECT_EQ(gst_buffer_get_zc_inference_meta(buffer, "faces"), fresh);
  EXPECT_EQ(gst_buffer_get_zc_inference_meta(buffer, "cars"), nullptr);

  gst_buffer_add_zc_inference_meta(buffer, "faces", 80 * GST_MSECOND, 0);
  EXPECT_EQ(gst_zc_inference_meta_get_timestamp(gst_buffer_get_zc_inference_meta(buffer, "faces")), 80 * GST_MSECOND);
  gst_buffer_unref(buffer);
}

TEST(InferenceMeta, GoesWithEveryCopyOnce) {
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, 64, nullptr);
  gst_buffer_add_zc_inference_meta(buffer, "faces", 1, 2);
  GstBuffer *copies[] = {gst_buffer_copy(buffer), gst_buffer_copy_deep(buffer),
                         gst_buffer_copy_region(buffer, GST_BUFFER_COPY_ALL, 8, 8),
                         gstzc::writableShallow(gst_buffer_ref(buffer))};
  gst_buffer_unref(buffer);
  for (GstBuffer *copy : copies) {
    EXPECT_EQ(gst_buffer_get_n_meta(copy, GST_ZC_INFERENCE_META_API_TYPE), 1u);
    GstZcInferenceMeta *meta = gst_buffer_get_zc_inference_meta(copy, "faces");
    ASSERT_NE(meta, nullptr);
    EXPECT_EQ(gst_zc_inference_meta_get_timestamp(meta), 1u);
    EXPECT_EQ(gst_zc_inference_meta_get_age(meta), 2u);
    gst_buffer_unref(copy);
  }
}

TEST(InferenceMeta, LeavesABufferThatReturnsToItsPool) {
  GstBufferPool *pool = gst_buffer_pool_new();
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, nullptr, 64, 1, 1);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  for (int i = 0; i < 2; ++i) {
    GstBuffer *buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    EXPECT_EQ(gst_buffer_get_zc_inference_meta(buffer, nullptr), nullptr) << i;
    gst_buffer_add_zc_inference_meta(buffer, "faces", 1, 2);
    gst_buffer_unref(buffer);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST(InferenceMeta, MisuseIsRefused) {
  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_ref(buffer);
  gstzc::test::Criticals criticals;
  EXPECT_EQ(gst_buffer_add_zc_inference_meta(buffer, "faces", 1, 2), nullptr) << "not writable";
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_buffer_add_zc_inference_meta(buffer, nullptr, 1, 2), nullptr);
  EXPECT_EQ(gst_zc_inference_meta_get_source(nullptr), nullptr);
  EXPECT_EQ(criticals.count(), 3);
  gst_buffer_unref(buffer);
}

} // namespace
