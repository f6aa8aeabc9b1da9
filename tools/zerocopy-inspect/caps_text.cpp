// SPDX-License-Identifier: LGPL-2.1-or-later
#include "caps_text.h"

#include "gst/drm/negotiate/modifiers.h"
#include "gst/zerocopy/core/drm_format.h"
#include "table.h"

namespace gstzc::inspect {
namespace {

std::string valueText(const GValue *value) {
  gchar *text = gst_value_serialize(value);
  std::string result = text != nullptr ? text : "?";
  g_free(text);
  return result;
}

// "[1, 2147483647]" and the like in words
std::string rangeText(const GValue *value) {
  if (!GST_VALUE_HOLDS_INT_RANGE(value)) return valueText(value);
  const gint min = gst_value_get_int_range_min(value), max = gst_value_get_int_range_max(value);
  if (min <= 1 && max == G_MAXINT) return "any";
  return std::to_string(min) + ".." + (max == G_MAXINT ? "" : std::to_string(max));
}

std::string formatText(const std::string &name) {
  const auto format = parseDrmFormat(name);
  if (!format) return name;
  return name.substr(0, name.find(':')) + " " + layoutName(format->modifier);
}

std::vector<std::string> entriesOf(const GValue *value) {
  std::vector<std::string> entries;
  if (GST_VALUE_HOLDS_LIST(value)) {
    for (guint i = 0; i < gst_value_list_get_size(value); ++i) {
      const GValue *entry = gst_value_list_get_value(value, i);
      entries.push_back(G_VALUE_HOLDS_STRING(entry) ? g_value_get_string(entry) : valueText(entry));
    }
  } else {
    entries.push_back(G_VALUE_HOLDS_STRING(value) ? g_value_get_string(value) : valueText(value));
  }
  return entries;
}

} // namespace

std::string Caps::text() const {
  if (caps_ == nullptr) return "";
  gchar *text = gst_caps_to_string(caps_);
  std::string result = text;
  g_free(text);
  return result;
}

std::vector<std::string> capsLines(const GstCaps *caps) {
  if (caps == nullptr || gst_caps_is_empty(caps)) return {"nothing"};
  if (gst_caps_is_any(caps)) return {"anything"};
  std::vector<std::string> lines;
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstStructure *s = gst_caps_get_structure(caps, i);
    std::string line = gst_structure_get_name(s);
    GstCapsFeatures *features = gst_caps_get_features(caps, i);
    if (features != nullptr && !gst_caps_features_is_equal(features, GST_CAPS_FEATURES_MEMORY_SYSTEM_MEMORY)) {
      gchar *text = gst_caps_features_to_string(features);
      line += std::string("(") + text + ")";
      g_free(text);
    }
    const GValue *drm = gst_structure_get_value(s, "drm-format"), *format = gst_structure_get_value(s, "format");
    if (drm != nullptr || format != nullptr) {
      auto entries = entriesOf(drm != nullptr ? drm : format);
      if (drm != nullptr)
        for (std::string &entry : entries) entry = formatText(entry);
      line += " " + joined(entries, kFormatsShown);
    }
    const GValue *width = gst_structure_get_value(s, "width"), *height = gst_structure_get_value(s, "height");
    if (width != nullptr && height != nullptr) {
      const std::string w = rangeText(width), h = rangeText(height);
      line += w == "any" && h == "any" ? "; any size" : "; " + w + (w.find('.') != std::string::npos ? " x " : "x") + h;
    }
    if (const GValue *rate = gst_structure_get_value(s, "framerate");
        rate != nullptr && GST_VALUE_HOLDS_FRACTION(rate) && gst_value_get_fraction_numerator(rate) != 0)
      line += "; " + valueText(rate) + " frames/s";
    lines.push_back(std::move(line));
  }
  return lines;
}

} // namespace gstzc::inspect
