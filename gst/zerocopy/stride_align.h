// SPDX-License-Identifier: LGPL-2.1-or-later
// Rows whose length is a multiple of something, as GstVideoAlignment says it.
#pragma once

#include <gst/video/video.h>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

inline bool isPowerOfTwo(guint n) { return n != 0 && (n & (n - 1)) == 0; }

// Masks for rows of a multiple of `align` bytes, a power of two, in the first plane. Planes whose rows are shorter (the
// chroma of I420) get a proportionally smaller mask: the same one would double the stride of the luma.
GSTZC_API void strideMasks(const GstVideoInfo &info, guint align, guint masks[GST_VIDEO_MAX_PLANES]);

} // namespace gstzc
