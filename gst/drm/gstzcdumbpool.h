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

// Buffers with one dma-buf memory (so that both DMABuf and system memory caps may carry them) and a GstVideoMeta. They
// live on after pool and device are closed.
GstBufferPool *newDumbPool(std::shared_ptr<KmsDevice> device);

// Frames of this layout can be had from that device.
Status probeDumbPool(const std::shared_ptr<KmsDevice> &device, const GstVideoInfo &info);

} // namespace gstzc
