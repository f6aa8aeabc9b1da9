// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/frame_source.h"

#include <algorithm>
#include <cerrno>

#include <gst/allocators/allocators.h>

#include "ext/cuda/memory/import_memory.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/memory_tracking.h"

namespace gstzc::cuda {

Result<ImportSource> importSource(GstBuffer *buffer, const FrameLayout &layout) {
  if (!layout.allDmaBuf()) return Error{"a frame that is not in dma-bufs", EINVAL, ""};
  if (layout.n_planes > kMaxImportPlanes)
    return Error{"a frame of " + std::to_string(layout.n_planes) + " planes", EOPNOTSUPP,
                 "At most " + std::to_string(kMaxImportPlanes) + " can be imported"};
  ImportSource source;
  source.fourcc = layout.caps.fourcc;
  source.modifier = layout.caps.modifier;
  source.width = static_cast<uint32_t>(layout.caps.width());
  source.height = static_cast<uint32_t>(layout.caps.height());
  source.n_planes = layout.n_planes;
  guint last = G_MAXUINT;
  for (guint p = 0; p < layout.n_planes; ++p) {
    const PlaneLayout &plane = layout.planes[p];
    source.planes[p] = {plane.offset, static_cast<uint32_t>(plane.stride), static_cast<uint32_t>(plane.rows),
                        static_cast<uint32_t>(plane.row_bytes)};
    if (plane.memory == last) continue;
    last = plane.memory;
    GstMemory *memory = gst_buffer_peek_memory(buffer, plane.memory);
    const auto id = trackMemory(memory);
    if (!id) return id.error();
    if (source.fd < 0) {
      source.fd = plane.fd;
      source.id = *id;
      const auto size = fileSize(plane.fd);
      if (!size) return size.error();
      source.size = *size;
      if (gst_is_zc_memory(memory)) {
        guint64 offset = 0;
        source.memfd = gst_zc_memory_get_memfd(memory, &offset);
        source.memfd_offset = offset;
      }
    } else if (*id != source.id) {
      return Error{"a frame whose planes lie in several dma-bufs", EOPNOTSUPP,
                   "One dma-buf for all planes can be imported: dmabufupload before this element does not help, as it "
                   "passes dma-bufs on; the producer has to allocate them so"};
    }
  }
  return source;
}

Result<GstVideoInfo> importedInfo(const GstVideoInfo &info, const DeviceImport &import) {
  const guint n = GST_VIDEO_INFO_N_PLANES(&info);
  if (n == 0 || n > import.n_planes)
    return Error{"an import of " + std::to_string(import.n_planes) + " planes of a frame that has " + std::to_string(n),
                 EINVAL, ""};
  GstVideoInfo result = info;
  guint64 size = 0;
  for (guint p = 0; p < n; ++p) {
    const ImportPlane &plane = import.planes[p];
    if (plane.pitch > G_MAXINT) return Error{"a pitch of " + std::to_string(plane.pitch) + " bytes", EINVAL, ""};
    result.offset[p] = plane.offset;
    result.stride[p] = static_cast<gint>(plane.pitch);
    // whole rows where they are there: other elements copy by them
    size = std::max(size, std::min(plane.offset + guint64{plane.pitch} * plane.rows, import.size));
  }
  result.size = size;
  const PixelPlanes pixels = pixelPlanes(result);
  for (guint p = 0; p < pixels.n; ++p)
    if (pixels.planes[p].end() > size)
      return Error{"plane " + std::to_string(p) + " ends at byte " + std::to_string(pixels.planes[p].end()) +
                       " of an import of " + std::to_string(import.size),
                   EINVAL, ""};
  return result;
}

} // namespace gstzc::cuda
