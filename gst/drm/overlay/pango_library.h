// SPDX-License-Identifier: LGPL-2.1-or-later
// Pango and Cairo, opened when the first text is wanted: a program that shows no text does not load them, and the
// plugin works where they are not installed.
#pragma once

#include <pango/pangocairo.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc {

struct PangoLibrary {
#define GSTZC_PANGO_FUNCTIONS(X)                 \
  X(pango_cairo_font_map_new)                    \
  X(pango_cairo_show_layout)                     \
  X(pango_font_description_free)                 \
  X(pango_font_description_from_string)          \
  X(pango_font_description_get_set_fields)       \
  X(pango_font_description_get_size)             \
  X(pango_font_description_get_size_is_absolute) \
  X(pango_font_description_set_absolute_size)    \
  X(pango_font_description_set_family)           \
  X(pango_font_family_get_name)                  \
  X(pango_font_map_create_context)               \
  X(pango_font_map_list_families)                \
  X(pango_layout_get_pixel_extents)              \
  X(pango_layout_new)                            \
  X(pango_layout_set_auto_dir)                   \
  X(pango_layout_set_ellipsize)                  \
  X(pango_layout_set_font_description)           \
  X(pango_layout_set_single_paragraph_mode)      \
  X(pango_layout_set_text)                       \
  X(pango_layout_set_width)                      \
  X(cairo_create)                                \
  X(cairo_destroy)                               \
  X(cairo_image_surface_create)                  \
  X(cairo_image_surface_get_data)                \
  X(cairo_image_surface_get_stride)              \
  X(cairo_status)                                \
  X(cairo_surface_destroy)                       \
  X(cairo_surface_flush)                         \
  X(cairo_translate)
#define X(name) decltype(&::name) name;
  GSTZC_PANGO_FUNCTIONS(X)
#undef X

  // Once per process; stays open, since types that were registered with GLib cannot be taken back.
  static const Result<PangoLibrary> &get();
};

} // namespace gstzc
