// SPDX-License-Identifier: LGPL-2.1-or-later
// A buffer pool whose frames are dma-bufs made for the display.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

// A frame's memory, and where its planes lie in it.
struct PoolFrame {
  struct Memory {
    UniqueFd fd; // a dma-buf
    uint64_t size = 0;
  };
  std::vector<Memory> memories; // one after the other in the buffer
  GstVideoFormat format = GST_VIDEO_FORMAT_DMA_DRM;
  guint n_planes = 0;
  std::array<gsize, GST_VIDEO_MAX_PLANES> offsets = {}; // bytes, from the beginning of the buffer
  std::array<gint, GST_VIDEO_MAX_PLANES> strides = {};  // bytes
  bool usual = false;                                   // the layout is the one that the caps have by default

  uint64_t size() const; // of all memories
};

// Who makes them. Thread safe.
class FrameSource {
public:
  virtual ~FrameSource() = default;
  // Errors: the device, what was asked of it, its errno.
  virtual Result<PoolFrame> make(const FrameCaps &caps) = 0;
};

// Buffers of GstDmaBufMemory (so that both DMABuf and system memory caps may carry linear ones) with a GstVideoMeta.
// They live on after pool and source are gone. A configuration without the option for that meta is refused where the
// layout is not the one the caps have by default: its user would write a sheared picture. The size is the source's,
// which may be more than its user asked for.
GstBufferPool *newDisplayPool(std::shared_ptr<FrameSource> source);

} // namespace gstzc
