// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzckeypointmtd
 * @title: GstZcKeypointsMtd
 * @short_description: Keypoints of a detected object
 *
 * The keypoints of one object (the eyes of a face, the joints of a body) as a kind of analytics metadata. GStreamer has
 * one of its own from 1.30 on; this is for the versions before. Which point of a set is which, the model's
 * documentation says: a set keeps the model's order.
 *
 * fenceinfer relates a set to the object detection that it belongs to: the detection contains the set, the set is part
 * of the detection.
 *
 * |[<!-- language="C" -->
 * GstZcKeypointsMtd points;
 * gpointer state = NULL;
 * while (gst_analytics_relation_meta_get_direct_related(meta, face.id, GST_ANALYTICS_REL_TYPE_CONTAIN,
 *                                                       gst_zc_keypoints_mtd_get_mtd_type(), &state, &points))
 *   for (gsize i = 0; i < gst_zc_keypoints_mtd_get_count(&points); i++) {
 *     gfloat x, y;
 *     gst_zc_keypoints_mtd_get_position(&points, i, &x, &y, NULL);
 *   }
 * ]|
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzckeypointmtd.h"

#include <cstdint>

#include <gst/video/video.h>

namespace {

struct Keypoint {
  gfloat x, y, confidence;
};

// What lies in the relation meta: this and `count` keypoints behind it.
struct Header {
  guint64 count;
};

Header *header_of(const GstAnalyticsMtd *mtd) {
  return static_cast<Header *>(gst_analytics_relation_meta_get_mtd_data(mtd->meta, mtd->id));
}

Keypoint *points_of(Header *header) { return reinterpret_cast<Keypoint *>(header + 1); }

#if GST_CHECK_VERSION(1, 28, 0)
// `matrix` maps homogeneous coordinates of in_rectangle to those of out_rectangle.
bool apply(const GstVideoMetaTransformMatrix &transform, Keypoint *point) {
  const auto &m = transform.matrix;
  const float x = point->x - static_cast<float>(transform.in_rectangle.x);
  const float y = point->y - static_cast<float>(transform.in_rectangle.y);
  const float w = m[2][0] * x + m[2][1] * y + m[2][2];
  if (w == 0) return false;
  point->x = (m[0][0] * x + m[0][1] * y + m[0][2]) / w + static_cast<float>(transform.out_rectangle.x);
  point->y = (m[1][0] * x + m[1][1] * y + m[1][2]) / w + static_cast<float>(transform.out_rectangle.y);
  return true;
}
#endif

// The relation meta has copied the data; here they follow what happens to the picture.
gboolean mtd_transform(GstBuffer *, GstAnalyticsMtd *mtd, GstBuffer *, GQuark type, gpointer data) {
  Header *header = header_of(mtd);
  Keypoint *points = points_of(header);
#if GST_CHECK_VERSION(1, 28, 0)
  if (GST_VIDEO_META_TRANSFORM_IS_MATRIX(type)) {
    for (guint64 i = 0; i < header->count; ++i)
      if (!apply(*static_cast<const GstVideoMetaTransformMatrix *>(data), &points[i])) return FALSE;
    return TRUE;
  }
#endif
  if (!GST_VIDEO_META_TRANSFORM_IS_SCALE(type)) return TRUE;
  const auto *scale = static_cast<const GstVideoMetaTransform *>(data);
  const auto ratio = [](gint to, gint from) { return static_cast<float>(to) / static_cast<float>(from); };
  const float x = ratio(GST_VIDEO_INFO_WIDTH(scale->out_info), GST_VIDEO_INFO_WIDTH(scale->in_info));
  const float y = ratio(GST_VIDEO_INFO_HEIGHT(scale->out_info), GST_VIDEO_INFO_HEIGHT(scale->in_info));
  for (guint64 i = 0; i < header->count; ++i) {
    points[i].x *= x;
    points[i].y *= y;
  }
  return TRUE;
}

const GstAnalyticsMtdImpl keypoints_impl = {"zc-keypoints", mtd_transform, nullptr, {}};

bool is_keypoints(const GstAnalyticsMtd *mtd) {
  return gst_analytics_mtd_get_mtd_type(mtd) == gst_zc_keypoints_mtd_get_mtd_type();
}

} // namespace

/**
 * gst_zc_keypoints_mtd_get_mtd_type:
 *
 * Returns: what tells keypoints from other analytics metadata
 *
 * Since: 0.1
 */
GstAnalyticsMtdType gst_zc_keypoints_mtd_get_mtd_type(void) {
  return reinterpret_cast<GstAnalyticsMtdType>(&keypoints_impl);
}

