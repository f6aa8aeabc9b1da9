// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/upload/upload_caps.h"

#include <initializer_list>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/caps_formats.h"

namespace gstzc {
namespace {

GstCapsFeatures *dmabufFeatures() { return gst_caps_features_new_single(GST_CAPS_FEATURE_MEMORY_DMABUF); }

bool isSystem(const GstCapsFeatures *features) {
  return gst_caps_features_is_equal(features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY);
}

bool isDmaBuf(const GstCapsFeatures *features) {
  return !gst_caps_features_is_any(features) && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_DMABUF);
}

} // namespace

GstCaps *uploadedCaps(const GstCaps *caps) {
  GstCaps *result = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure *structure = gst_caps_get_structure(caps, i);
    const GstCapsFeatures *features = gst_caps_get_features(caps, i);
    if (isDmaBuf(features)) {
      if (!isDrmNotation(structure))
        if (GstStructure *drm = linearDrmStructure(structure); drm != nullptr)
          appendDistinct(result, drm, dmabufFeatures());
      appendDistinct(result, gst_structure_copy(structure), gst_caps_features_copy(features));
    } else if (isSystem(features)) {
      if (GstStructure *drm = linearDrmStructure(structure); drm != nullptr)
        appendDistinct(result, drm, dmabufFeatures());
    }
  }
  return result;
}

GstCaps *uploadableCaps(const GstCaps *caps) {
  GstCaps *result = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); ++i)
    if (isDmaBuf(gst_caps_get_features(caps, i)))
      appendDistinct(result, gst_structure_copy(gst_caps_get_structure(caps, i)),
                     gst_caps_features_copy(gst_caps_get_features(caps, i)));
  for (const bool dmabuf : {true, false})
    for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
      const GstStructure *structure = gst_caps_get_structure(caps, i);
      if (!isDmaBuf(gst_caps_get_features(caps, i)) || !isDrmNotation(structure)) continue;
      if (GstStructure *plain = plainStructure(structure, false); plain != nullptr)
        appendDistinct(result, plain, dmabuf ? dmabufFeatures() : nullptr);
    }
  return result;
}

GstCaps *uploadSinkCaps() {
  GstCaps *caps = gst_caps_new_empty();
  // no list of drm-formats: those that already come in dma-bufs pass with any modifier
  gst_caps_append_structure_full(caps, anyDrmStructure(), dmabufFeatures());
  gst_caps_append_structure_full(caps, anyPlainStructure(), dmabufFeatures());
  gst_caps_append_structure(caps, anyPlainStructure());
  return caps;
}

GstCaps *uploadSrcCaps() {
  GstCaps *caps = gst_caps_new_empty();
  gst_caps_append_structure_full(caps, anyDrmStructure(), dmabufFeatures());
  gst_caps_append_structure_full(caps, anyPlainStructure(), dmabufFeatures());
  return caps;
}

} // namespace gstzc
