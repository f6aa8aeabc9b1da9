// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/scene_from_buffer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>

#include "gst/zerocopy/gstzckeypointmtd.h"
#include "gstzc-config.h"

namespace gstzc {
namespace {

constexpr float kLeastSure = 0.05f; // keypoints that a model believes in less are not there

int percentOf(float score) {
  return std::isfinite(score) && score >= 0 ? static_cast<int>(std::lround(std::min(score, 1.0f) * 100)) : -1;
}

// The first entry of `type` that `id` stands in that relation to.
bool relatedTo(GstAnalyticsRelationMeta *meta, guint id, GstAnalyticsRelTypes relation, GstAnalyticsMtdType type,
               GstAnalyticsMtd *found) {
  gpointer state = nullptr;
  return gst_analytics_relation_meta_get_direct_related(meta, id, relation, type, &state, found);
}

class AnalyticsReader {
public:
  AnalyticsReader(GstAnalyticsRelationMeta *meta, const Rect &frame, OverlayScene &scene)
      : meta_(meta), frame_(frame), scene_(scene) {}

  void read() {
    forEach(gst_analytics_od_mtd_get_mtd_type(), [&](GstAnalyticsMtd &mtd) { addBox(mtd); });
    forEach(gst_analytics_segmentation_mtd_get_mtd_type(), [&](GstAnalyticsMtd &mtd) { addMask(mtd); });
    forEach(gst_analytics_cls_mtd_get_mtd_type(), [&](GstAnalyticsMtd &mtd) { addClasses(mtd); });
#if GSTZC_HAVE_ANALYTICS_KEYPOINTS
    forEach(gst_analytics_keypoint_mtd_get_mtd_type(), [&](GstAnalyticsMtd &mtd) { addKeypoint(mtd); });
#endif
    forEach(gst_zc_keypoints_mtd_get_mtd_type(), [&](GstAnalyticsMtd &mtd) { addKeypoints(mtd); });
  }

private:
  template <typename Do> void forEach(GstAnalyticsMtdType type, Do what) {
    gpointer state = nullptr;
    GstAnalyticsMtd mtd;
    while (gst_analytics_relation_meta_iterate(meta_, &state, type, &mtd)) what(mtd);
  }

  void addBox(GstAnalyticsMtd &mtd) {
    gint x = 0, y = 0, width = 0, height = 0;
    gfloat angle = 0, score = 0;
    if (!gst_analytics_od_mtd_get_oriented_location(&mtd, &x, &y, &width, &height, &angle, &score)) return;
    if (width <= 0 || height <= 0) return;
    scene_.boxes.push_back({{x, y, width, height},
                            std::isfinite(angle) ? angle : 0,
                            gst_analytics_od_mtd_get_obj_type(&mtd),
                            percentOf(score)});
  }

  // The object that something is about or part of: its name, 0 where there is none.
  uint32_t objectOf(guint id) const {
    GstAnalyticsMtd object;
    for (const GstAnalyticsRelTypes relation : {GST_ANALYTICS_REL_TYPE_IS_PART_OF, GST_ANALYTICS_REL_TYPE_RELATE_TO})
      if (relatedTo(meta_, id, relation, gst_analytics_od_mtd_get_mtd_type(), &object))
        return gst_analytics_od_mtd_get_obj_type(&object);
    return 0;
  }

  void addMask(GstAnalyticsMtd &mtd) {
    gint x = 0, y = 0;
    guint width = 0, height = 0;
    BufferRef pixels = BufferRef::adopt(gst_analytics_segmentation_mtd_get_mask(&mtd, &x, &y, &width, &height));
    const auto side = [](guint v) { return static_cast<int>(std::min<guint>(v, std::numeric_limits<int>::max())); };
    OverlayMask mask;
    mask.area = width == 0 || height == 0 ? frame_ : Rect{x, y, side(width), side(height)};
    if (pixels.get() == nullptr || gst_buffer_get_video_meta(pixels.get()) == nullptr) return;
    mask.pixels = std::move(pixels);
    mask.first_region = static_cast<uint32_t>(scene_.regions.size());
    GstAnalyticsMtd names;
    if (relatedTo(meta_, mtd.id, GST_ANALYTICS_REL_TYPE_N_TO_N, gst_analytics_cls_mtd_get_mtd_type(), &names)) {
      const gsize known = std::min<gsize>(gst_analytics_segmentation_mtd_get_region_count(&mtd),
                                          gst_analytics_cls_mtd_get_length(&names));
      for (gsize i = 0; i < known; ++i)
        scene_.regions.push_back(
            {gst_analytics_segmentation_mtd_get_region_id(&mtd, i), gst_analytics_cls_mtd_get_quark(&names, i)});
      mask.regions = static_cast<uint32_t>(known);
    } else {
      mask.label = objectOf(mtd.id);
    }
    scene_.masks.push_back(std::move(mask));
  }

