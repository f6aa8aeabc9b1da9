// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading a frame with the CPU where it lies.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

// The first `planes` planes of a frame, for reading until destruction; the buffer has to live as long. Memory is looked
// at once, and only where it holds these planes. dma-bufs are read through `mappings`, and each access is bracketed
// with DMA_BUF_IOCTL_SYNC; other memory through gst_memory_map(). Errors name the memory: what the CPU cannot see, a
// dma-buf that is shorter than the planes in it.
class MappedFrame {
public:
  static Result<MappedFrame> map(GstBuffer *buffer, const FrameLayout &layout, int planes, MappingCache &mappings);
  MappedFrame(MappedFrame &&other) noexcept = default;
  MappedFrame(const MappedFrame &) = delete;
  MappedFrame &operator=(const MappedFrame &) = delete;
  ~MappedFrame() = default;

  const FramePlanes &planes() const { return planes_; }

private:
  struct Unmap {
    void operator()(GstMapInfo *info) const {
      gst_memory_unmap(info->memory, info);
      delete info;
    }
  };
  struct Readable {
    guint index = 0;
    std::unique_ptr<GstMapInfo, Unmap> info; // of a memory…
    std::shared_ptr<CpuMapping> mapping;     // …or of a dma-buf,
    std::optional<DmaBufCpuScope> cpu;       // in which case this ends before that goes
  };
  MappedFrame() = default;
  static Result<Readable> access(GstBuffer *buffer, guint index, MappingCache &mappings);

  FramePlanes planes_;
  std::vector<Readable> memories_;
};

} // namespace gstzc::infer
