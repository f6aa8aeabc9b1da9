// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/findings_meta.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>

#include "gst/zerocopy/gstzckeypointmtd.h"
#include "gstzc-config.h"

namespace gstzc::infer {
namespace {

// Quarks are never freed: a broken model must not make one for each number there is.
constexpr int kMostNumberedClass = 9999;

std::string nameOf(const std::string &label, int index) {
  if (!label.empty()) return label;
  return index >= 0 && index <= kMostNumberedClass ? std::to_string(index) : "unknown";
}

GQuark quarkOf(const std::string &label, int index) { return g_quark_from_string(nameOf(label, index).c_str()); }

bool isUsable(const FrameMask &mask) {
  return mask.columns > 0 && mask.rows > 0 && mask.width > 0 && mask.height > 0 &&
         mask.values.size() == static_cast<size_t>(mask.columns) * static_cast<size_t>(mask.rows);
}

// The meta's own growth is in small steps, and each copies all that it has.
GstAnalyticsRelationMeta *relationMeta(GstBuffer *buffer, const FrameFindings &findings) {
  if (GstAnalyticsRelationMeta *there = gst_buffer_get_analytics_relation_meta(buffer)) return there;
  gsize entries = 3, bytes = 1024 + 16 * findings.classes.size(); // classes; a segmentation and its names
  for (const FrameBox &box : findings.boxes) {
    entries += 1 + (box.keypoints.empty() ? 0 : 1) + (box.mask ? 1 : 0);
    bytes += 256 + 16 * box.keypoints.size();
  }
  GstAnalyticsRelationMetaInitParams room = {std::max<gsize>(entries, 8), bytes};
  GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta_full(buffer, &room);
  // On a pool's buffer it would stay, empty: the next frame would look as if nothing had been found in it.
  auto *base = reinterpret_cast<GstMeta *>(meta);
  base->flags = static_cast<GstMetaFlags>(base->flags & ~GST_META_FLAG_POOLED);
  return meta;
}

// Adds findings and relates them to each other.
class Attacher {
public:
  Attacher(GstAnalyticsRelationMeta *meta, const OutputOptions &options) : meta_(meta), options_(options) {
    GstAnalyticsODMtd object;
    if (options.object && *options.object < gst_analytics_relation_get_length(meta) &&
        gst_analytics_relation_meta_get_od_mtd(meta, *options.object, &object))
      object_ = object.id;
  }

  guint add(const FrameBox &box) {
    GstAnalyticsODMtd mtd;
    gst_analytics_relation_meta_add_od_mtd(meta_, quarkOf(box.label, box.index), box.x, box.y, box.width, box.height,
                                           box.score, &mtd);
    if (object_) contain(*object_, mtd.id);
    if (!box.keypoints.empty()) contain(mtd.id, addKeypoints(box));
    if (box.mask && isUsable(*box.mask)) relate(mtd.id, addInstance(*box.mask));
    return mtd.id;
  }

  void add(const std::vector<FrameClass> &classes) {
    std::vector<gfloat> scores;
    std::vector<GQuark> names;
    for (const FrameClass &c : classes) {
      scores.push_back(c.score);
      names.push_back(quarkOf(c.label, c.index));
    }
    const guint id = addClasses(scores, names);
    if (object_) relate(*object_, id);
  }

  void add(const FrameMask &segmentation) {
    const guint8 highest = *std::max_element(segmentation.values.begin(), segmentation.values.end());
    std::vector<guint> regions;
    std::vector<GQuark> names;
    static const std::string none;
    for (guint c = 0; c <= highest; ++c) {
      regions.push_back(c);
      names.push_back(quarkOf(options_.labels != nullptr && c < options_.labels->size() ? (*options_.labels)[c] : none,
                              static_cast<int>(c)));
    }
    const guint id = addMask(segmentation, segmentation.values, GST_SEGMENTATION_TYPE_SEMANTIC, regions);
    const guint named = addClasses(std::vector<gfloat>(names.size(), -1.0f), names); // -1: of no known confidence
    set(GST_ANALYTICS_REL_TYPE_N_TO_N, id, named);
    set(GST_ANALYTICS_REL_TYPE_N_TO_N, named, id);
    if (object_) relate(*object_, id);
  }

private:
  void set(GstAnalyticsRelTypes type, guint from, guint to) {
    gst_analytics_relation_meta_set_relation(meta_, type, from, to);
  }
  void contain(guint outer, guint inner) {
    set(GST_ANALYTICS_REL_TYPE_CONTAIN, outer, inner);
    set(GST_ANALYTICS_REL_TYPE_IS_PART_OF, inner, outer);
  }
  void relate(guint a, guint b) {
    set(GST_ANALYTICS_REL_TYPE_RELATE_TO, a, b);
    set(GST_ANALYTICS_REL_TYPE_RELATE_TO, b, a);
  }

  guint addClasses(std::vector<gfloat> scores, std::vector<GQuark> names) {
    GstAnalyticsClsMtd mtd;
    gst_analytics_relation_meta_add_cls_mtd(meta_, names.size(), scores.data(), names.data(), &mtd);
    return mtd.id;
  }

