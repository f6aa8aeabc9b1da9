// SPDX-License-Identifier: LGPL-2.1-or-later
// What a frame in CUDA memory says of itself: its stream, and where its planes lie.
#pragma once

#include <cuda.h>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

CUstream streamOf(GstMemory *memory); // on which it is written

// Where the planes lie: as the buffer says, else its CUDA memory, if that has the format of the caps.
GstVideoInfo deviceLayout(GstBuffer *frame, const GstVideoInfo &caps, GstMemory *memory);

// Whether planes that lie as in `layout` do so as in `plain`, where who reads no GstVideoMeta takes them to lie; null:
// they may lie anywhere. The error names both.
Status laidOutAs(const GstVideoInfo *plain, const GstVideoInfo &layout);

void setVideoMeta(GstBuffer *buffer, const GstVideoInfo &info); // its only one

} // namespace gstzc::cuda
