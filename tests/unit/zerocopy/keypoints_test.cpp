// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzckeypointmtd.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/shallow_copy.h"
#include "tests/support/criticals.h"

namespace {

struct Point {
  float x = -1, y = -1, confidence = -1;
  bool operator==(const Point &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Point &p) {
  return out << "(" << p.x << ", " << p.y << ") " << p.confidence;
}

std::vector<Point> pointsOf(const GstZcKeypointsMtd &mtd) {
  std::vector<Point> points(gst_zc_keypoints_mtd_get_count(&mtd));
  for (size_t i = 0; i < points.size(); ++i)
    EXPECT_TRUE(gst_zc_keypoints_mtd_get_position(&mtd, i, &points[i].x, &points[i].y, &points[i].confidence));
  return points;
}

class Keypoints : public testing::Test {
protected:
  Keypoints() { meta_ = gst_buffer_add_analytics_relation_meta(buffer_); }
  ~Keypoints() override { gst_buffer_unref(buffer_); }

  GstZcKeypointsMtd add(const std::vector<float> &positions, const std::vector<float> &confidences = {}) {
    GstZcKeypointsMtd mtd = {};
    EXPECT_TRUE(
        gst_analytics_relation_meta_add_zc_keypoints_mtd(meta_, positions.size(), positions.data(), confidences.size(),
                                                         confidences.empty() ? nullptr : confidences.data(), &mtd));
    return mtd;
  }
  static GstZcKeypointsMtd get(GstBuffer *buffer, guint id) {
    GstZcKeypointsMtd mtd = {};
    GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
    EXPECT_NE(meta, nullptr);
    if (meta != nullptr) {
      EXPECT_TRUE(gst_analytics_relation_meta_get_zc_keypoints_mtd(meta, id, &mtd));
    }
    return mtd;
  }

