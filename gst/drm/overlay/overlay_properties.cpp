// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/overlay_properties.h"

#include <gst/gst.h>

namespace gstzc {
namespace {

enum { OVERLAY, COLOR, LINE_WIDTH, FONT, LABELS, MASK_OPACITY };

GType overlayModeType() {
  static const GType type = [] {
    static const GEnumValue values[] = {
        {static_cast<gint>(OverlayMode::Auto), "On a plane of its own where one is free, else not shown", "auto"},
        {static_cast<gint>(OverlayMode::Plane), "On a plane of its own, an error where none is free", "plane"},
        {static_cast<gint>(OverlayMode::Off), "Not shown", "off"},
        {0, nullptr, nullptr},
    };
    return g_enum_register_static("GstDrmModifierSinkOverlay", values);
  }();
  return type;
}

} // namespace

void installOverlayProperties(GObjectClass *klass, guint first) {
  const auto ready = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto playing = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
  const OverlayStyle style;
  g_object_class_install_property(
      klass, first + OVERLAY,
      g_param_spec_enum("overlay", "Overlay",
                        "Where analytics metadata and GstVideoOverlayComposition of the frames are shown",
                        overlayModeType(), static_cast<gint>(OverlayMode::Auto), ready));
  g_object_class_install_property(
      klass, first + COLOR,
      g_param_spec_uint("overlay-color", "Overlay color",
                        "Color of boxes, masks, points and labels, 0xAARRGGBB (0: one for each class)", 0, G_MAXUINT32,
                        style.color, playing));
  g_object_class_install_property(
      klass, first + LINE_WIDTH,
      g_param_spec_uint("overlay-line-width", "Overlay line width",
                        "Width of a box's outline in pixels of the display (0: by the picture's height)", 0, 100,
                        style.line_width, playing));
  g_object_class_install_property(
      klass, first + FONT,
      g_param_spec_string("overlay-font", "Overlay font",
                          "Font of labels as Pango writes it, e.g. Sans Bold 14 (NULL or without a size: by the "
                          "picture's height)",
                          nullptr, playing));
  g_object_class_install_property(klass, first + LABELS,
                                  g_param_spec_boolean("overlay-labels", "Overlay labels",
                                                       "Show names and scores beside the boxes", style.labels,
                                                       playing));
  g_object_class_install_property(klass, first + MASK_OPACITY,
                                  g_param_spec_double("overlay-mask-opacity", "Overlay mask opacity",
                                                      "How much masks hide the frame, 0: they are not seen", 0, 1,
                                                      style.mask_opacity, playing));
}

bool setOverlayProperty(OverlaySettings &settings, guint index, const GValue *value) {
  OverlayStyle style = *settings.style;
  switch (index) {
  case OVERLAY: settings.mode = static_cast<OverlayMode>(g_value_get_enum(value)); return true;
  case COLOR: style.color = g_value_get_uint(value); break;
  case LINE_WIDTH: style.line_width = g_value_get_uint(value); break;
  case FONT: style.font = g_value_get_string(value) != nullptr ? g_value_get_string(value) : ""; break;
  case LABELS: style.labels = g_value_get_boolean(value); break;
  case MASK_OPACITY: style.mask_opacity = g_value_get_double(value); break;
  default: return false;
  }
  settings.style = std::make_shared<const OverlayStyle>(std::move(style));
  return true;
}

bool getOverlayProperty(const OverlaySettings &settings, guint index, GValue *value) {
  const OverlayStyle &style = *settings.style;
  switch (index) {
  case OVERLAY: g_value_set_enum(value, static_cast<gint>(settings.mode)); return true;
  case COLOR: g_value_set_uint(value, style.color); return true;
  case LINE_WIDTH: g_value_set_uint(value, style.line_width); return true;
  case FONT: g_value_set_string(value, style.font.empty() ? nullptr : style.font.c_str()); return true;
  case LABELS: g_value_set_boolean(value, style.labels); return true;
  case MASK_OPACITY: g_value_set_double(value, style.mask_opacity); return true;
  default: return false;
  }
}

} // namespace gstzc
