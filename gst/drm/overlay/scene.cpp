// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/scene.h"

#include <algorithm>
#include <cstring>

#include <gst/video/video.h>

namespace gstzc {
namespace {

// Elements that repeat results for frames that they did not look at attach the same mask in a new buffer.
bool sameBytes(GstBuffer *a, GstBuffer *b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || gst_buffer_get_size(a) != gst_buffer_get_size(b)) return false;
  const GstVideoMeta *ma = gst_buffer_get_video_meta(a), *mb = gst_buffer_get_video_meta(b);
  if (ma == nullptr || mb == nullptr || ma->format != mb->format || ma->width != mb->width ||
      ma->height != mb->height || ma->offset[0] != mb->offset[0] || ma->stride[0] != mb->stride[0])
    return false;
  if (gst_buffer_get_size(a) == 0) return true; // there is nothing to compare, which GStreamer takes for a mistake
  GstMapInfo map;
  if (!gst_buffer_map(a, &map, GST_MAP_READ)) return false;
  const bool same = gst_buffer_memcmp(b, 0, map.data, map.size) == 0;
  gst_buffer_unmap(a, &map);
  return same;
}

} // namespace

bool OverlayMask::operator==(const OverlayMask &other) const {
  return area == other.area && label == other.label && first_region == other.first_region && regions == other.regions &&
         sameBytes(pixels.get(), other.pixels.get());
}

void OverlayScene::clear() {
  masks.clear();
  boxes.clear();
  points.clear();
  texts.clear();
  images.clear();
  regions.clear();
}

} // namespace gstzc
