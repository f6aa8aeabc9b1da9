// SPDX-License-Identifier: LGPL-2.1-or-later
// What a fourcc says of its pixels, also where GStreamer has no format for it. From the definitions in drm_fourcc.h.
#pragma once

#include <cstdint>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

struct FormatTraits {
  bool yuv = false;
  bool alpha = false;
  bool indexed_or_low = false; // palettes, and fewer than 8 bits a colour
  unsigned hsub = 1, vsub = 1; // chroma subsampling
};
// Of an unknown fourcc: the defaults, and one plane.
GSTZC_API FormatTraits formatTraits(uint32_t fourcc);
GSTZC_API unsigned formatPlanes(uint32_t fourcc); // 1 to 4, without auxiliary surfaces

} // namespace gstzc
