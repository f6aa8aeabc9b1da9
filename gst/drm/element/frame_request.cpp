// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/frame_request.h"

#include <algorithm>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/zerocopy/core/format_traits.h"
#include "gst/zerocopy/memory_tracking.h"

namespace gstzc {

ColorChoice colorOf(const FrameCaps &frame, const GstCaps *caps) {
  const GstVideoInfo &info = frame.info;
  ColorChoice color;
  color.hdr = hdrMetadataOf(info, caps);
  color.bt2020 = info.colorimetry.primaries == GST_VIDEO_COLOR_PRIMARIES_BT2020;
  if (!formatTraits(frame.fourcc).yuv) return color;
  const GstVideoColorimetry &c = info.colorimetry;
  switch (c.matrix) {
  case GST_VIDEO_COLOR_MATRIX_BT601:
  case GST_VIDEO_COLOR_MATRIX_FCC: color.encoding = "ITU-R BT.601 YCbCr"; break;
  case GST_VIDEO_COLOR_MATRIX_BT2020: color.encoding = "ITU-R BT.2020 YCbCr"; break;
  case GST_VIDEO_COLOR_MATRIX_BT709: color.encoding = "ITU-R BT.709 YCbCr"; break;
  default: // unsaid: what video of this size usually is
    color.encoding = GST_VIDEO_INFO_HEIGHT(&info) > 576 ? "ITU-R BT.709 YCbCr" : "ITU-R BT.601 YCbCr";
  }
  color.range = c.range == GST_VIDEO_COLOR_RANGE_0_255 ? "YCbCr full range" : "YCbCr limited range";
  return color;
}

namespace {

// The same frame in another size.
FrameCaps resized(const FrameCaps &caps, guint width, guint height) {
  FrameCaps result = caps;
  GstVideoInfo info;
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&caps.info);
  if (caps.linear() && format != GST_VIDEO_FORMAT_DMA_DRM && gst_video_info_set_format(&info, format, width, height)) {
    std::copy_n(info.stride, GST_VIDEO_MAX_PLANES, result.info.stride);
    std::copy_n(info.offset, GST_VIDEO_MAX_PLANES, result.info.offset);
    result.info.size = info.size;
  }
  result.info.width = static_cast<gint>(width);
  result.info.height = static_cast<gint>(height);
  return result;
}

} // namespace

Picture pictureOf(GstBuffer *buffer, const FrameCaps &caps) {
  Picture picture{caps, std::nullopt, false, 0, 0};
  const GstVideoCropMeta *meta = gst_buffer_get_video_crop_meta(buffer);
  if (meta == nullptr) return picture;
  constexpr guint kMost = kMaxFrameSide;
  if (const GstVideoMeta *whole = gst_buffer_get_video_meta(buffer);
      whole != nullptr && whole->width - 1 < kMost && whole->height - 1 < kMost &&
      (whole->width != static_cast<guint>(caps.width()) || whole->height != static_cast<guint>(caps.height())))
    picture.caps = resized(caps, whole->width, whole->height);
  const int width = picture.caps.width(), height = picture.caps.height();
  Rect crop{static_cast<int>(std::min<guint>(meta->x, kMost)), static_cast<int>(std::min<guint>(meta->y, kMost)),
            static_cast<int>(std::min<guint>(meta->width, kMost)),
            static_cast<int>(std::min<guint>(meta->height, kMost))};
  crop.width = std::min(crop.width, width - crop.x);
  crop.height = std::min(crop.height, height - crop.y);
  picture.cut = crop.width <= 0 || crop.height <= 0 || meta->width != static_cast<guint>(crop.width) ||
                meta->height != static_cast<guint>(crop.height);
  if (crop.width <= 0 || crop.height <= 0 || crop == Rect{0, 0, width, height}) return picture;
  picture.crop = crop;
  if (meta->width == static_cast<guint>(caps.width()) && meta->height == static_cast<guint>(caps.height())) {
    picture.x = crop.x;
    picture.y = crop.y;
  }
  return picture;
}

FrameShape shapeOf(GstBuffer *buffer, const Picture &picture) {
  FrameShape shape;
  shape.width = picture.caps.width();
  shape.height = picture.caps.height();
  shape.crop = picture.crop;
  shape.dmabuf = gst_buffer_n_memory(buffer) > 0 && gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0));
  if (const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer)) {
    shape.n_planes = meta->n_planes;
    for (unsigned p = 0; p < std::min<unsigned>(meta->n_planes, GST_VIDEO_MAX_PLANES); ++p) {
      shape.offsets[p] = meta->offset[p];
      shape.strides[p] = meta->stride[p];
    }
  }
  return shape;
}

Result<FramebufferImporter::Source> importSource(GstBuffer *buffer, const FrameLayout &layout, uint64_t modifier) {
  FramebufferImporter::Source source;
  if (layout.n_planes > kMaxFramebufferPlanes)
    return Error{"a frame of " + std::to_string(layout.n_planes) + " planes", 0, "A framebuffer has 4 at most"};
  source.key.n_planes = layout.n_planes;
  source.key.fourcc = layout.caps.fourcc;
  source.key.modifier = modifier;
  source.key.width = static_cast<uint32_t>(layout.caps.width());
  source.key.height = static_cast<uint32_t>(layout.caps.height());
  const FormatTraits traits = formatTraits(layout.caps.fourcc);
  source.subsampled = traits.hsub > 1 || traits.vsub > 1;
  for (guint p = 0; p < layout.n_planes; ++p) {
    const PlaneLayout &plane = layout.planes[p];
    if (plane.offset > UINT32_MAX)
      return Error{"plane " + std::to_string(p) + " lies " + std::to_string(plane.offset) + " bytes into its dma-buf",
                   0, "A framebuffer's planes begin within the first 4 GiB"};
    trackMemory(gst_buffer_peek_memory(buffer, plane.memory), plane.buffer);
    source.key.buffers[p] = plane.buffer;
    source.key.offsets[p] = plane.offset;
    source.key.pitches[p] = static_cast<uint32_t>(plane.stride);
    source.fds[p] = plane.fd;
  }
  return source;
}

std::shared_ptr<void> keepBuffer(const std::shared_ptr<BlockStore> &store, GstBuffer *buffer) {
  return {buffer, [](void *b) { gst_buffer_unref(static_cast<GstBuffer *>(b)); },
          RecyclingAllocator<GstBuffer *>(store)};
}

} // namespace gstzc
