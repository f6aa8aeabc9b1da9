// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_access.h"

#include <algorithm>
#include <utility>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/memory_tracking.h"

namespace gstzc::infer {

Result<MappedFrame::Readable> MappedFrame::access(GstBuffer *buffer, guint index, MappingCache &mappings) {
  GstMemory *memory = gst_buffer_peek_memory(buffer, index);
  const auto failed = [&](const std::string &why, int code) {
    return Error{"memory " + std::to_string(index) + " of the frame cannot be mapped for reading" + why, code,
                 "fenceinfer reads frames with the CPU: use a producer whose memory the CPU can see"};
  };
  Readable result;
  result.index = index;
  if (gst_is_dmabuf_memory(memory)) {
    const int fd = gst_dmabuf_memory_get_fd(memory);
    auto id = trackMemory(memory);
    if (!id) return failed(": " + id.error().what, id.error().code);
    auto mapping = mappings.map(fd, *id);
    if (!mapping) return failed(": " + mapping.error().what, mapping.error().code);
    result.mapping = mapping.take();
    result.cpu.emplace(fd, Access::Read);
    if (!result.cpu->ok()) return failed(": begin the access", result.cpu->error());
    return result;
  }
  auto info = std::make_unique<GstMapInfo>();
  if (!gst_memory_map(memory, info.get(), GST_MAP_READ)) return failed("", 0);
  result.info.reset(info.release());
  return result;
}

Result<MappedFrame> MappedFrame::map(GstBuffer *buffer, const FrameLayout &layout, int planes, MappingCache &mappings) {
  MappedFrame frame;
  if (planes < 0 || static_cast<guint>(planes) > layout.n_planes)
    return Error{"a frame with " + std::to_string(layout.n_planes) + " planes where its format has " +
                     std::to_string(planes),
                 0, "The producer's GstVideoMeta is wrong for these caps"};
  for (int p = 0; p < planes; ++p) {
    const PlaneLayout &plane = layout.planes[p];
    auto it = std::find_if(frame.memories_.begin(), frame.memories_.end(),
                           [&](const Readable &r) { return r.index == plane.memory; });
    if (it == frame.memories_.end()) {
      auto memory = access(buffer, plane.memory, mappings);
      if (!memory) return memory.error();
      frame.memories_.push_back(memory.take());
      it = frame.memories_.end() - 1;
    }
    if (it->mapping) {
      // the memory's word for its size is not the dma-buf's
      const gsize end = plane.offset + static_cast<gsize>(plane.stride) * (plane.rows - 1) + plane.row_bytes;
      if (end > it->mapping->size())
        return Error{"plane " + std::to_string(p) + " ends at byte " + std::to_string(end) + " of a dma-buf of " +
                         std::to_string(it->mapping->size()),
                     0, "The producer's dma-buf is shorter than it says"};
      frame.planes_.data[p] = it->mapping->data() + plane.offset;
    } else {
      frame.planes_.data[p] = it->info->data + plane.in_memory;
    }
    frame.planes_.stride[p] = plane.stride;
  }
  return frame;
}

} // namespace gstzc::infer
