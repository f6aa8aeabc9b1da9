// SPDX-License-Identifier: LGPL-2.1-or-later
// What is attached to a buffer, as a scene.
#include <climits>
#include <cmath>
#include <limits>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/drm/overlay/composition_caps.h"
#include "gst/drm/overlay/draw_list.h"
#include "gst/drm/overlay/scene_from_buffer.h"
#include "gst/zerocopy/gstzckeypointmtd.h"
#include "tests/unit/drm/overlay/pictures.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

class Metadata : public testing::Test {
protected:
  void TearDown() override { gst_buffer_unref(buffer_); }

  GstAnalyticsRelationMeta *meta() {
    GstAnalyticsRelationMeta *there = gst_buffer_get_analytics_relation_meta(buffer_);
    return there != nullptr ? there : gst_buffer_add_analytics_relation_meta(buffer_);
  }
  guint addBox(const char *name, int x, int y, int w, int h, float score) {
    GstAnalyticsODMtd box;
    EXPECT_TRUE(gst_analytics_relation_meta_add_od_mtd(meta(), g_quark_from_string(name), x, y, w, h, score, &box));
    return box.id;
  }
  const OverlayScene &scene() {
    sceneFromBuffer(buffer_, 640, 480, scene_);
    return scene_;
  }

  GstBuffer *buffer_ = gst_buffer_new();
  OverlayScene scene_;
};

TEST_F(Metadata, NothingIsAnEmptyScene) {
  scene_.boxes.push_back({});
  EXPECT_TRUE(scene().empty());
  (void)meta();
  EXPECT_TRUE(scene().empty());
}

TEST_F(Metadata, BoxesWithNamesAndScores) {
  addBox("face", 1, 2, 30, 40, 0.934f);
  addBox("cat", -5, -6, 7, 8, 2.0f);
  addBox("dog", 0, 0, 5, 5, NAN);
  addBox("flat", 5, 5, 10, 0, 0.5f);
  addBox("inside out", 5, 5, -10, 10, 0.5f);
  GstAnalyticsODMtd turned;
  gst_analytics_relation_meta_add_oriented_od_mtd(meta(), 0, 10, 20, 30, 40, 0.5f, -1.0f, &turned);
  ASSERT_EQ(scene().boxes.size(), 4u) << "those without a size are not there";
  EXPECT_EQ(scene_.boxes[0], (OverlayBox{{1, 2, 30, 40}, 0, g_quark_from_string("face"), 93}));
  EXPECT_EQ(scene_.boxes[1].percent, 100);
  EXPECT_EQ(scene_.boxes[2].percent, -1);
  EXPECT_EQ(scene_.boxes[3], (OverlayBox{{10, 20, 30, 40}, 0.5f, 0, -1}));
}

TEST_F(Metadata, KeypointsOfABox) {
  const guint box = addBox("face", 1, 2, 30, 40, 0.9f);
  const gfloat positions[] = {1.5f, 2, NAN, 4, 5, INFINITY, 7, 8, 9, 10}, scores[] = {0.5f, 1, 1, 0.001f, NAN};
  GstZcKeypointsMtd points;
  ASSERT_TRUE(gst_analytics_relation_meta_add_zc_keypoints_mtd(meta(), 10, positions, 5, scores, &points));
  gst_analytics_relation_meta_set_relation(meta(), GST_ANALYTICS_REL_TYPE_IS_PART_OF, points.id, box);
  ASSERT_EQ(scene().points.size(), 2u) << "no numbers, and one that the model does not believe in";
  EXPECT_EQ(scene_.points[0], (OverlayPoint{1.5f, 2, g_quark_from_string("face")}));
  EXPECT_EQ(scene_.points[1], (OverlayPoint{9, 10, g_quark_from_string("face")}));
}

