// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/results.h"

#include <string>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

const GstStructure *item(const GstStructure *s, const char *field, guint index) {
  const GValue *list = gst_structure_get_value(s, field);
  if (list == nullptr || index >= gst_value_array_get_size(list)) return nullptr;
  return gst_value_get_structure(gst_value_array_get_value(list, index));
}

guint count(const GstStructure *s, const char *field) {
  const GValue *list = gst_structure_get_value(s, field);
  EXPECT_NE(list, nullptr) << field;
  return list != nullptr ? gst_value_array_get_size(list) : 0;
}

int integer(const GstStructure *s, const char *field) {
  gint value = -1;
  EXPECT_TRUE(gst_structure_get_int(s, field, &value)) << field;
  return value;
}

double number(const GstStructure *s, const char *field) {
  gdouble value = -1;
  EXPECT_TRUE(gst_structure_get_double(s, field, &value)) << field;
  return value;
}

FrameBox face() {
  FrameBox box;
  box.label = "face, \"with\" [all]; <sorts>", box.index = 2, box.score = 0.75f;
  box.x = 1, box.y = 2, box.width = 3, box.height = 4;
  return box;
}

class ResultStructure : public testing::Test {
protected:
  ~ResultStructure() override {
    gst_clear_structure(&result_);
    gst_buffer_unref(buffer_);
  }
  // As somebody gets it that only has its text.
  const GstStructure *make(const ResultHead &head, const std::vector<RegionFindings> &regions) {
    GstStructure *made = resultStructure(buffer_, head, regions);
    gchar *text = gst_structure_to_string(made);
    gst_structure_free(made);
    gst_clear_structure(&result_);
    result_ = gst_structure_from_string(text, nullptr);
    EXPECT_NE(result_, nullptr) << text;
    g_free(text);
    return result_;
  }

  GstBuffer *buffer_ = gst_buffer_new();
  GstStructure *result_ = nullptr;
};

TEST_F(ResultStructure, OfNothing) {
  const GstStructure *result = make({.frame = 3, .width = 640, .height = 480}, {});
  EXPECT_STREQ(gst_structure_get_name(result), "fenceinfer-result");
  guint64 timestamp = 0, frame = 0;
  gboolean fresh = FALSE;
  ASSERT_TRUE(gst_structure_get(result, "timestamp", G_TYPE_UINT64, &timestamp, "frame", G_TYPE_UINT64, &frame, "fresh",
                                G_TYPE_BOOLEAN, &fresh, nullptr));
  EXPECT_EQ(timestamp, GST_CLOCK_TIME_NONE);
  EXPECT_EQ(frame, 3u);
  EXPECT_TRUE(fresh);
  EXPECT_EQ(integer(result, "width"), 640);
  EXPECT_EQ(integer(result, "height"), 480);
  EXPECT_EQ(count(result, "detections"), 0u);
  EXPECT_EQ(count(result, "classes"), 0u);
}

TEST_F(ResultStructure, OfAFrame) {
  GST_BUFFER_PTS(buffer_) = 42;
  FrameFindings findings;
  findings.boxes = {face(), face()};
  findings.boxes[1].label = "";
  findings.boxes[1].keypoints = {{-1.5f, 2, 0.5f}, {1e9f, 0, 1}};
  findings.classes = {{"day", 0, 0.5f}, {"", 7, 0.25f}};
  const GstStructure *result = make({.frame = 7, .width = 64, .height = 48, .fresh = false}, {{findings, {}, {}}});
  guint64 timestamp = 0;
  gboolean fresh = TRUE;
  ASSERT_TRUE(
      gst_structure_get(result, "timestamp", G_TYPE_UINT64, &timestamp, "fresh", G_TYPE_BOOLEAN, &fresh, nullptr));
  EXPECT_EQ(timestamp, 42u);
  EXPECT_FALSE(fresh);

  ASSERT_EQ(count(result, "detections"), 2u);
  const GstStructure *first = item(result, "detections", 0), *second = item(result, "detections", 1);
  EXPECT_STREQ(gst_structure_get_name(first), "detection");
  EXPECT_EQ(gst_structure_get_string(first, "label"), findings.boxes[0].label);
  EXPECT_EQ(integer(first, "index"), 2);
  EXPECT_EQ(number(first, "score"), 0.75);
  EXPECT_EQ(integer(first, "x"), 1);
  EXPECT_EQ(integer(first, "y"), 2);
  EXPECT_EQ(integer(first, "w"), 3);
  EXPECT_EQ(integer(first, "h"), 4);
  for (const char *absent : {"keypoints", "object", "id"})
    EXPECT_FALSE(gst_structure_has_field(first, absent)) << absent;
  EXPECT_STREQ(gst_structure_get_string(second, "label"), "");
  ASSERT_EQ(count(second, "keypoints"), 2u);
  EXPECT_EQ(number(item(second, "keypoints", 0), "x"), -1.5);
  EXPECT_EQ(number(item(second, "keypoints", 0), "y"), 2);
  EXPECT_EQ(number(item(second, "keypoints", 0), "score"), 0.5);
  EXPECT_EQ(number(item(second, "keypoints", 1), "x"), 1e9);

  ASSERT_EQ(count(result, "classes"), 2u);
  EXPECT_STREQ(gst_structure_get_string(item(result, "classes", 0), "label"), "day");
  EXPECT_EQ(number(item(result, "classes", 0), "score"), 0.5);
  EXPECT_EQ(integer(item(result, "classes", 1), "index"), 7);
}

TEST_F(ResultStructure, OfObjects) {
  FrameFindings in_first, in_second;
  in_first.boxes = {face()};
  in_second.boxes = {face(), face()};
  in_second.classes = {{"smiles", 1, 0.5f}};
  const GstStructure *result = make({}, {{in_first, {21}, 4}, {in_second, {22, 23}, 5}});
  ASSERT_EQ(count(result, "detections"), 3u);
  const guint ids[] = {21, 22, 23}, objects[] = {4, 5, 5};
  for (guint i = 0; i < 3; ++i) {
    guint id = 0, object = 0;
    ASSERT_TRUE(gst_structure_get(item(result, "detections", i), "id", G_TYPE_UINT, &id, "object", G_TYPE_UINT, &object,
                                  nullptr));
    EXPECT_EQ(id, ids[i]);
    EXPECT_EQ(object, objects[i]);
  }
  guint object = 0;
  ASSERT_EQ(count(result, "classes"), 1u);
  EXPECT_TRUE(gst_structure_get_uint(item(result, "classes", 0), "object", &object));
  EXPECT_EQ(object, 5u);
}

} // namespace
