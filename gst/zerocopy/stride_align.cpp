// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/stride_align.h"

#include <algorithm>

namespace gstzc {

void strideMasks(const GstVideoInfo &info, guint align, guint masks[GST_VIDEO_MAX_PLANES]) {
  const GstVideoFormatInfo *format = info.finfo;
  const gint first = std::max(GST_VIDEO_FORMAT_INFO_PSTRIDE(format, 0), 1);
  for (guint p = 0; p < GST_VIDEO_MAX_PLANES; ++p) {
    guint bytes = align;
    for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); ++c) {
      if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != p || GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c) == 0) continue;
      bytes = align * GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c) >> GST_VIDEO_FORMAT_INFO_W_SUB(format, c);
      bytes = std::clamp(bytes / first, 1u, align);
      break;
    }
    masks[p] = isPowerOfTwo(bytes) ? bytes - 1 : align - 1;
  }
}

} // namespace gstzc