TEST_F(Metadata, ASegmentationWithNames) {
  guint regions[] = {0, 5, 9};
  GstAnalyticsSegmentationMtd mtd;
  const BufferRef pixels = picture(GST_VIDEO_FORMAT_GRAY8, 2, 2, {0, 5, 9, 0});
  ASSERT_TRUE(gst_analytics_relation_meta_add_segmentation_mtd(
      meta(), gst_buffer_ref(pixels.get()), GST_SEGMENTATION_TYPE_SEMANTIC, 3, regions, 10, 20, 300, 200, &mtd));
  gfloat levels[] = {-1, -1, -1};
  GQuark names[] = {g_quark_from_string("ground"), g_quark_from_string("cat"), g_quark_from_string("dog")};
  GstAnalyticsClsMtd classes;
  gst_analytics_relation_meta_add_cls_mtd(meta(), 3, levels, names, &classes);
  gst_analytics_relation_meta_set_relation(meta(), GST_ANALYTICS_REL_TYPE_N_TO_N, mtd.id, classes.id);
  gst_analytics_relation_meta_set_relation(meta(), GST_ANALYTICS_REL_TYPE_N_TO_N, classes.id, mtd.id);
  ASSERT_EQ(scene().masks.size(), 1u);
  EXPECT_EQ(scene_.masks[0].area, (Rect{10, 20, 300, 200}));
  EXPECT_EQ(scene_.masks[0].label, 0u);
  ASSERT_EQ(scene_.masks[0].regions, 3u);
  EXPECT_EQ(scene_.regions[1], (OverlayRegion{5, names[1]}));
  EXPECT_EQ(scene_.regions[2], (OverlayRegion{9, names[2]}));
  EXPECT_TRUE(scene_.texts.empty()) << "names of regions are no findings";
}

TEST_F(Metadata, AnInstanceBelongsToItsBox) {
  const guint box = addBox("cat", 1, 2, 30, 40, 0.9f);
  guint regions[] = {0, 1};
  GstAnalyticsSegmentationMtd mtd;
  BufferRef pixels = picture(GST_VIDEO_FORMAT_GRAY8, 2, 2, {0, 1, 1, 0});
  gst_analytics_relation_meta_add_segmentation_mtd(meta(), gst_buffer_ref(pixels.get()), GST_SEGMENTATION_TYPE_INSTANCE,
                                                   2, regions, 0, 0, 0, 0, &mtd);
  gst_analytics_relation_meta_set_relation(meta(), GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id, box);
  ASSERT_EQ(scene().masks.size(), 1u);
  EXPECT_EQ(scene_.masks[0].label, g_quark_from_string("cat"));
  EXPECT_EQ(scene_.masks[0].area, (Rect{0, 0, 640, 480})) << "where it says nothing it is the frame's";
  EXPECT_EQ(scene_.masks[0].pixels.get(), pixels.get());
}

TEST_F(Metadata, ClassesOfTheFrameAndOfABox) {
  addBox("car", 0, 0, 5, 5, 0.5f);
  const guint box = addBox("car", 1, 2, 30, 40, 0.9f);
  gfloat levels[] = {0.2f, 0.7f};
  GQuark names[] = {g_quark_from_string("blue"), g_quark_from_string("red")};
  GstAnalyticsClsMtd of_frame, of_box;
  gst_analytics_relation_meta_add_cls_mtd(meta(), 2, levels, names, &of_frame);
  gst_analytics_relation_meta_add_cls_mtd(meta(), 2, levels, names, &of_box);
  gst_analytics_relation_meta_set_relation(meta(), GST_ANALYTICS_REL_TYPE_RELATE_TO, of_box.id, box);
  ASSERT_EQ(scene().texts.size(), 2u);
  EXPECT_EQ(scene_.texts[0], (OverlayText{-1, names[1], 70}));
  EXPECT_EQ(scene_.texts[1], (OverlayText{1, names[1], 70}));
}

// A composition of one rectangle.
void attach(GstBuffer *buffer, const BufferRef &pixels, const Rect &area, GstVideoOverlayFormatFlags flags,
            float alpha) {
  GstVideoOverlayRectangle *rectangle = gst_video_overlay_rectangle_new_raw(
      pixels.get(), area.x, area.y, static_cast<guint>(area.width), static_cast<guint>(area.height), flags);
  ASSERT_NE(rectangle, nullptr);
  if (alpha != 1) gst_video_overlay_rectangle_set_global_alpha(rectangle, alpha);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  gst_buffer_add_video_overlay_composition_meta(buffer, composition);
  gst_video_overlay_composition_unref(composition);
  gst_video_overlay_rectangle_unref(rectangle);
}

