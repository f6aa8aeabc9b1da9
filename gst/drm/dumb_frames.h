// SPDX-License-Identifier: LGPL-2.1-or-later
// Linear frames in the display's own memory.
#pragma once

#include <memory>

#include <gst/video/video.h>

#include "gst/drm/display_pool.h"
#include "gst/drm/kms_device.h"

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

// For pools: one dumb buffer a frame. Errors also for layouts that are not linear, and formats that GStreamer has no
// name for.
std::shared_ptr<FrameSource> dumbFrames(std::shared_ptr<KmsDevice> device);

// What the driver rounds a row of its memory up to, in bytes, a power of two: what a row of one pixel has. That is as
// near as anybody gets to what its scan-out wants of other memory. 1: it does not tell.
uint32_t pitchAlignment(KmsDevice &device);

} // namespace gstzc
