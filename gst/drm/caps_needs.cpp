// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/drm/sink_caps.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {
namespace {

Error wrong(const GstStructure *s, const char *field, const std::string &why, const std::string &remedy) {
  const GValue *value = gst_structure_get_value(s, field);
  gchar *text = value != nullptr ? gst_value_serialize(value) : nullptr;
  std::string shown = text != nullptr ? text : "nothing";
  g_free(text);
  if (shown.size() > 80) shown = shown.substr(0, 80) + "…";
  return {std::string("caps: ") + field + "=" + shown + ": " + why, 0, remedy};
}

Result<std::vector<std::string>> strings(const GstStructure *s, const char *field) {
  const GValue *value = gst_structure_get_value(s, field);
  std::vector<std::string> result;
  if (value == nullptr) return wrong(s, field, "the field is missing", "Write the caps like those of the sink's pad");
  const auto add = [&](const GValue *v) {
    if (G_VALUE_HOLDS_STRING(v) && g_value_get_string(v) != nullptr) result.emplace_back(g_value_get_string(v));
  };
  if (GST_VALUE_HOLDS_LIST(value)) {
    const guint n = gst_value_list_get_size(value);
    if (n > kMaxCapsNeeds) return wrong(s, field, "more than " + std::to_string(kMaxCapsNeeds) + " entries", "");
    for (guint i = 0; i < n; ++i) add(gst_value_list_get_value(value, i));
  } else {
    add(value);
  }
  if (result.empty()) return wrong(s, field, "a string or a list of strings is needed", "");
  return result;
}

Result<int> side(const GstStructure *s, const char *field) {
  int value = 0;
  if (!gst_structure_has_field(s, field)) return 0;
  if (!gst_structure_get_int(s, field, &value)) { // a range or list: any
    const GValue *v = gst_structure_get_value(s, field);
    if (GST_VALUE_HOLDS_INT_RANGE(v) || GST_VALUE_HOLDS_LIST(v)) return 0;
    return wrong(s, field, "an integer is needed", "");
  }
  if (value < 1 || value > kMaxFrameSide)
    return wrong(s, field, "frames have 1 to " + std::to_string(kMaxFrameSide) + " pixels a side", "");
  return value;
}

} // namespace

Result<std::vector<CapsNeed>> needsOfCaps(const GstCaps *caps) {
  std::vector<CapsNeed> result;
  if (caps == nullptr || gst_caps_is_any(caps) || gst_caps_is_empty(caps))
    return Error{"caps that say nothing of a frame", 0,
                 "Write them like video/x-raw,format=NV12,width=1920,height=1080"};
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure *s = gst_caps_get_structure(caps, i);
    if (!gst_structure_has_name(s, "video/x-raw"))
      return Error{std::string("caps: ") + gst_structure_get_name(s) + " is no raw video", 0,
                   "A display shows video/x-raw: decode before"};
    const GstCapsFeatures *features = gst_caps_get_features(caps, i);
    const bool dmabuf = gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_DMABUF);
    const bool system = gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY);
    if (!dmabuf && !system) {
      gchar *text = gst_caps_features_to_string(features);
      const Error error{std::string("caps: video/x-raw(") + text + ") is memory that a display cannot read", 0,
                        "Bring the frames into dma-bufs or system memory before"};
      g_free(text);
      return error;
    }
    const auto width = side(s, "width"), height = side(s, "height");
    if (!width) return width.error();
    if (!height) return height.error();
    const auto formats = strings(s, "format");
    if (!formats) return formats.error();
    int par_n = 1, par_d = 1;
    if (!gst_structure_get_fraction(s, "pixel-aspect-ratio", &par_n, &par_d) || par_n <= 0 || par_d <= 0)
      par_n = par_d = 1;
    const auto add = [&](const DrmFormat &format, bool from_system, const std::string &name) {
      CapsNeed need;
      need.need.format = format;
      need.need.width = *width == 0 || *height == 0 ? 0 : *width;
      need.need.height = need.need.width == 0 ? 0 : *height;
      need.need.par_n = par_n;
      need.need.par_d = par_d;
      need.system_memory = from_system;
      need.text = std::string("video/x-raw") + (from_system ? " " : "(memory:DMABuf) ") + name +
                  (need.need.width > 0 ? " " + std::to_string(*width) + "x" + std::to_string(*height) : "");
      result.push_back(std::move(need));
      return result.size() <= kMaxCapsNeeds;
    };
    const Error many{"caps of more than " + std::to_string(kMaxCapsNeeds) + " kinds of frames", 0, "Name fewer"};
    for (const std::string &format : *formats) {
      if (format == "DMA_DRM") {
        if (!dmabuf) return wrong(s, "format", "DMA_DRM is for dma-bufs", "Write video/x-raw(memory:DMABuf)");
        const auto names = strings(s, "drm-format");
        if (!names) return names.error();
        for (const std::string &name : *names) {
          const auto parsed = parseDrmFormat(name);
          if (!parsed) return parsed.error();
          if (!add(*parsed, false, name)) return many;
        }
        continue;
      }
      const GstVideoFormat known = gst_video_format_from_string(format.c_str());
      const bool named = known > GST_VIDEO_FORMAT_ENCODED && drmFormatName(known) != nullptr;
      if (!named)
        return wrong(s, "format", "\"" + format.substr(0, 40) + "\" is no format that displays have",
                     "Convert, such as with videoconvert");
      const uint32_t fourcc = gst_video_dma_drm_fourcc_from_format(known);
      if (!add({fourcc, dmabuf ? DRM_FORMAT_MOD_INVALID : DRM_FORMAT_MOD_LINEAR}, !dmabuf, format)) return many;
    }
  }
  return result;
}

} // namespace gstzc
