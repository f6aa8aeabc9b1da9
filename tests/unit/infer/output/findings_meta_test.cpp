// SPDX-License-Identifier: LGPL-2.1-or-later
// What is attached is read back as others do: by upstream's functions.
#include "gst/infer/output/findings_meta.h"

#include <set>
#include <string>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/gstzckeypointmtd.h"
#include "gst/zerocopy/shallow_copy.h"
#include "gstzc-config.h"

using namespace gstzc::infer;

namespace {

FrameBox makeBox(const std::string &label, int index, float score, int x, int y, int width, int height) {
  FrameBox box;
  box.label = label, box.index = index, box.score = score;
  box.x = x, box.y = y, box.width = width, box.height = height;
  return box;
}

FrameMask makeMask(int x, int y, int width, int height, int columns, int rows, std::vector<uint8_t> values) {
  FrameMask mask;
  mask.x = x, mask.y = y, mask.width = width, mask.height = height;
  mask.columns = columns, mask.rows = rows;
  mask.values = std::move(values);
  return mask;
}

struct ReadMask {
  int x = 0, y = 0;
  guint width = 0, height = 0, columns = 0, rows = 0;
  std::vector<guint8> values;
  std::vector<guint> regions;
};

class Findings : public testing::Test {
protected:
  ~Findings() override { gst_buffer_unref(buffer_); }

  GstAnalyticsRelationMeta *meta() { return gst_buffer_get_analytics_relation_meta(buffer_); }
  gsize length() { return meta() != nullptr ? gst_analytics_relation_get_length(meta()) : 0; }

  std::vector<guint> ofType(GstAnalyticsMtdType type) {
    std::vector<guint> ids;
    gpointer state = nullptr;
    GstAnalyticsMtd mtd;
    while (gst_analytics_relation_meta_iterate(meta(), &state, type, &mtd)) ids.push_back(mtd.id);
    return ids;
  }
  std::vector<guint> related(guint from, GstAnalyticsRelTypes relation, GstAnalyticsMtdType type) {
    std::vector<guint> ids;
    gpointer state = nullptr;
    GstAnalyticsMtd mtd;
    while (gst_analytics_relation_meta_get_direct_related(meta(), from, relation, type, &state, &mtd))
      ids.push_back(mtd.id);
    return ids;
  }
  std::string labelOf(guint id) {
    GstAnalyticsODMtd mtd;
    if (!gst_analytics_relation_meta_get_od_mtd(meta(), id, &mtd)) return "no box";
    return g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&mtd));
  }
  std::vector<std::pair<std::string, float>> classesOf(guint id) {
    std::vector<std::pair<std::string, float>> classes;
    GstAnalyticsClsMtd mtd;
    if (!gst_analytics_relation_meta_get_cls_mtd(meta(), id, &mtd)) return classes;
    for (gsize i = 0; i < gst_analytics_cls_mtd_get_length(&mtd); ++i)
      classes.emplace_back(g_quark_to_string(gst_analytics_cls_mtd_get_quark(&mtd, i)),
                           gst_analytics_cls_mtd_get_level(&mtd, i));
    return classes;
  }
  ReadMask maskOf(guint id) {
    ReadMask read;
    GstAnalyticsSegmentationMtd mtd;
    if (!gst_analytics_relation_meta_get_segmentation_mtd(meta(), id, &mtd)) return read;
    GstBuffer *picture = gst_analytics_segmentation_mtd_get_mask(&mtd, &read.x, &read.y, &read.width, &read.height);
    for (gsize i = 0; i < gst_analytics_segmentation_mtd_get_region_count(&mtd); ++i)
      read.regions.push_back(gst_analytics_segmentation_mtd_get_region_id(&mtd, i));
    // a consumer reads it as it reads any picture
    GstVideoMeta *video = gst_buffer_get_video_meta(picture);
    GstVideoInfo info;
    gst_video_info_set_format(&info, video->format, video->width, video->height);
    EXPECT_EQ(video->format, GST_VIDEO_FORMAT_GRAY8);
    GstVideoFrame frame;
    EXPECT_TRUE(gst_video_frame_map(&frame, &info, picture, GST_MAP_READ));
    read.columns = video->width, read.rows = video->height;
    for (guint y = 0; y < read.rows; ++y) {
      const auto *row = static_cast<const guint8 *>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
                        y * static_cast<guint>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0));
      read.values.insert(read.values.end(), row, row + read.columns);
    }
    gst_video_frame_unmap(&frame);
    gst_buffer_unref(picture);
    return read;
  }

  const GstAnalyticsMtdType kBox = gst_analytics_od_mtd_get_mtd_type();
  const GstAnalyticsMtdType kClasses = gst_analytics_cls_mtd_get_mtd_type();
  const GstAnalyticsMtdType kMask = gst_analytics_segmentation_mtd_get_mtd_type();
  GstBuffer *buffer_ = gst_buffer_new_allocate(nullptr, 64, nullptr);
};

