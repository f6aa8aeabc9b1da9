// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <optional>

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
  if (value == nullptr)
    return Error{std::string("caps: the field ") + field + " is missing", 0,
                 std::string("Add ") + field + "=, such as " + field + "=NV12"};
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

// The sides that a field allows: one entry each for single ones and for ranges, of which one will do.
Result<std::vector<SideRange>> sides(const GstStructure *s, const char *field) {
  std::vector<SideRange> result;
  const GValue *value = gst_structure_get_value(s, field);
  if (value == nullptr) return std::vector<SideRange>{{}};
  const Error outside =
      wrong(s, field, "frames have 1 to " + std::to_string(kMaxFrameSide) + " pixels a side", "Correct the caps");
  const auto add = [&](const GValue *v) {
    SideRange side;
    if (G_VALUE_HOLDS_INT(v)) {
      side.min = side.max = g_value_get_int(v);
      if (side.max < 1 || side.max > kMaxFrameSide) return false;
    } else if (GST_VALUE_HOLDS_INT_RANGE(v)) {
      side = {gst_value_get_int_range_min(v), gst_value_get_int_range_max(v)};
      if (side.max < 1 || side.min > kMaxFrameSide) return false;
      side.min = std::max(side.min, 1);
      if (side.max > kMaxFrameSide) side.max = INT_MAX;
    } else {
      return false;
    }
    result.push_back(side);
    return true;
  };
  if (GST_VALUE_HOLDS_LIST(value)) {
    const guint n = gst_value_list_get_size(value);
    if (n > kMaxCapsNeeds) return wrong(s, field, "more than " + std::to_string(kMaxCapsNeeds) + " entries", "");
    for (guint i = 0; i < n; ++i)
      if (!add(gst_value_list_get_value(value, i))) return outside;
    return result;
  }
  if (!G_VALUE_HOLDS_INT(value) && !GST_VALUE_HOLDS_INT_RANGE(value))
    return wrong(s, field, "an integer, a range or a list of them is needed", "Correct the caps");
  if (!add(value)) return outside;
  return result;
}

// A fourcc where GStreamer's name of a format is wanted, and that name.
std::string nameOfFourcc(const std::string &text) {
  const auto parsed = parseDrmFormat(text);
  if (!parsed) return "";
  const GstVideoFormat format = gst_video_dma_drm_fourcc_to_format(parsed->fourcc);
  return format == GST_VIDEO_FORMAT_UNKNOWN ? "" : gst_video_format_to_string(format);
}

} // namespace

Result<std::vector<CapsNeed>> needsOfCaps(const GstCaps *caps, bool skip_foreign) {
  std::vector<CapsNeed> result;
  std::optional<Error> foreign;
  if (caps == nullptr || gst_caps_is_any(caps) || gst_caps_is_empty(caps))
    return Error{"caps that say nothing of a frame", 0,
                 "Write them like video/x-raw,format=NV12,width=1920,height=1080"};
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure *s = gst_caps_get_structure(caps, i);
    if (!gst_structure_has_name(s, "video/x-raw"))
      return Error{std::string("caps: ") + gst_structure_get_name(s) + " is no raw video", 0,
                   "A display shows video/x-raw: decode before"};
    if (hasSeparateFields(s))
      return wrong(s, "interlace-mode", "a display shows frames, and no fields that are kept apart",
                   "Weave or deinterlace them before");
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
    const auto widths = sides(s, "width"), heights = sides(s, "height");
    if (!widths) return widths.error();
    if (!heights) return heights.error();
    if (!gst_structure_has_field(s, "format"))
      return Error{"caps: video/x-raw without a format can be anything", 0,
                   "Name the format, such as video/x-raw,format=NV12 or, of dma-bufs, "
                   "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12"};
    const auto formats = strings(s, "format");
    if (!formats) return formats.error();
    int par_n = 1, par_d = 1;
    if (!gst_structure_get_fraction(s, "pixel-aspect-ratio", &par_n, &par_d) || par_n <= 0 || par_d <= 0)
      par_n = par_d = 1;
    const auto add = [&](const DrmFormat &format, bool from_system, const std::string &name) {
      for (const SideRange &w : *widths)
        for (const SideRange &h : *heights) {
          if (result.size() == kMaxCapsNeeds) return false;
          CapsNeed need;
          need.need.format = format;
          need.need.widths = w;
          need.need.heights = h;
          if (w.min == w.max && h.min == h.max) {
            need.need.width = w.min;
            need.need.height = h.min;
          }
          need.need.par_n = par_n;
          need.need.par_d = par_d;
          need.system_memory = from_system;
          const std::string size = sizeText(need.need);
          need.text = std::string("video/x-raw") + (from_system ? " " : "(memory:DMABuf) ") + name +
                      (size.empty() ? "" : " " + size);
          result.push_back(std::move(need));
        }
      return true;
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
      if (const std::string meant = nameOfFourcc(format);
          !skip_foreign && known == GST_VIDEO_FORMAT_UNKNOWN && !meant.empty())
        return wrong(s, "format", "this is a fourcc, and not what GStreamer calls the format",
                     "Write format=" + meant + ", or drm-format=" + format +
                         " with video/x-raw(memory:DMABuf),format=DMA_DRM");
      if (!named) {
        foreign = wrong(s, "format", "\"" + format.substr(0, 40) + "\" is no format that displays have",
                        "Convert, such as with videoconvert");
        if (!skip_foreign) return *foreign;
        continue;
      }
      const uint32_t fourcc = gst_video_dma_drm_fourcc_from_format(known);
      if (!add({fourcc, dmabuf ? DRM_FORMAT_MOD_INVALID : DRM_FORMAT_MOD_LINEAR}, !dmabuf, format)) return many;
    }
  }
  if (result.empty() && foreign) return *foreign;
  return result;
}

} // namespace gstzc
