// SPDX-License-Identifier: LGPL-2.1-or-later
// The one way pixels are copied: between frames of the same format and size with different strides and offsets.
#pragma once

#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

// Copies the pixels (not the padding) of a linear frame; format and size are `src_caps`', and `dst_caps` has to agree.
// Strides and offsets are each buffer's own. A source whose planes are split over several memories is read in one pass
// as well. Returns the number of bytes that were written. Errors: layouts that do not fit their memory, mapping
// failures, a producer of a dma-buf that is not done writing within a second (ETIMEDOUT).
GSTZC_API Result<gsize> copyFrame(GstBuffer *dst, const FrameCaps &dst_caps, GstBuffer *src, const FrameCaps &src_caps);

} // namespace gstzc
