// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/composition_caps.h"

#include <gst/video/video.h>

namespace gstzc {
namespace {

GstCapsFeatures *featuresOf(const GstCaps *caps, guint index) {
  const GstCapsFeatures *had = gst_caps_get_features(caps, index);
  return had != nullptr ? gst_caps_features_copy(had) : gst_caps_features_new_empty();
}

} // namespace

GstCaps *withCompositions(const GstCaps *caps) {
  GstCaps *both = gst_caps_copy(caps);
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    GstCapsFeatures *features = featuresOf(caps, i);
    if (!gst_caps_features_is_any(features))
      gst_caps_features_add(features, GST_CAPS_FEATURE_META_GST_VIDEO_OVERLAY_COMPOSITION);
    gst_caps_append_structure_full(both, gst_structure_copy(gst_caps_get_structure(caps, i)), features);
  }
  return both;
}

GstCaps *withoutCompositions(const GstCaps *caps) {
  GstCaps *plain = gst_caps_copy(caps);
  for (guint i = 0; i < gst_caps_get_size(plain); ++i) {
    GstCapsFeatures *features = featuresOf(plain, i);
    if (!gst_caps_features_is_any(features))
      gst_caps_features_remove(features, GST_CAPS_FEATURE_META_GST_VIDEO_OVERLAY_COMPOSITION);
    gst_caps_set_features(plain, i, features);
  }
  return plain;
}

} // namespace gstzc
