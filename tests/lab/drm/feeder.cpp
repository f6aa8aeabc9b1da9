// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/drm/feeder.h"

#include <algorithm>
#include <array>

#include <gst/allocators/allocators.h>

#include "tests/lab/support/memory.h"

namespace gstzc::lab {

GstBuffer *makeFrame(std::span<const Piece> pieces, const FrameShape &shape, uint64_t pts) {
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  GstBuffer *buffer = gst_buffer_new();
  for (const Piece &piece : pieces) {
    GstMemory *memory = gst_dmabuf_allocator_alloc(allocator, UniqueFd::duplicate(piece.dmabuf).release(), piece.total);
    if (piece.shared) {
      GstMemory *part = gst_memory_share(memory, static_cast<gssize>(piece.offset), static_cast<gssize>(piece.size));
      gst_memory_unref(memory); // the part keeps it
      memory = part;
    } else {
      gst_memory_resize(memory, static_cast<gssize>(piece.offset), piece.size);
    }
    gst_buffer_append_memory(buffer, memory);
  }
  gst_object_unref(allocator);
  std::array<gsize, GST_VIDEO_MAX_PLANES> offsets = {};
  std::array<gint, GST_VIDEO_MAX_PLANES> strides = {};
  std::copy(shape.offsets.begin(), shape.offsets.end(), offsets.begin());
  std::copy(shape.strides.begin(), shape.strides.end(), strides.begin());
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, shape.format, shape.width, shape.height,
                                 static_cast<guint>(shape.strides.size()), offsets.data(), strides.data());
  GST_BUFFER_PTS(buffer) = pts;
  return buffer;
}

Feeder::Feeder(Player &player) : source_(gst_bin_get_by_name(GST_BIN(player.pipeline()), "src")) {}

Feeder::~Feeder() { gst_object_unref(source_); }

GstFlowReturn Feeder::push(GstBuffer *buffer) {
  GstFlowReturn flow = GST_FLOW_ERROR;
  g_signal_emit_by_name(source_, "push-buffer", buffer, &flow);
  gst_buffer_unref(buffer);
  return flow;
}

void Feeder::end() {
  GstFlowReturn flow;
  g_signal_emit_by_name(source_, "end-of-stream", &flow);
}

Result<Picture> Picture::create(uint32_t rgb) {
  auto memory = allocateUdmabuf(kSize);
  if (!memory) return memory.error();
  auto mapping = Mapping::create(memory->get(), kSize);
  if (!mapping) return mapping.error();
  std::fill_n(reinterpret_cast<uint32_t *>(mapping->data()), kWidth * kHeight, rgb);
  return Picture(memory.take(), rgb);
}

GstBuffer *Picture::frameOf(int dmabuf, uint64_t pts) {
  const Piece piece{dmabuf, kSize, 0, kSize};
  return makeFrame({&piece, 1}, {GST_VIDEO_FORMAT_BGRx, kWidth, kHeight, {0}, {kWidth * 4}}, pts);
}

std::string Picture::source() {
  return "appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64,"
         "height=48,framerate=50/1\"";
}

} // namespace gstzc::lab
