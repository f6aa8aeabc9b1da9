// SPDX-License-Identifier: LGPL-2.1-or-later
// How overlays look.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gstzc {

struct OverlayStyle {
  uint32_t color = 0;        // 0xAARRGGBB, not premultiplied, of everything; 0: a colour for each class
  unsigned line_width = 0;   // pixels of the display; 0: by the picture's height
  std::string font;          // as Pango writes them, "Sans Bold 14"; empty, or without a size: by the picture's height
  bool labels = true;        // names and scores beside the boxes
  double mask_opacity = 0.4; // 0 to 1
  bool operator==(const OverlayStyle &) const = default;
};

// Colours of classes, 0xffRRGGBB: the same for a name in each run, but where two names of one run would get the same.
// The first 16 can be told apart at a glance.
class ClassColors {
public:
  uint32_t of(uint32_t label); // a quark; 0: what has no name
  // Of numbered things without names (regions of a mask).
  static uint32_t ofNumber(uint32_t number);

private:
  std::map<uint32_t, uint32_t> colors_;
  uint32_t taken_ = 0; // bit i: the palette's
};

// Black or white: what can be read on it. 0xffRRGGBB.
uint32_t readableOn(uint32_t color);

} // namespace gstzc
