// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading a frame with the CPU where it lies.
#pragma once

#include <vector>

#include <gst/gst.h>

#include "gst/infer/preprocess.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

// The first `planes` planes of a frame, mapped for reading; unmapped on destruction. Mapping a dma-buf memory brackets
// the access with DMA_BUF_IOCTL_SYNC (GstDmaBufAllocator does it in its map and unmap). Each memory is mapped once, and
// only those that hold these planes.
class MappedFrame {
public:
  static Result<MappedFrame> map(GstBuffer *buffer, const FrameLayout &layout, int planes);
  MappedFrame(MappedFrame &&other) noexcept;
  MappedFrame(const MappedFrame &) = delete;
  MappedFrame &operator=(const MappedFrame &) = delete;
  ~MappedFrame();

  const FramePlanes &planes() const { return planes_; }

private:
  struct Mapped {
    guint index = 0;
    GstMapInfo info = {};
  };
  MappedFrame() = default;

  FramePlanes planes_;
  std::vector<Mapped> memories_; // each info holds its memory
};

} // namespace gstzc::infer
