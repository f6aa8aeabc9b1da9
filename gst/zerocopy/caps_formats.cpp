// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/caps_formats.h"

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/zerocopy/frame_layout.h"

namespace gstzc {
namespace {

const char *drmNameOf(const char *format) {
  const GstVideoFormat known = gst_video_format_from_string(format);
  return known == GST_VIDEO_FORMAT_UNKNOWN || known == GST_VIDEO_FORMAT_ENCODED ? nullptr : drmFormatName(known);
}

const char *formatOf(const char *drm_name, bool tiled) {
  guint64 modifier = DRM_FORMAT_MOD_INVALID; // left alone when the name does not parse
  const guint32 fourcc = gst_video_dma_drm_fourcc_from_string(drm_name, &modifier);
  if (fourcc == DRM_FORMAT_INVALID || (modifier != DRM_FORMAT_MOD_LINEAR && !tiled)) return nullptr;
  const GstVideoFormat format = gst_video_dma_drm_format_to_gst_format(fourcc, DRM_FORMAT_MOD_LINEAR);
  return format == GST_VIDEO_FORMAT_UNKNOWN || format == GST_VIDEO_FORMAT_DMA_DRM ? nullptr
                                                                                  : gst_video_format_to_string(format);
}

const char *linearFormatOf(const char *drm_name) { return formatOf(drm_name, false); }
const char *anyFormatOf(const char *drm_name) { return formatOf(drm_name, true); }

// A string or list of strings, each replaced by translate() of it and dropped where that is null or there. Returns
// false when nothing is left; `out` is initialised only on true.
bool translateStrings(const GValue *in, const char *(*translate)(const char *), GValue *out) {
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_LIST);
  const auto add = [&](const GValue *value) {
    const char *text = G_VALUE_HOLDS_STRING(value) ? g_value_get_string(value) : nullptr;
    const char *other = text != nullptr ? translate(text) : nullptr;
    for (guint i = 0; other != nullptr && i < gst_value_list_get_size(&list); ++i)
      if (g_str_equal(g_value_get_string(gst_value_list_get_value(&list, i)), other)) other = nullptr;
    if (other != nullptr) appendString(&list, other);
  };
  if (GST_VALUE_HOLDS_LIST(in))
    for (guint i = 0; i < gst_value_list_get_size(in); ++i) add(gst_value_list_get_value(in, i));
  else
    add(in);

  const guint n = gst_value_list_get_size(&list);
  if (n == 1) {
    g_value_init(out, G_TYPE_STRING);
    g_value_copy(gst_value_list_get_value(&list, 0), out);
  } else if (n > 1) {
    g_value_init(out, GST_TYPE_LIST);
    g_value_copy(&list, out);
  }
  g_value_unset(&list);
  return n > 0;
}

void initList(GValue *list, const char *(*name)(GstVideoFormat)) {
  guint n = 0;
  const GstVideoFormat *formats = gst_video_formats_raw(&n);
  g_value_init(list, GST_TYPE_LIST);
  for (guint i = 0; i < n; ++i)
    if (drmFormatName(formats[i]) != nullptr) appendString(list, name(formats[i]));
}

GstStructure *anySize(GValue *formats) {
  GstStructure *structure =
      gst_structure_new("video/x-raw", "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height", GST_TYPE_INT_RANGE, 1,
                        G_MAXINT, "framerate", GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr);
  gst_structure_take_value(structure, "format", formats);
  return structure;
}

} // namespace

void appendString(GValue *list, const char *text) {
  GValue value = G_VALUE_INIT;
  g_value_init(&value, G_TYPE_STRING);
  g_value_set_string(&value, text);
  gst_value_list_append_and_take_value(list, &value);
}

void initFormatList(GValue *formats) { initList(formats, gst_video_format_to_string); }
void initDrmFormatList(GValue *formats) { initList(formats, drmFormatName); }

bool isDrmNotation(const GstStructure *structure) {
  const GValue *format = gst_structure_get_value(structure, "format");
  if (format != nullptr && GST_VALUE_HOLDS_LIST(format) && gst_value_list_get_size(format) == 1)
    format = gst_value_list_get_value(format, 0);
  return format != nullptr && G_VALUE_HOLDS_STRING(format) && g_strcmp0(g_value_get_string(format), "DMA_DRM") == 0;
}

GstStructure *linearDrmStructure(const GstStructure *structure) {
  GValue names = G_VALUE_INIT;
  if (const GValue *formats = gst_structure_get_value(structure, "format"); formats == nullptr)
    initDrmFormatList(&names);
  else if (!translateStrings(formats, drmNameOf, &names))
    return nullptr;
  GstStructure *result = gst_structure_copy(structure);
  gst_structure_set(result, "format", G_TYPE_STRING, "DMA_DRM", nullptr);
  gst_structure_take_value(result, "drm-format", &names);
  return result;
}

GstStructure *plainStructure(const GstStructure *structure, bool tiled) {
  GValue formats = G_VALUE_INIT;
  if (const GValue *names = gst_structure_get_value(structure, "drm-format"); names == nullptr)
    initFormatList(&formats);
  else if (!translateStrings(names, tiled ? anyFormatOf : linearFormatOf, &formats))
    return nullptr;
  GstStructure *result = gst_structure_copy(structure);
  gst_structure_remove_field(result, "drm-format");
  gst_structure_take_value(result, "format", &formats);
  return result;
}

GstStructure *anyDrmStructure() {
  GValue format = G_VALUE_INIT;
  g_value_init(&format, G_TYPE_STRING);
  g_value_set_static_string(&format, "DMA_DRM");
  return anySize(&format);
}

GstStructure *anyPlainStructure() {
  GValue formats = G_VALUE_INIT;
  initFormatList(&formats);
  return anySize(&formats);
}

void appendDistinct(GstCaps *caps, GstStructure *structure, GstCapsFeatures *features) {
  if (gst_caps_is_subset_structure_full(caps, structure, features)) {
    gst_structure_free(structure);
    if (features != nullptr) gst_caps_features_free(features);
    return;
  }
  gst_caps_append_structure_full(caps, structure, features);
}

} // namespace gstzc
