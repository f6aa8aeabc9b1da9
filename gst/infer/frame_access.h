// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading a frame with the CPU where it lies.
#pragma once

#include <functional>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/preprocess.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

// Waits until the producer of a dma-buf is done writing (its implicit write fences), at most `timeout_ms`. Without this
// the kernel would wait in DMA_BUF_IOCTL_SYNC, for as long as it takes. Errors: ETIMEDOUT, or ECANCELED as soon as
// `cancelled` says so (looked at every 20 ms).
Status waitForProducer(int fd, int timeout_ms, const std::function<bool()> &cancelled);

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
