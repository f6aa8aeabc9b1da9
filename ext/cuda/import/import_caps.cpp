// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/import_caps.h"

#include <initializer_list>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/cuda/gstcuda.h>

#include "gst/zerocopy/caps_formats.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::cuda {
namespace {

GstCapsFeatures *dmabufFeatures() { return gst_caps_features_new_single(GST_CAPS_FEATURE_MEMORY_DMABUF); }
GstCapsFeatures *cudaFeatures() { return gst_caps_features_new_single(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY); }

bool has(const GstCapsFeatures *features, const char *feature) {
  return !gst_caps_features_is_any(features) && gst_caps_features_contains(features, feature);
}

bool isSystem(const GstCapsFeatures *features) {
  return gst_caps_features_is_equal(features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY);
}

// of a structure without one, all that there may be
GstStructure *withFormats(const GstStructure *structure) {
  GstStructure *copy = gst_structure_copy(structure);
  if (gst_structure_has_field(copy, "format")) return copy;
  GValue formats = G_VALUE_INIT;
  initFormatList(&formats);
  gst_structure_take_value(copy, "format", &formats);
  return copy;
}

GstCaps *toCuda(const GstCaps *caps, bool tiled) {
  GstCaps *result = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure *structure = gst_caps_get_structure(caps, i);
    const GstCapsFeatures *features = gst_caps_get_features(caps, i);
    const bool dmabuf = has(features, GST_CAPS_FEATURE_MEMORY_DMABUF);
    if (!dmabuf && !isSystem(features)) continue;
    GstStructure *plain =
        dmabuf && isDrmNotation(structure) ? plainStructure(structure, tiled) : withFormats(structure);
    if (plain != nullptr) appendDistinct(result, plain, cudaFeatures());
  }
  return result;
}

} // namespace

GstCaps *importedCaps(const GstCaps *caps) { return toCuda(caps, true); }
GstCaps *exportedFrom(const GstCaps *caps) { return toCuda(caps, false); }

GstCaps *importableCaps(const GstCaps *caps, const GstCaps *filter) {
  GstCaps *result = gst_caps_new_empty();
  enum { Drm, PlainDmaBuf, System };
  for (const int kind : {Drm, PlainDmaBuf, System})
    for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
      if (!has(gst_caps_get_features(caps, i), GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY)) continue;
      const GstStructure *structure = gst_caps_get_structure(caps, i);
      GstStructure *in = kind == Drm ? linearDrmStructure(structure) : withFormats(structure);
      if (in != nullptr) appendDistinct(result, in, kind == System ? nullptr : dmabufFeatures());
    }
  if (filter != nullptr && gst_caps_can_intersect(filter, result)) return result;
  for (guint i = 0; i < gst_caps_get_size(caps) && filter != nullptr; ++i) {
    if (!has(gst_caps_get_features(caps, i), GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY)) continue;
    GstStructure *tiled = gst_structure_copy(gst_caps_get_structure(caps, i));
    gst_structure_remove_field(tiled, "drm-format");
    gst_structure_set(tiled, "format", G_TYPE_STRING, "DMA_DRM", nullptr);
    appendDistinct(result, tiled, dmabufFeatures());
  }
  return result;
}

Status haveImportableFormat(const GstCaps *caps) {
  const auto frame = parseFrameCaps(caps);
  if (!frame) return frame.error();
  GstCaps *imported = importedCaps(caps);
  const bool none = gst_caps_is_empty(imported);
  gst_caps_unref(imported);
  if (!none) return Nothing{};
  const GstStructure *structure = gst_caps_get_structure(caps, 0);
  const char *format = gst_structure_get_string(structure, "drm-format");
  if (format == nullptr) format = gst_structure_get_string(structure, "format");
  return Error{std::string("frames in the format ") + (format != nullptr ? format : "of these caps") +
                   ", for which GStreamer has no name on a CUDA device",
               0, "Let the producer make another one, NV12 for example"};
}

GstCaps *importSinkCaps() {
  GstCaps *caps = gst_caps_new_empty();
  gst_caps_append_structure_full(caps, anyDrmStructure(), dmabufFeatures());
  gst_caps_append_structure_full(caps, anyPlainStructure(), dmabufFeatures());
  gst_caps_append_structure(caps, anyPlainStructure());
  return caps;
}

GstCaps *importSrcCaps() {
  GstCaps *caps = gst_caps_new_empty();
  gst_caps_append_structure_full(caps, anyPlainStructure(), cudaFeatures());
  return caps;
}

} // namespace gstzc::cuda