  // The best of them is shown: beside its object's box, or for the frame. Names of a mask's regions are no findings.
  void addClasses(GstAnalyticsMtd &mtd) {
    GstAnalyticsMtd other;
    if (relatedTo(meta_, mtd.id, GST_ANALYTICS_REL_TYPE_N_TO_N, gst_analytics_segmentation_mtd_get_mtd_type(), &other))
      return;
    const gsize n = gst_analytics_cls_mtd_get_length(&mtd);
    gsize best = 0;
    for (gsize i = 1; i < n; ++i)
      if (gst_analytics_cls_mtd_get_level(&mtd, i) > gst_analytics_cls_mtd_get_level(&mtd, best)) best = i;
    if (n == 0) return;
    OverlayText text;
    text.label = gst_analytics_cls_mtd_get_quark(&mtd, best);
    text.percent = percentOf(gst_analytics_cls_mtd_get_level(&mtd, best));
    if (relatedTo(meta_, mtd.id, GST_ANALYTICS_REL_TYPE_ANY, gst_analytics_od_mtd_get_mtd_type(), &other)) {
      gint x, y, width, height;
      if (!gst_analytics_od_mtd_get_location(&other, &x, &y, &width, &height, nullptr)) return;
      const Rect area{x, y, width, height};
      const auto box =
          std::find_if(scene_.boxes.begin(), scene_.boxes.end(), [&](const OverlayBox &b) { return b.area == area; });
      if (box == scene_.boxes.end()) return;
      text.box = static_cast<int>(box - scene_.boxes.begin());
    }
    scene_.texts.push_back(text);
  }

  void addPoint(float x, float y, float score, uint32_t label) {
    if (!std::isfinite(x) || !std::isfinite(y) || (std::isfinite(score) && score >= 0 && score < kLeastSure)) return;
    scene_.points.push_back({x, y, label});
  }

  void addKeypoints(GstAnalyticsMtd &mtd) {
    const uint32_t label = objectOf(mtd.id);
    const gsize n = gst_zc_keypoints_mtd_get_count(&mtd);
    for (gsize i = 0; i < n; ++i) {
      gfloat x = 0, y = 0, score = -1;
      if (gst_zc_keypoints_mtd_get_position(&mtd, i, &x, &y, &score)) addPoint(x, y, score, label);
    }
  }

#if GSTZC_HAVE_ANALYTICS_KEYPOINTS
  void addKeypoint(GstAnalyticsMtd &mtd) {
    gint x = 0, y = 0;
    gfloat score = -1;
    GstAnalyticsKeypointDimensions dimensions;
    if (!gst_analytics_keypoint_mtd_get_position(&mtd, &x, &y, nullptr, &dimensions)) return;
    (void)gst_analytics_keypoint_mtd_get_confidence(&mtd, &score);
    // a point is part of a group, the group of an object
    GstAnalyticsMtd group;
    const bool grouped =
        relatedTo(meta_, mtd.id, GST_ANALYTICS_REL_TYPE_IS_PART_OF, gst_analytics_group_mtd_get_mtd_type(), &group);
    addPoint(static_cast<float>(x), static_cast<float>(y), score, objectOf(grouped ? group.id : mtd.id));
  }
#endif

  GstAnalyticsRelationMeta *meta_;
  const Rect frame_;
  OverlayScene &scene_;
};

void addRectangle(GstVideoOverlayRectangle *rectangle, OverlayScene &scene) {
  gint x = 0, y = 0;
  guint width = 0, height = 0;
  if (!gst_video_overlay_rectangle_get_render_rectangle(rectangle, &x, &y, &width, &height)) return;
  const auto side = [](guint v) { return static_cast<int>(std::min<guint>(v, std::numeric_limits<int>::max())); };
  if (side(width) == 0 || side(height) == 0) return;
  // As they are, the alpha for the whole left out: nothing is converted for a frame that shows the same.
  const auto flags = static_cast<GstVideoOverlayFormatFlags>(gst_video_overlay_rectangle_get_flags(rectangle) |
                                                             GST_VIDEO_OVERLAY_FORMAT_FLAG_GLOBAL_ALPHA);
  GstBuffer *pixels = gst_video_overlay_rectangle_get_pixels_unscaled_raw(rectangle, flags);
  if (pixels == nullptr || gst_buffer_get_video_meta(pixels) == nullptr) return;
  OverlayImage image;
  image.area = {x, y, side(width), side(height)};
  image.pixels = BufferRef(pixels);
  image.alpha = gst_video_overlay_rectangle_get_global_alpha(rectangle);
  image.premultiplied = (flags & GST_VIDEO_OVERLAY_FORMAT_FLAG_PREMULTIPLIED_ALPHA) != 0;
  if (image.alpha > 0) scene.images.push_back(std::move(image));
}

} // namespace

void sceneFromBuffer(GstBuffer *buffer, int width, int height, OverlayScene &scene) {
  scene.clear();
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_ANALYTICS_RELATION_META_API_TYPE))
    AnalyticsReader(reinterpret_cast<GstAnalyticsRelationMeta *>(meta), {0, 0, width, height}, scene).read();
  state = nullptr;
  while (GstMeta *meta =
             gst_buffer_iterate_meta_filtered(buffer, &state, GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE)) {
    GstVideoOverlayComposition *overlay = reinterpret_cast<GstVideoOverlayCompositionMeta *>(meta)->overlay;
    const guint n = overlay != nullptr ? gst_video_overlay_composition_n_rectangles(overlay) : 0;
    for (guint i = 0; i < n; ++i) addRectangle(gst_video_overlay_composition_get_rectangle(overlay, i), scene);
  }
}

} // namespace gstzc