TEST_F(Metadata, RectanglesOfCompositions) {
  const BufferRef straight = picture(GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 1, 1, {10, 20, 40, 128});
  const BufferRef yuv = picture(GST_VIDEO_FORMAT_AYUV, 1, 1, {255, 235, 128, 128});
  attach(buffer_, straight, {5, 6, 7, 8}, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE, 0.5f);
  attach(buffer_, straight, {-5, -6, 100000, 80000}, GST_VIDEO_OVERLAY_FORMAT_FLAG_PREMULTIPLIED_ALPHA, 1);
  attach(buffer_, yuv, {1, 1, 1, 1}, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE, 0.5f);
  attach(buffer_, straight, {5, 6, 7, 8}, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE, 0);
  ASSERT_EQ(scene().images.size(), 3u) << "the last one cannot be seen";
  EXPECT_EQ(scene_.images[0].area, (Rect{5, 6, 7, 8}));
  EXPECT_EQ(scene_.images[0].alpha, 0.5f);
  EXPECT_FALSE(scene_.images[0].premultiplied);
  EXPECT_TRUE(scene_.images[1].premultiplied);
  EXPECT_EQ(scene_.images[1].area, (Rect{-5, -6, 100000, 80000}));
  EXPECT_EQ(pixmapOf(scene_.images[0].pixels.get(), false, 0.5, 1)->pixels[0], 0x400a0503u);
  const OverlayScene before = scene_;
  EXPECT_EQ(scene(), before) << "nothing is made anew for a frame that says the same";
}

TEST_F(Metadata, NoCompositionInTheComposition) {
  GstVideoOverlayComposition *none = gst_video_overlay_composition_new(nullptr);
  gst_buffer_add_video_overlay_composition_meta(buffer_, none);
  gst_video_overlay_composition_unref(none);
  EXPECT_TRUE(scene().empty());
}

TEST_F(Metadata, OddBuffersAreLeftOut) {
  GstBuffer *bare = gst_buffer_new_allocate(nullptr, 16, nullptr);
  guint regions[] = {0, 1};
  GstAnalyticsSegmentationMtd mtd;
  // claims more than there is
  gsize offset[4] = {};
  gint stride[4] = {1000};
  gst_buffer_add_video_meta_full(bare, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, 1000, 1000, 1, offset,
                                 stride);
  gst_analytics_relation_meta_add_segmentation_mtd(meta(), bare, GST_SEGMENTATION_TYPE_INSTANCE, 2, regions, 0, 0,
                                                   UINT_MAX, UINT_MAX, &mtd);
  DrawListMaker maker;
  std::vector<DrawItem> items;
  maker.make(scene(), {}, oneToOne(64, 48), nullptr, items);
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(pixmapOf(bare, false, 1, 1), nullptr);
  EXPECT_EQ(pixmapOf(nullptr, false, 1, 1), nullptr);
}

TEST(CompositionCaps, EachStructureOnceMoreWithTheFeature) {
  GstCaps *plain = gst_caps_from_string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12;"
                                        "video/x-raw,format=NV12");
  GstCaps *expected =
      gst_caps_from_string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12;video/x-raw,format=NV12;"
                           "video/x-raw(memory:DMABuf,meta:GstVideoOverlayComposition),format=DMA_DRM,drm-format=NV12;"
                           "video/x-raw(memory:SystemMemory,meta:GstVideoOverlayComposition),format=NV12");
  GstCaps *both = withCompositions(plain);
  EXPECT_TRUE(gst_caps_is_strictly_equal(both, expected)) << gst_caps_to_string(both);
  GstCaps *text = gst_caps_from_string(
      "video/x-raw(memory:SystemMemory,meta:GstVideoOverlayComposition),format=NV12,width=64,height=48");
  EXPECT_TRUE(gst_caps_is_subset(text, both)) << "as textoverlay writes them";
  GstCaps *stripped = withoutCompositions(text),
          *bare = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
  EXPECT_TRUE(gst_caps_is_strictly_equal(stripped, bare));
  for (GstCaps *caps : {plain, expected, both, text, stripped, bare}) gst_caps_unref(caps);
}

} // namespace
