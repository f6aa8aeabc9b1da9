// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/frame_copy.h"

#include <chrono>
#include <cstring>

#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc {
namespace {

constexpr std::chrono::milliseconds kTimeout{kFenceTimeoutDefault};

// CPU view of the GstMemory that holds a plane
class PlaneMapping {
public:
  PlaneMapping(GstBuffer *buffer, const PlaneLayout &plane, GstMapFlags flags)
      : memory_(gst_buffer_peek_memory(buffer, plane.memory)), in_memory_(plane.in_memory),
        mapped_(gst_memory_map(memory_, &map_, flags)) {}
  ~PlaneMapping() {
    if (mapped_) gst_memory_unmap(memory_, &map_);
  }
  PlaneMapping(const PlaneMapping &) = delete;
  PlaneMapping &operator=(const PlaneMapping &) = delete;
  guint8 *data() const { return mapped_ ? map_.data + in_memory_ : nullptr; }

private:
  GstMemory *memory_;
  gsize in_memory_;
  GstMapInfo map_ = {};
  bool mapped_;
};

std::string planeName(guint p) { return "plane " + std::to_string(p); }

} // namespace

Result<gsize> copyFrame(GstBuffer *dst, const FrameCaps &dst_caps, GstBuffer *src, const FrameCaps &src_caps,
                        const std::function<bool()> &interrupted) {
  if (GST_VIDEO_INFO_FORMAT(&src_caps.info) != GST_VIDEO_INFO_FORMAT(&dst_caps.info) ||
      src_caps.width() != dst_caps.width() || src_caps.height() != dst_caps.height())
    return Error{"copy between frames of different format or size", 0, ""};
  auto to = frameLayout(dst, dst_caps);
  if (!to) return to.error();
  auto from = frameLayout(src, src_caps);
  // planes cut across memories have no layout of their own, only offsets in the buffer as a whole
  const bool split = !from.ok() && gst_buffer_n_memory(src) > 1;
  if (!from && !split) return from.error();
  const GstVideoMeta *meta = gst_buffer_get_video_meta(src);
  if (meta != nullptr && meta->n_planes != to->n_planes)
    return Error{"a GstVideoMeta of " + std::to_string(meta->n_planes) + " planes for a format of " +
                     std::to_string(to->n_planes),
                 0, "The producer's GstVideoMeta is wrong for these caps"};

  if (auto ready = waitForFrame(src, Access::Read, kTimeout, interrupted); !ready) return ready.error();
  if (auto idle = waitForFrame(dst, Access::Write, kTimeout, interrupted); !idle)
    return Error{"memory for a copy, which a device still uses", idle.error().code,
                 "The pool that it comes from gives buffers out before their devices are done"};

  gsize bytes = 0;
  for (guint p = 0; p < to->n_planes; ++p) {
    const PlaneLayout &out = to->planes[p];
    PlaneMapping mapped_out(dst, out, GST_MAP_WRITE);
    if (mapped_out.data() == nullptr) return Error{planeName(p) + " of the new frame cannot be mapped", 0, ""};
    const gsize row_bytes = static_cast<gsize>(out.row_bytes);

    if (split) {
      const gsize offset = meta != nullptr ? meta->offset[p] : GST_VIDEO_INFO_PLANE_OFFSET(&src_caps.info, p);
      const gint stride = meta != nullptr ? meta->stride[p] : GST_VIDEO_INFO_PLANE_STRIDE(&src_caps.info, p);
      if (stride < out.row_bytes) return from.error();
      for (gint row = 0; row < out.rows; ++row) {
        const gsize at = offset + static_cast<gsize>(stride) * row;
        if (gst_buffer_extract(src, at, mapped_out.data() + static_cast<gsize>(out.stride) * row, row_bytes) !=
            row_bytes)
          return Error{planeName(p) + " ends past the buffer's " + std::to_string(gst_buffer_get_size(src)) + " bytes",
                       0, "The producer's GstVideoMeta or buffer size is wrong"};
      }
    } else {
      const PlaneLayout &in = from->planes[p];
      PlaneMapping mapped_in(src, in, GST_MAP_READ);
      if (mapped_in.data() == nullptr) return Error{planeName(p) + " of the frame cannot be mapped", 0, ""};
      if (in.stride == out.stride && in.stride == out.row_bytes) {
        std::memcpy(mapped_out.data(), mapped_in.data(), row_bytes * out.rows);
      } else {
        for (gint row = 0; row < out.rows; ++row)
          std::memcpy(mapped_out.data() + static_cast<gsize>(out.stride) * row,
                      mapped_in.data() + static_cast<gsize>(in.stride) * row, row_bytes);
      }
    }
    bytes += row_bytes * out.rows;
  }
  return bytes;
}

void copyFrameMetadata(GstBuffer *dst, GstBuffer *src) {
  gst_buffer_copy_into(dst, src, static_cast<GstBufferCopyFlags>(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS), 0,
                       static_cast<gsize>(-1));
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta(src, &state)) {
    const GstMetaInfo *info = meta->info;
    const bool of_memory = gst_meta_api_type_has_tag(info->api, _gst_meta_tag_memory) ||
                           gst_meta_api_type_has_tag(info->api, _gst_meta_tag_memory_reference);
    if (of_memory || info->transform_func == nullptr) continue;
    GstMetaTransformCopy whole = {FALSE, 0, static_cast<gsize>(-1)};
    info->transform_func(dst, meta, src, _gst_meta_transform_copy, &whole);
  }
}

} // namespace gstzc
