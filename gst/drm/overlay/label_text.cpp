// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/text.h"

#include <cstring>

#include <glib.h>

namespace gstzc {

std::string labelText(uint32_t quark, int percent) {
  constexpr glong kMostCharacters = 256; // many times a display's width
  constexpr size_t kMostBytes = kMostCharacters * 6;
  std::string text;
  if (const gchar *name = quark != 0 ? g_quark_to_string(quark) : nullptr; name != nullptr) {
    const size_t length = strnlen(name, kMostBytes);
    gchar *valid = g_utf8_make_valid(name, static_cast<gssize>(length));
    const gchar *end = valid;
    for (glong n = 0; n < kMostCharacters && *end != '\0'; ++n) end = g_utf8_next_char(end);
    for (const gchar *p = valid; p < end; p = g_utf8_next_char(p)) {
      // lines and columns of its own a label has not
      if (g_unichar_iscntrl(g_utf8_get_char(p)))
        text += ' ';
      else
        text.append(p, static_cast<size_t>(g_utf8_next_char(p) - p));
    }
    g_free(valid);
  }
  if (percent >= 0) text += (text.empty() ? "" : " ") + std::to_string(percent) + "%";
  return text;
}

} // namespace gstzc