TEST_F(Findings, NothingFoundIsAMetaWithNothingInIt) {
  EXPECT_TRUE(attachFindings(buffer_, {}).empty());
  ASSERT_NE(meta(), nullptr);
  EXPECT_EQ(length(), 0u);
}

TEST_F(Findings, BoxesAreAddedToWhatIsThere) {
  attachFindings(buffer_, {.boxes = {makeBox("face", 0, 0.9f, 1, 2, 3, 4)}});
  GstAnalyticsRelationMeta *first = meta();
  const auto ids =
      attachFindings(buffer_, {.boxes = {makeBox("cat", 1, 0.5f, 5, 6, 7, 8), makeBox("dog", 2, 1, 0, 0, 1, 1)}});
  EXPECT_EQ(meta(), first);
  EXPECT_EQ(length(), 3u);
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(labelOf(ids[0]), "cat");
  EXPECT_EQ(labelOf(ids[1]), "dog");
  GstAnalyticsODMtd mtd;
  ASSERT_TRUE(gst_analytics_relation_meta_get_od_mtd(meta(), ids[0], &mtd));
  gint x, y, w, h;
  gfloat score;
  ASSERT_TRUE(gst_analytics_od_mtd_get_location(&mtd, &x, &y, &w, &h, &score));
  EXPECT_EQ(x, 5);
  EXPECT_EQ(y, 6);
  EXPECT_EQ(w, 7);
  EXPECT_EQ(h, 8);
  EXPECT_FLOAT_EQ(score, 0.5f);
}

