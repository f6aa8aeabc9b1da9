// SPDX-License-Identifier: LGPL-2.1-or-later
// The one way pixels are copied: between frames of the same format and size with different strides and offsets.
#pragma once

#include <functional>

#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

// Copies the pixels (not the padding) of a linear frame; format and size are `src_caps`', and `dst_caps` has to agree.
// Strides and offsets are each buffer's own. A source whose planes are split over several memories is read in one pass
// as well. Sleeps until the fences of both frames are over, kFenceTimeoutDefault each at most: the kernel would wait
// for them without a deadline when the CPU begins its access. `interrupted` is looked at meanwhile, as by
// waitForFrame(). Returns the number of bytes that were written. Errors: layouts that do not fit their memory, mapping
// failures, devices that are not done with either frame (ETIMEDOUT, or the errno of the fence), ECANCELED.
GSTZC_API Result<gsize> copyFrame(GstBuffer *dst, const FrameCaps &dst_caps, GstBuffer *src, const FrameCaps &src_caps,
                                  const std::function<bool()> &interrupted = {});

// Flags, timestamps and all metadata but what describes the memory: where planes lie, and fences of the old one.
GSTZC_API void copyFrameMetadata(GstBuffer *dst, GstBuffer *src);

} // namespace gstzc