/**
 * gst_analytics_relation_meta_add_zc_keypoints_mtd:
 * @meta: a #GstAnalyticsRelationMeta
 * @n_positions: numbers in @positions: two for each keypoint
 * @positions: (array length=n_positions): x and y of the first keypoint, of the second…, in pixels from the left and
 *   top edge of the frame; they may lie outside of it
 * @n_confidences: numbers in @confidences: one for each keypoint, or 0
 * @confidences: (array length=n_confidences) (nullable): how sure the model is of each, 0…1; %NULL: it does not say,
 *   which counts as 1
 * @mtd: (out caller-allocates): the set that was added
 *
 * Adds the keypoints of one object.
 *
 * Returns: %TRUE if they were added
 *
 * Since: 0.1
 */
gboolean gst_analytics_relation_meta_add_zc_keypoints_mtd(GstAnalyticsRelationMeta *meta, gsize n_positions,
                                                          const gfloat *positions, gsize n_confidences,
                                                          const gfloat *confidences, GstZcKeypointsMtd *mtd) {
  g_return_val_if_fail(meta != nullptr && mtd != nullptr, FALSE);
  g_return_val_if_fail(n_positions % 2 == 0, FALSE);
  g_return_val_if_fail(positions != nullptr || n_positions == 0, FALSE);
  g_return_val_if_fail(n_confidences == 0 || n_confidences == n_positions / 2, FALSE);
  g_return_val_if_fail(confidences != nullptr || n_confidences == 0, FALSE);
  const gsize count = n_positions / 2;
  g_return_val_if_fail(count <= (G_MAXSIZE / 2 - sizeof(Header)) / sizeof(Keypoint), FALSE);
  auto *header = static_cast<Header *>(
      gst_analytics_relation_meta_add_mtd(meta, &keypoints_impl, sizeof(Header) + count * sizeof(Keypoint), mtd));
  if (header == nullptr) return FALSE;
  header->count = count;
  Keypoint *points = points_of(header);
  for (gsize i = 0; i < count; ++i)
    points[i] = {positions[2 * i], positions[2 * i + 1], n_confidences > 0 ? confidences[i] : 1.0f};
  return TRUE;
}

/**
 * gst_analytics_relation_meta_get_zc_keypoints_mtd:
 * @meta: a #GstAnalyticsRelationMeta
 * @id: of an analytics metadata in it
 * @mtd: (out caller-allocates): the set of that id
 *
 * Returns: %TRUE if there are keypoints of that id
 *
 * Since: 0.1
 */
gboolean gst_analytics_relation_meta_get_zc_keypoints_mtd(GstAnalyticsRelationMeta *meta, guint id,
                                                          GstZcKeypointsMtd *mtd) {
  g_return_val_if_fail(meta != nullptr && mtd != nullptr, FALSE);
  return gst_analytics_relation_meta_get_mtd(meta, id, gst_zc_keypoints_mtd_get_mtd_type(), mtd);
}

/**
 * gst_zc_keypoints_mtd_get_count:
 * @mtd: a set of keypoints
 *
 * Returns: how many it has
 *
 * Since: 0.1
 */
gsize gst_zc_keypoints_mtd_get_count(const GstZcKeypointsMtd *mtd) {
  g_return_val_if_fail(mtd != nullptr && mtd->meta != nullptr && is_keypoints(mtd), 0);
  return static_cast<gsize>(header_of(mtd)->count);
}

/**
 * gst_zc_keypoints_mtd_get_position:
 * @mtd: a set of keypoints
 * @index: of a keypoint in it
 * @x: (out): pixels from the left edge of the frame
 * @y: (out): pixels from its top edge
 * @confidence: (out) (optional): how sure the model is of it, 0…1
 *
 * Returns: %FALSE if the set has no such keypoint
 *
 * Since: 0.1
 */
gboolean gst_zc_keypoints_mtd_get_position(const GstZcKeypointsMtd *mtd, gsize index, gfloat *x, gfloat *y,
                                           gfloat *confidence) {
  g_return_val_if_fail(mtd != nullptr && mtd->meta != nullptr && is_keypoints(mtd), FALSE);
  g_return_val_if_fail(x != nullptr && y != nullptr, FALSE);
  Header *header = header_of(mtd);
  if (index >= header->count) return FALSE;
  const Keypoint &point = points_of(header)[index];
  *x = point.x;
  *y = point.y;
  if (confidence != nullptr) *confidence = point.confidence;
  return TRUE;
}