  GstBuffer *buffer_ = gst_buffer_new_allocate(nullptr, 64, nullptr);
  GstAnalyticsRelationMeta *meta_ = nullptr;
};

TEST_F(Keypoints, AreReadAsTheyWereWritten) {
  const GstZcKeypointsMtd two = add({1.5f, -2.25f, 1e6f, 0}, {0.25f, 0.5f});
  const GstZcKeypointsMtd one = add({7, 8});
  EXPECT_EQ(pointsOf(two), (std::vector<Point>{{1.5f, -2.25f, 0.25f}, {1e6f, 0, 0.5f}}));
  EXPECT_EQ(pointsOf(one), (std::vector<Point>{{7, 8, 1}})) << "nothing said of it counts as sure";
  EXPECT_NE(one.id, two.id);
  float x = 3, y = 3;
  EXPECT_FALSE(gst_zc_keypoints_mtd_get_position(&one, 1, &x, &y, nullptr));
  EXPECT_FALSE(gst_zc_keypoints_mtd_get_position(&one, std::numeric_limits<gsize>::max(), &x, &y, nullptr));
  EXPECT_EQ(x, 3);
  EXPECT_TRUE(gst_zc_keypoints_mtd_get_position(&one, 0, &x, &y, nullptr)) << "the confidence need not be asked for";
}

TEST_F(Keypoints, NoneIsASetToo) {
  GstZcKeypointsMtd mtd = {};
  EXPECT_TRUE(gst_analytics_relation_meta_add_zc_keypoints_mtd(meta_, 0, nullptr, 0, nullptr, &mtd));
  EXPECT_EQ(gst_zc_keypoints_mtd_get_count(&mtd), 0u);
}

TEST_F(Keypoints, MoreThanTheRelationMetaHasRoomFor) {
  std::vector<float> positions(2 * 10'000);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<float>(i);
  for (int i = 0; i < 20; ++i) add(positions);
  const auto points = pointsOf(get(buffer_, 19));
  ASSERT_EQ(points.size(), 10'000u);
  EXPECT_EQ(points.back(), (Point{19'998, 19'999, 1}));
}

TEST_F(Keypoints, AreFoundAmongOtherMetadata) {
  GstAnalyticsODMtd box;
  gst_analytics_relation_meta_add_od_mtd(meta_, g_quark_from_string("face"), 0, 0, 8, 8, 1, &box);
  const GstZcKeypointsMtd points = add({1, 2});
  EXPECT_STREQ(gst_analytics_mtd_type_get_name(gst_zc_keypoints_mtd_get_mtd_type()), "zc-keypoints");
  GstZcKeypointsMtd found = {};
  EXPECT_FALSE(gst_analytics_relation_meta_get_zc_keypoints_mtd(meta_, box.id, &found));
  gpointer state = nullptr;
  ASSERT_TRUE(gst_analytics_relation_meta_iterate(meta_, &state, gst_zc_keypoints_mtd_get_mtd_type(), &found));
  EXPECT_EQ(found.id, points.id);
  EXPECT_FALSE(gst_analytics_relation_meta_iterate(meta_, &state, gst_zc_keypoints_mtd_get_mtd_type(), &found));
}

TEST_F(Keypoints, GoWithEveryCopy) {
  const guint id = add({1, 2, 3, 4}, {0.5f, 0.75f}).id;
  const std::vector<Point> expected = {{1, 2, 0.5f}, {3, 4, 0.75f}};
  GstBuffer *copies[] = {gst_buffer_copy(buffer_), gst_buffer_copy_deep(buffer_),
                         gst_buffer_copy_region(buffer_, GST_BUFFER_COPY_ALL, 8, 8),
                         gstzc::writableShallow(gst_buffer_ref(buffer_))};
  gst_clear_buffer(&buffer_); // they have their own
  for (GstBuffer *copy : copies) {
    EXPECT_EQ(pointsOf(get(copy, id)), expected);
    gst_buffer_unref(copy);
  }
  buffer_ = gst_buffer_new();
}

TEST_F(Keypoints, FollowTheScalingOfThePicture) {
  const guint id = add({100, 50, -20, 300}, {0.5f, 1}).id;
  GstVideoInfo from, to;
  gst_video_info_set_format(&from, GST_VIDEO_FORMAT_RGB, 200, 100);
  gst_video_info_set_format(&to, GST_VIDEO_FORMAT_RGB, 300, 50);
  GstVideoMetaTransform scale = {&from, &to};
  GstBuffer *scaled = gst_buffer_new();
  auto *meta = reinterpret_cast<GstMeta *>(meta_);
  ASSERT_TRUE(meta->info->transform_func(scaled, meta, buffer_, gst_video_meta_transform_scale_get_quark(), &scale));
  EXPECT_EQ(pointsOf(get(scaled, id)), (std::vector<Point>{{150, 25, 0.5f}, {-30, 150, 1}}));
  EXPECT_EQ(pointsOf(get(buffer_, id))[0], (Point{100, 50, 0.5f})) << "the original stays";
  gst_buffer_unref(scaled);
}

// As the boxes do: through an element that scales.
TEST_F(Keypoints, FollowTheirBoxThroughAPipeline) {
  GError *error = nullptr;
  GstElement *pipeline =
      gst_parse_launch("appsrc name=in caps=video/x-raw,format=RGB,width=64,height=32,framerate=1/1 format=time ! "
                       "videoscale ! video/x-raw,width=128,height=32 ! appsink name=out sync=false",
                       &error);
  ASSERT_NE(pipeline, nullptr) << error->message;
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstElement *in = gst_bin_get_by_name(GST_BIN(pipeline), "in"), *out = gst_bin_get_by_name(GST_BIN(pipeline), "out");
  GstBuffer *frame = gst_buffer_new_allocate(nullptr, 64 * 32 * 3, nullptr);
  gst_buffer_memset(frame, 0, 0, 64 * 32 * 3);
  meta_ = gst_buffer_add_analytics_relation_meta(frame);
  GstAnalyticsODMtd box;
  gst_analytics_relation_meta_add_od_mtd(meta_, g_quark_from_string("face"), 10, 10, 20, 10, 1, &box);
  const guint id = add({10, 10, 30, 20}).id;
  GstFlowReturn flow = GST_FLOW_ERROR;
  g_signal_emit_by_name(in, "push-buffer", frame, &flow);
  gst_buffer_unref(frame);
  EXPECT_EQ(flow, GST_FLOW_OK);
  GstSample *sample = nullptr;
  g_signal_emit_by_name(out, "try-pull-sample", 10 * GST_SECOND, &sample);
  ASSERT_NE(sample, nullptr);
  GstBuffer *scaled = gst_sample_get_buffer(sample);
  EXPECT_EQ(pointsOf(get(scaled, id)), (std::vector<Point>{{20, 10, 1}, {60, 20, 1}}));
  gint x = 0, y = 0, w = 0, h = 0;
  ASSERT_TRUE(gst_analytics_relation_meta_get_od_mtd(gst_buffer_get_analytics_relation_meta(scaled), box.id, &box));
  gst_analytics_od_mtd_get_location(&box, &x, &y, &w, &h, nullptr);
  EXPECT_EQ(x, 20);
  EXPECT_EQ(w, 40);
  gst_sample_unref(sample);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(in);
  gst_object_unref(out);
  gst_object_unref(pipeline);
}

TEST_F(Keypoints, MisuseIsRefused) {
  const float values[] = {1, 2, 3, 4};
  GstZcKeypointsMtd mtd = {};
  const gsize length = gst_analytics_relation_get_length(meta_);
  struct {
    gsize n_positions;
    const float *positions;
    gsize n_confidences;
    const float *confidences;
  } const rows[] = {{3, values, 0, nullptr},
                    {2, nullptr, 0, nullptr},
                    {4, values, 1, values},
                    {4, values, 3, values},
                    {4, values, 2, nullptr},
                    {0, nullptr, 1, values},
                    {G_MAXSIZE - 1, values, 0, nullptr}};
  for (const auto &row : rows) {
    gstzc::test::Criticals criticals;
    EXPECT_FALSE(gst_analytics_relation_meta_add_zc_keypoints_mtd(meta_, row.n_positions, row.positions,
                                                                  row.n_confidences, row.confidences, &mtd));
    EXPECT_EQ(criticals.count(), 1) << row.n_positions;
  }
  EXPECT_EQ(gst_analytics_relation_get_length(meta_), length);

  GstAnalyticsODMtd box;
  gst_analytics_relation_meta_add_od_mtd(meta_, 0, 0, 0, 8, 8, 1, &box);
  gstzc::test::Criticals criticals;
  float x = 0, y = 0;
  EXPECT_EQ(gst_zc_keypoints_mtd_get_count(&box), 0u) << "a box is no set of keypoints";
  EXPECT_FALSE(gst_zc_keypoints_mtd_get_position(&box, 0, &x, &y, nullptr));
  EXPECT_FALSE(gst_analytics_relation_meta_add_zc_keypoints_mtd(nullptr, 0, nullptr, 0, nullptr, &mtd));
  EXPECT_EQ(criticals.count(), 3);
}

} // namespace
