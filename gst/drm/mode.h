// SPDX-License-Identifier: LGPL-2.1-or-later
// Display modes: the property's notation, timings for unlisted ones.
#pragma once

#include <optional>
#include <string>

#include <xf86drmMode.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc {

struct ModeRequest {
  int width = 0;
  int height = 0;
  double refresh = 0; // Hz; 0: any

  auto operator<=>(const ModeRequest &) const = default;
};

// "1920x1080" or "1920x1080@59.94". Errors say what is wrong with the text.
Result<ModeRequest> parseMode(const std::string &text);

// Frames per second of a mode, from its pixel clock and totals.
double refreshOf(const drmModeModeInfo &mode);

// "1024x768@60.00"
std::string modeName(const drmModeModeInfo &mode);

// Timings for a size no output lists: reduced blanking as VESA's CVT (version 1) has it, with a pixel clock to the kHz
// instead of its 250 kHz, which would be far off at small sizes. Both sides 1..16384, refresh in Hz above 0.
drmModeModeInfo generateMode(int width, int height, double refresh);

} // namespace gstzc
