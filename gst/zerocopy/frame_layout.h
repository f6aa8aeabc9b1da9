// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the planes of a frame lie: from caps and buffer to descriptors, offsets and pitches.
#pragma once

#include <array>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

constexpr int kMaxFrameSide = 32767; // pixels: more than any device has; bytes of a row stay far from what an int holds

inline constexpr char kCudaFeature[] = "memory:CUDAMemory"; // as libgstcuda, which is not linked here, has it

enum class MemoryKind {
  System, // video/x-raw: CPU memory, possibly a dma-buf all the same
  DmaBuf, // video/x-raw(memory:DMABuf)
  Cuda,   // video/x-raw(memory:CUDAMemory): the CPU does not look into it
};

// What caps say of a frame. For memory:DMABuf both notations are understood: format=DMA_DRM with drm-format, and the
// older format=NV12 whose layout is implicit (the linear one by convention of the elements that use it).
struct FrameCaps {
  MemoryKind memory = MemoryKind::System;
  bool drm_notation = false; // format=DMA_DRM
  guint32 fourcc = 0;        // DRM_FORMAT_*; 0 where DRM has no name for the format
  guint64 modifier = 0;      // DRM_FORMAT_MOD_*
  GstVideoInfo info =
      {}; // format, size, colorimetry, rate; strides are the linear defaults. Format UNKNOWN: no linear view

  bool linear() const { return modifier == 0; }
  int width() const { return GST_VIDEO_INFO_WIDTH(&info); }
  int height() const { return GST_VIDEO_INFO_HEIGHT(&info); }
};

// Fixed caps only. Errors: not video/x-raw, unparsable, a width or height that is not 1 to 32767, a fourcc that
// GStreamer has no format for.
GSTZC_API Result<FrameCaps> parseFrameCaps(const GstCaps *caps);

// A linear frame of `format` as DMA_DRM caps field, e.g. "NV12"; null where DRM has no fourcc for it.
GSTZC_API const char *drmFormatName(GstVideoFormat format);

struct PlaneLayout {
  guint memory = 0;    // index of the GstMemory in the buffer
  int fd = -1;         // the dma-buf, borrowed from the memory; -1 for memory without one
  BufferId buffer;     // its identity, as of now
  gsize offset = 0;    // bytes from the start of the dma-buf (or of the GstMemory where there is no descriptor)
  gsize in_memory = 0; // bytes from the start of the GstMemory's mapping, for CPU access
  gint stride = 0;     // bytes from one row to the next
  gint row_bytes = 0;  // bytes of a row that hold pixels
  gint rows = 0;
};

struct GSTZC_API FrameLayout {
  FrameCaps caps;
  guint n_planes = 0;
  std::array<PlaneLayout, GST_VIDEO_MAX_PLANES> planes = {};

  bool allDmaBuf() const; // every plane lies in a dma-buf
};

// The planes of a frame: strides and offsets of the buffer's GstVideoMeta, else the caps' defaults. Of layouts that are
// not linear the meta has to be there and says all that is known: rows and their bytes are 1, and only the beginning of
// each plane is checked; there may be more planes than the format has. Errors name
// the plane and the value: a stride below the row, a plane that ends past its memory or past the dma-buf behind it, a
// plane that lies in several memories, more planes than there can be, a closed descriptor (EBADF).
GSTZC_API Result<FrameLayout> frameLayout(GstBuffer *buffer, const FrameCaps &caps);

} // namespace gstzc