TEST_F(Findings, ClassesWithoutALabelAreNumbers) {
  const auto ids =
      attachFindings(buffer_, {.boxes = {makeBox("", 0, 1, 0, 0, 1, 1), makeBox("", 80, 1, 0, 0, 1, 1),
                                         makeBox("", -1, 1, 0, 0, 1, 1), makeBox("", 2'000'000'000, 1, 0, 0, 1, 1)}});
  EXPECT_EQ(labelOf(ids[0]), "0");
  EXPECT_EQ(labelOf(ids[1]), "80");
  EXPECT_EQ(labelOf(ids[2]), "unknown");
  EXPECT_EQ(labelOf(ids[3]), "unknown");
}

#if GSTZC_HAVE_ANALYTICS_KEYPOINTS
const GstAnalyticsMtdType kKeypoints = gst_analytics_group_mtd_get_mtd_type();
#else
const GstAnalyticsMtdType kKeypoints = gst_zc_keypoints_mtd_get_mtd_type();
#endif

TEST_F(Findings, KeypointsArePartOfTheirBox) {
  FrameFindings findings;
  findings.boxes = {makeBox("face", 0, 1, 0, 0, 8, 8), makeBox("none", 1, 1, 0, 0, 8, 8),
                    makeBox("face", 0, 1, 9, 9, 8, 8)};
  findings.boxes[0].keypoints = {{1, 2, 0.5f}};
  findings.boxes[2].keypoints = {{10, 11, 1}, {-3, 20, 0.25f}};
  const auto ids = attachFindings(buffer_, findings);
  EXPECT_TRUE(related(ids[1], GST_ANALYTICS_REL_TYPE_ANY, GST_ANALYTICS_MTD_TYPE_ANY).empty());
  const auto first = related(ids[0], GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints);
  const auto third = related(ids[2], GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(third.size(), 1u);
  EXPECT_EQ(related(third[0], GST_ANALYTICS_REL_TYPE_IS_PART_OF, kBox), (std::vector<guint>{ids[2]}));
#if GSTZC_HAVE_ANALYTICS_KEYPOINTS
  GstAnalyticsGroupMtd group;
  ASSERT_TRUE(gst_analytics_relation_meta_get_group_mtd(meta(), third[0], &group));
  EXPECT_TRUE(gst_analytics_group_mtd_has_semantic_tag(&group, "face-2-kp"));
  ASSERT_EQ(gst_analytics_group_mtd_get_member_count(&group), 2u);
  GstAnalyticsKeypointMtd point;
  ASSERT_TRUE(gst_analytics_group_mtd_get_member(&group, 1, &point));
  gint x, y;
  GstAnalyticsKeypointDimensions dimensions;
  gfloat score;
  gst_analytics_keypoint_mtd_get_position(&point, &x, &y, nullptr, &dimensions);
  gst_analytics_keypoint_mtd_get_confidence(&point, &score);
#else
  GstZcKeypointsMtd points;
  ASSERT_TRUE(gst_analytics_relation_meta_get_zc_keypoints_mtd(meta(), third[0], &points));
  ASSERT_EQ(gst_zc_keypoints_mtd_get_count(&points), 2u);
  gfloat x, y, score;
  ASSERT_TRUE(gst_zc_keypoints_mtd_get_position(&points, 1, &x, &y, &score));
#endif
  EXPECT_EQ(x, -3);
  EXPECT_EQ(y, 20);
  EXPECT_EQ(score, 0.25f);
}

TEST_F(Findings, EachObjectHasARegionOfItsOwn) {
  FrameFindings findings;
  findings.boxes = {makeBox("cat", 0, 1, 10, 20, 30, 40), makeBox("dog", 1, 1, 50, 60, 70, 80)};
  findings.boxes[0].mask = makeMask(11, 21, 31, 41, 3, 2, {0, 255, 255, 255, 0, 0});
  findings.boxes[1].mask = makeMask(50, 60, 70, 80, 1, 1, {255});
  const auto ids = attachFindings(buffer_, findings);
  const auto first = related(ids[0], GST_ANALYTICS_REL_TYPE_RELATE_TO, kMask);
  const auto second = related(ids[1], GST_ANALYTICS_REL_TYPE_RELATE_TO, kMask);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(related(first[0], GST_ANALYTICS_REL_TYPE_RELATE_TO, kBox), (std::vector<guint>{ids[0]}));
  const ReadMask cat = maskOf(first[0]), dog = maskOf(second[0]);
  EXPECT_EQ(cat.x, 11);
  EXPECT_EQ(cat.y, 21);
  EXPECT_EQ(cat.width, 31u);
  EXPECT_EQ(cat.height, 41u);
  EXPECT_EQ(cat.columns, 3u);
  EXPECT_EQ(cat.rows, 2u);
  EXPECT_EQ(cat.values, (std::vector<guint8>{0, 1, 1, 1, 0, 0}));
  EXPECT_EQ(cat.regions, (std::vector<guint>{0, 1}));
  EXPECT_EQ(dog.values, (std::vector<guint8>{2}));
  EXPECT_EQ(dog.regions, (std::vector<guint>{0, 2}));
}

TEST_F(Findings, The256thObjectHasTheFirstRegionAgain) {
  FrameFindings findings;
  for (int i = 0; i < 256; ++i) {
    findings.boxes.push_back(makeBox("cat", 0, 1, 0, 0, 8, 8));
    findings.boxes.back().mask = makeMask(0, 0, 8, 8, 1, 1, {255});
  }
  attachFindings(buffer_, findings);
  const auto masks = ofType(kMask);
  ASSERT_EQ(masks.size(), 256u);
  EXPECT_EQ(maskOf(masks[254]).values[0], 255);
  EXPECT_EQ(maskOf(masks[255]).values[0], 1);
}

TEST_F(Findings, ClassesOfTheFrame) {
  attachFindings(buffer_, {.classes = {{"day", 3, 0.5f}, {"", 4, 0.25f}}});
  const auto ids = ofType(kClasses);
  ASSERT_EQ(ids.size(), 1u);
  EXPECT_EQ(classesOf(ids[0]), (std::vector<std::pair<std::string, float>>{{"day", 0.5f}, {"4", 0.25f}}));
  EXPECT_EQ(length(), 1u);
}

TEST_F(Findings, ASegmentationNamesItsRegions) {
  const std::vector<std::string> labels = {"road", "", "sky", "tree"};
  attachFindings(buffer_, {.segmentation = makeMask(0, 4, 640, 472, 5, 2, {0, 2, 2, 0, 5, 1, 1, 0, 0, 0})},
                 {.labels = &labels});
  const auto ids = ofType(kMask);
  ASSERT_EQ(ids.size(), 1u);
  const ReadMask mask = maskOf(ids[0]);
  EXPECT_EQ(mask.y, 4);
  EXPECT_EQ(mask.width, 640u);
  EXPECT_EQ(mask.columns, 5u);
  EXPECT_EQ(mask.rows, 2u);
  EXPECT_EQ(mask.values, (std::vector<guint8>{0, 2, 2, 0, 5, 1, 1, 0, 0, 0}));
  EXPECT_EQ(mask.regions, (std::vector<guint>{0, 1, 2, 3, 4, 5}));
  const auto names = related(ids[0], GST_ANALYTICS_REL_TYPE_N_TO_N, kClasses);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(classesOf(names[0]), (std::vector<std::pair<std::string, float>>{
                                     {"road", -1}, {"1", -1}, {"sky", -1}, {"tree", -1}, {"4", -1}, {"5", -1}}));
  EXPECT_EQ(related(names[0], GST_ANALYTICS_REL_TYPE_N_TO_N, kMask), ids);
}

TEST_F(Findings, All256Classes) {
  std::vector<uint8_t> values(256);
  for (int i = 0; i < 256; ++i) values[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  attachFindings(buffer_, {.segmentation = makeMask(0, 0, 16, 16, 16, 16, values)});
  const ReadMask mask = maskOf(ofType(kMask).at(0));
  EXPECT_EQ(mask.regions.size(), 256u);
  EXPECT_EQ(mask.values, values);
}

TEST_F(Findings, MasksThatAreNoneAreLeftOut) {
  FrameFindings findings;
  const FrameMask bad[] = {makeMask(0, 0, 8, 8, 2, 2, {1, 1, 1}), makeMask(0, 0, 8, 8, 0, 0, {}),
                           makeMask(0, 0, 8, 8, -1, -1, {1}), makeMask(0, 0, 0, 8, 1, 1, {1}),
                           makeMask(0, 0, 8, -8, 1, 1, {1})};
  for (const FrameMask &mask : bad) {
    findings.boxes.push_back(makeBox("cat", 0, 1, 0, 0, 8, 8));
    findings.boxes.back().mask = mask;
    findings.segmentation = mask;
    attachFindings(buffer_, findings);
  }
  EXPECT_TRUE(ofType(kMask).empty());
  EXPECT_TRUE(ofType(kClasses).empty());
}

TEST_F(Findings, OfAnObjectAreRelatedToIt) {
  const guint person =
      attachFindings(buffer_, {.boxes = {makeBox("car", 1, 1, 0, 0, 9, 9), makeBox("person", 0, 1, 0, 0, 9, 9)}})[1];
  FrameFindings inside;
  inside.boxes = {makeBox("face", 0, 1, 1, 1, 3, 3), makeBox("hand", 1, 1, 5, 5, 2, 2)};
  inside.boxes[0].keypoints = {{1, 2}};
  inside.classes = {{"sits", 0, 1}};
  inside.segmentation = makeMask(0, 0, 9, 9, 1, 1, {0});
  const auto ids = attachFindings(buffer_, inside, {.object = person});

  EXPECT_EQ(related(person, GST_ANALYTICS_REL_TYPE_CONTAIN, kBox), ids);
  EXPECT_TRUE(related(person, GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints).empty()) << "they are the face's";
  EXPECT_EQ(related(ids[0], GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints).size(), 1u);
  for (const guint id : ids)
    EXPECT_EQ(related(id, GST_ANALYTICS_REL_TYPE_IS_PART_OF, kBox), (std::vector<guint>{person}));
  const auto classes = related(person, GST_ANALYTICS_REL_TYPE_RELATE_TO, kClasses);
  ASSERT_EQ(classes.size(), 1u) << "as objectdetectionoverlay looks for it";
  EXPECT_EQ(classesOf(classes[0])[0].first, "sits");
  const auto masks = related(person, GST_ANALYTICS_REL_TYPE_RELATE_TO, kMask);
  ASSERT_EQ(masks.size(), 1u);
  EXPECT_EQ(related(masks[0], GST_ANALYTICS_REL_TYPE_RELATE_TO, kBox), (std::vector<guint>{person}));
  EXPECT_TRUE(related(ofType(kBox)[0], GST_ANALYTICS_REL_TYPE_ANY, GST_ANALYTICS_MTD_TYPE_ANY).empty()) << "the car";
}

TEST_F(Findings, OfAnObjectThatIsGoneAreThereEvenSo) {
  attachFindings(buffer_, {.classes = {{"day", 0, 1}}});
  for (const guint object : {0u, 77u, G_MAXUINT}) { // the classes; nothing
    const auto ids = attachFindings(buffer_, {.boxes = {makeBox("face", 0, 1, 1, 1, 3, 3)}}, {.object = object});
    ASSERT_EQ(ids.size(), 1u);
    EXPECT_TRUE(related(ids[0], GST_ANALYTICS_REL_TYPE_ANY, GST_ANALYTICS_MTD_TYPE_ANY).empty()) << object;
  }
}

// More than the meta has room for at first, and more than it is told of.
TEST_F(Findings, ManyKeepTheirRelations) {
  attachFindings(buffer_, {});
  FrameFindings findings;
  for (int i = 0; i < 300; ++i) {
    findings.boxes.push_back(makeBox("face", 0, 1, i, 0, 8, 8));
    findings.boxes.back().keypoints = {{static_cast<float>(i), 0}};
  }
  const auto ids = attachFindings(buffer_, findings);
  EXPECT_EQ(length(), 600u);
  for (const guint id : ids) {
    const auto points = related(id, GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints);
    ASSERT_EQ(points.size(), 1u);
    EXPECT_EQ(related(points[0], GST_ANALYTICS_REL_TYPE_IS_PART_OF, kBox), (std::vector<guint>{id}));
  }
}

TEST_F(Findings, GoWithCopies) {
  FrameFindings findings;
  findings.boxes = {makeBox("cat", 0, 1, 10, 20, 30, 40)};
  findings.boxes[0].mask = makeMask(11, 21, 31, 41, 2, 1, {0, 255});
  findings.boxes[0].keypoints = {{1, 2}};
  const auto ids = attachFindings(buffer_, findings);
  GstBuffer *original = gst_buffer_ref(buffer_);
  buffer_ = gstzc::writableShallow(buffer_);
  ASSERT_NE(buffer_, original);
  gst_buffer_unref(original);
  EXPECT_EQ(length(), 3u);
  EXPECT_EQ(related(ids[0], GST_ANALYTICS_REL_TYPE_CONTAIN, kKeypoints).size(), 1u);
  EXPECT_EQ(maskOf(related(ids[0], GST_ANALYTICS_REL_TYPE_RELATE_TO, kMask).at(0)).values, (std::vector<guint8>{0, 1}));
}

// Upstream's meta stays with a pool's buffer and is emptied: "nothing found", though nobody looked.
TEST_F(Findings, AreNotInTheNextFrameOfAPool) {
  GstBufferPool *pool = gst_buffer_pool_new();
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, nullptr, 64, 1, 1);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  FrameFindings findings;
  findings.boxes = {makeBox("cat", 0, 1, 10, 20, 30, 40)};
  findings.boxes[0].mask = makeMask(11, 21, 31, 41, 2, 1, {0, 255});
  for (int i = 0; i < 2; ++i) {
    GstBuffer *frame = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &frame, nullptr), GST_FLOW_OK);
    EXPECT_EQ(gst_buffer_get_analytics_relation_meta(frame), nullptr) << i;
    attachFindings(frame, findings);
    gst_buffer_unref(frame);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST(ObjectClasses, AreAListWithCommas) {
  const struct {
    const char *list;
    std::vector<std::string> classes;
  } rows[] = {{"", {}},
              {" ", {}},
              {",", {}},
              {"person", {"person"}},
              {"person,car", {"person", "car"}},
              {" person ,\tcar, ", {"person", "car"}},
              {"traffic light,,stop sign", {"traffic light", "stop sign"}}};
  for (const auto &row : rows) EXPECT_EQ(parseObjectClasses(row.list), row.classes) << row.list;
}

TEST_F(Findings, ObjectsAreChosenByTheirClass) {
  EXPECT_TRUE(objectsOf(buffer_, {}).empty()) << "no metadata";
  const auto ids =
      attachFindings(buffer_, {.boxes = {makeBox("person", 0, 1, -5, 2, 30, 40), makeBox("car", 1, 1, 1, 2, 3, 4),
                                         makeBox("", 7, 1, 1, 1, 1, 1), makeBox("person", 0, 1, 1, 2, 0, 4)},
                               .classes = {{"person", 0, 1}}});
  GstAnalyticsODMtd unlabelled; // as others add them
  gst_analytics_relation_meta_add_od_mtd(meta(), 0, 1, 1, 5, 5, 1, &unlabelled);
  const auto idsOf = [&](const std::vector<std::string> &classes) {
    std::vector<guint> found;
    for (const RegionObject &object : objectsOf(buffer_, classes)) found.push_back(object.id);
    return found;
  };
  EXPECT_EQ(idsOf({}), (std::vector<guint>{ids[0], ids[1], ids[2], unlabelled.id})) << "none without an area";
  EXPECT_EQ(idsOf({"person"}), (std::vector<guint>{ids[0]}));
  EXPECT_EQ(idsOf({"car", "person"}), (std::vector<guint>{ids[0], ids[1]})) << "in the frame's order";
  EXPECT_EQ(idsOf({"7"}), (std::vector<guint>{ids[2]}));
  EXPECT_TRUE(idsOf({"cat"}).empty());
  const RegionObject person = objectsOf(buffer_, {"person"})[0];
  EXPECT_STREQ(g_quark_to_string(person.label), "person");
  EXPECT_EQ(person.region.x, -5);
  EXPECT_EQ(person.region.y, 2);
  EXPECT_EQ(person.region.width, 30);
  EXPECT_EQ(person.region.height, 40);
}

} // namespace