  guint addKeypoints(const FrameBox &box) {
#if GSTZC_HAVE_ANALYTICS_KEYPOINTS
    std::vector<gint> positions;
    std::vector<gfloat> scores;
    const auto pixel = [](float v) { // also where a model gives no number
      constexpr double kMost = std::numeric_limits<gint>::max();
      return std::isfinite(v) ? static_cast<gint>(std::lround(std::clamp<double>(v, -kMost, kMost))) : 0;
    };
    for (const Point &point : box.keypoints) {
      positions.push_back(pixel(point.x));
      positions.push_back(pixel(point.y));
      scores.push_back(point.score);
    }
    const std::string tag =
        nameOf(box.label, box.index) + "-" + std::to_string(box.keypoints.size()) + "-kp"; // as upstream: "face-6-kp"
    GstAnalyticsGroupMtd mtd;
    gst_analytics_relation_meta_add_keypoints_group(meta_, tag.c_str(), GST_ANALYTICS_KEYPOINT_DIMENSIONS_2D,
                                                    positions.size(), positions.data(), scores.size(), scores.data(),
                                                    nullptr, 0, nullptr, &mtd);
#else
    std::vector<gfloat> positions, scores;
    for (const Point &point : box.keypoints) {
      positions.push_back(point.x);
      positions.push_back(point.y);
      scores.push_back(point.score);
    }
    GstZcKeypointsMtd mtd;
    gst_analytics_relation_meta_add_zc_keypoints_mtd(meta_, positions.size(), positions.data(), scores.size(),
                                                     scores.data(), &mtd);
#endif
    return mtd.id;
  }

  guint addInstance(const FrameMask &mask) {
    const guint8 region = static_cast<guint8>(instances_++ % 255 + 1);
    std::vector<guint8> values(mask.values.size());
    std::transform(mask.values.begin(), mask.values.end(), values.begin(),
                   [region](guint8 v) { return v != 0 ? region : guint8{0}; });
    return addMask(mask, values, GST_SEGMENTATION_TYPE_INSTANCE, {0, region});
  }

  guint addMask(const FrameMask &mask, const std::vector<guint8> &values, GstSegmentationType type,
                std::vector<guint> regions) {
    GstBuffer *picture = gst_buffer_new_memdup(values.data(), values.size());
    gsize offset[GST_VIDEO_MAX_PLANES] = {};
    gint stride[GST_VIDEO_MAX_PLANES] = {mask.columns};
    gst_buffer_add_video_meta_full(picture, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8,
                                   static_cast<guint>(mask.columns), static_cast<guint>(mask.rows), 1, offset, stride);
    GstAnalyticsSegmentationMtd mtd;
    gst_analytics_relation_meta_add_segmentation_mtd(meta_, picture, type, regions.size(), regions.data(), mask.x,
                                                     mask.y, static_cast<guint>(mask.width),
                                                     static_cast<guint>(mask.height), &mtd);
    return mtd.id;
  }

  GstAnalyticsRelationMeta *meta_;
  const OutputOptions &options_;
  std::optional<guint> object_;
  size_t instances_ = 0;
};

} // namespace

std::vector<guint> attachFindings(GstBuffer *buffer, const FrameFindings &findings, const OutputOptions &options) {
  Attacher attacher(relationMeta(buffer, findings), options);
  std::vector<guint> ids;
  for (const FrameBox &box : findings.boxes) ids.push_back(attacher.add(box));
  if (!findings.classes.empty()) attacher.add(findings.classes);
  if (findings.segmentation && isUsable(*findings.segmentation)) attacher.add(*findings.segmentation);
  return ids;
}

std::vector<std::string> parseObjectClasses(const std::string &list) {
  std::vector<std::string> classes;
  for (size_t start = 0; start <= list.size();) {
    const size_t end = std::min(list.find(',', start), list.size());
    const size_t first = list.find_first_not_of(" \t", start);
    if (first < end) classes.push_back(list.substr(first, list.find_last_not_of(" \t", end - 1) + 1 - first));
    start = end + 1;
  }
  return classes;
}

std::vector<RegionObject> objectsOf(GstBuffer *buffer, const std::vector<std::string> &classes) {
  std::vector<RegionObject> objects;
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (meta == nullptr) return objects;
  gpointer state = nullptr;
  GstAnalyticsODMtd mtd;
  while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &mtd)) {
    const GQuark label = gst_analytics_od_mtd_get_obj_type(&mtd);
    const gchar *name = g_quark_to_string(label);
    if (!classes.empty() && (name == nullptr || std::find(classes.begin(), classes.end(), name) == classes.end()))
      continue;
    gint x = 0, y = 0, width = 0, height = 0;
    gst_analytics_od_mtd_get_location(&mtd, &x, &y, &width, &height, nullptr);
    if (width <= 0 || height <= 0) continue;
    objects.push_back(
        {mtd.id,
         label,
         {static_cast<double>(x), static_cast<double>(y), static_cast<double>(width), static_cast<double>(height)}});
  }
  return objects;
}

} // namespace gstzc::infer
