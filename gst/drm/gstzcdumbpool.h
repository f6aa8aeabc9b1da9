// SPDX-License-Identifier: LGPL-2.1-or-later
// A buffer pool of the display's own memory.
#pragma once

#include <memory>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/drm/kms_device.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// How a linear frame lies in one dumb buffer: what to ask the kernel for, and the frame's strides and offsets once the
// kernel has said which pitch it gives.
struct DumbLayout {
  uint32_t width = 0;  // pixels of `bits`
  uint32_t height = 0; // rows, of all planes together
  uint32_t bits = 0;
};

// 32-bit pixels are asked for as such, since some drivers know nothing else; other formats by bytes.
DumbLayout dumbLayout(const GstVideoInfo &info);

// Puts strides and offsets for `pitch` bytes a row into `info` and its size. False where the planes do not fit into
// `size` bytes.
bool applyPitch(GstVideoInfo &info, uint32_t pitch, uint64_t size);

// A frame laid out like `a` is one of `b`: same planes, offsets and strides.
bool sameLayout(const GstVideoInfo &a, const GstVideoInfo &b);

// Buffers with one dma-buf memory (so that both DMABuf and system memory caps may carry them) and a GstVideoMeta. They
// live on after pool and device are closed. A configuration without the option for that meta is refused where the
// device's layout is not the one the caps have by default: its user would write a sheared picture.
GstBufferPool *newDumbPool(std::shared_ptr<KmsDevice> device);

// Bytes of such a frame in memory of that device; an error where it has none for it.
Result<guint> dumbFrameSize(const std::shared_ptr<KmsDevice> &device, const GstVideoInfo &info);

} // namespace gstzc
