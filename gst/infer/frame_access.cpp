// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/frame_access.h"

#include <algorithm>
#include <utility>

namespace gstzc::infer {

Result<MappedFrame> MappedFrame::map(GstBuffer *buffer, const FrameLayout &layout, int planes) {
  MappedFrame frame;
  if (planes < 0 || static_cast<guint>(planes) > layout.n_planes)
    return Error{"a frame with " + std::to_string(layout.n_planes) + " planes where its format has " +
                     std::to_string(planes),
                 0, "The producer's GstVideoMeta is wrong for these caps"};
  for (int p = 0; p < planes; ++p) {
    const PlaneLayout &plane = layout.planes[p];
    auto it = std::find_if(frame.memories_.begin(), frame.memories_.end(),
                           [&](const Mapped &m) { return m.index == plane.memory; });
    if (it == frame.memories_.end()) {
      Mapped mapped;
      mapped.index = plane.memory;
      if (!gst_memory_map(gst_buffer_peek_memory(buffer, plane.memory), &mapped.info, GST_MAP_READ))
        return Error{"memory " + std::to_string(plane.memory) + " of the frame cannot be mapped for reading", 0,
                     "fenceinfer reads frames with the CPU: use a producer whose memory the CPU can see"};
      frame.memories_.push_back(mapped);
      it = frame.memories_.end() - 1;
    }
    frame.planes_.data[p] = it->info.data + plane.in_memory;
    frame.planes_.stride[p] = plane.stride;
  }
  return frame;
}

MappedFrame::MappedFrame(MappedFrame &&other) noexcept
    : planes_(other.planes_), memories_(std::exchange(other.memories_, {})) {}

MappedFrame::~MappedFrame() {
  for (Mapped &mapped : memories_) gst_memory_unmap(mapped.info.memory, &mapped.info);
}

} // namespace gstzc::infer
