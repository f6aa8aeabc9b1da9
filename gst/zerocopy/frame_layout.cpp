// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/frame_layout.h"

#include <algorithm>
#include <cerrno>
#include <memory>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/format_traits.h"

namespace gstzc {
namespace {

std::string capsToString(const GstCaps *caps) {
  gchar *text = gst_caps_to_string(caps);
  std::string result = text;
  g_free(text);
  return result;
}

// GStreamer's parser leaves the size alone where it is absurd; an element further down would fail with less to say
Status checkSize(const GstVideoInfo &info, const GstCaps *caps) {
  const auto possible = [](int side) { return side > 0 && side <= kMaxFrameSide; };
  if (possible(GST_VIDEO_INFO_WIDTH(&info)) && possible(GST_VIDEO_INFO_HEIGHT(&info))) return Nothing{};
  return Error{"caps with a frame of " + std::to_string(GST_VIDEO_INFO_WIDTH(&info)) + "x" +
                   std::to_string(GST_VIDEO_INFO_HEIGHT(&info)) + " pixels (" + capsToString(caps) + ")",
               0, "Both sides have to be 1 to " + std::to_string(kMaxFrameSide)};
}

// Of a format that GStreamer does not know.
gint rowsOf(const FrameCaps &caps, guint plane) {
  const auto vsub = static_cast<gint>(formatTraits(caps.fourcc).vsub);
  return plane == 0 ? caps.height() : (caps.height() + vsub - 1) / vsub;
}

guint32 linearFourcc(GstVideoFormat format) {
  const guint32 fourcc = gst_video_dma_drm_fourcc_from_format(format);
  return fourcc == DRM_FORMAT_INVALID ? 0 : fourcc;
}

} // namespace

Result<FrameCaps> parseFrameCaps(const GstCaps *caps) {
  if (caps == nullptr || !gst_caps_is_fixed(caps)) return Error{"caps that are not fixed", 0, ""};
  if (!gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw")) // encoded video has a size of 0x0
    return Error{"caps that are no raw video: " + capsToString(caps), 0, "Put a decoder before it: decodebin3"};
  const GstCapsFeatures *features = gst_caps_get_features(caps, 0);
  FrameCaps result;
  const auto in = [features](const char *memory) {
    return features != nullptr && gst_caps_features_contains(features, memory);
  };
  result.memory = in(GST_CAPS_FEATURE_MEMORY_DMABUF) ? MemoryKind::DmaBuf
                  : in(kCudaFeature)                 ? MemoryKind::Cuda
                                                     : MemoryKind::System;

  if (gst_video_is_dma_drm_caps(caps)) {
    GstVideoInfoDmaDrm drm;
    gst_video_info_dma_drm_init(&drm);
    if (!gst_video_info_dma_drm_from_caps(&drm, caps))
      return Error{"caps that are no DMA_DRM video: " + capsToString(caps), 0,
                   "Write drm-format=NV12 for linear frames, which have no modifier (no :0x0 either), or "
                   "NV12:0x<modifier>"};
    if (auto size = checkSize(drm.vinfo, caps); !size) return size.error();
    result.drm_notation = true;
    result.fourcc = drm.drm_fourcc;
    result.modifier = drm.drm_modifier;
    result.info = drm.vinfo;
    if (!result.linear()) {
      // only a name: strides and sizes of a tiled frame are not ours to compute
      GstVideoInfo named;
      if (gst_video_info_dma_drm_to_video_info(&drm, &named)) result.info = named;
    } else if (GST_VIDEO_INFO_FORMAT(&result.info) == GST_VIDEO_FORMAT_DMA_DRM) {
      GST_VIDEO_INFO_SIZE(&result.info) = 0; // no GStreamer format has this fourcc: layout only from the buffer's meta
    }
    return result;
  }

  if (!gst_video_info_from_caps(&result.info, caps) || GST_VIDEO_INFO_FORMAT(&result.info) == GST_VIDEO_FORMAT_DMA_DRM)
    return Error{"caps that are no raw video: " + capsToString(caps), 0, ""};
  if (auto size = checkSize(result.info, caps); !size) return size.error();
  result.fourcc = linearFourcc(GST_VIDEO_INFO_FORMAT(&result.info));
  return result;
}

const char *drmFormatName(GstVideoFormat format) {
  // one string per format for the life of the process, so that callers need not free
  static gchar *names[GST_VIDEO_FORMAT_LAST] = {};
  static GMutex lock;
  const guint32 fourcc = linearFourcc(format);
  if (fourcc == 0 || format >= GST_VIDEO_FORMAT_LAST) return nullptr;
  g_mutex_lock(&lock);
  if (names[format] == nullptr) names[format] = gst_video_dma_drm_fourcc_to_string(fourcc, DRM_FORMAT_MOD_LINEAR);
  const char *name = names[format];
  g_mutex_unlock(&lock);
  return name;
}

bool FrameLayout::allDmaBuf() const {
  return n_planes > 0 &&
         std::all_of(planes.begin(), planes.begin() + n_planes, [](const PlaneLayout &p) { return p.fd >= 0; });
}

Result<FrameLayout> frameLayout(GstBuffer *buffer, const FrameCaps &caps) {
  FrameLayout layout;
  layout.caps = caps;
  const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
  const GstVideoFormatInfo *format = caps.info.finfo;
  layout.n_planes = meta != nullptr ? meta->n_planes : GST_VIDEO_INFO_N_PLANES(&caps.info);
  if (layout.n_planes == 0) return Error{"a frame without a known plane layout", 0, "Its buffers need a GstVideoMeta"};
  if (layout.n_planes > GST_VIDEO_MAX_PLANES)
    return Error{"a frame of " + std::to_string(layout.n_planes) + " planes", 0,
                 "There are at most " + std::to_string(GST_VIDEO_MAX_PLANES) +
                     ": the producer's GstVideoMeta is wrong"};
  if (caps.width() <= 0 || caps.height() <= 0)
    return Error{"a frame of " + std::to_string(caps.width()) + "x" + std::to_string(caps.height()) + " pixels", 0, ""};

  const bool linear = caps.linear();
  if (!linear && meta == nullptr)
    return Error{"a frame of a layout that is not linear, without a GstVideoMeta", 0,
                 "Where its planes lie only its producer can say"};

  int sized_fd = -1; // planes mostly share one descriptor
  BufferFacts facts;

  for (guint p = 0; p < layout.n_planes; ++p) {
    PlaneLayout &plane = layout.planes[p];
    const gsize offset = meta != nullptr ? meta->offset[p] : GST_VIDEO_INFO_PLANE_OFFSET(&caps.info, p);
    plane.stride = meta != nullptr ? meta->stride[p] : GST_VIDEO_INFO_PLANE_STRIDE(&caps.info, p);

    gint64 row_bytes = 0; // wider than a stride: caps that were not parsed here may have any width
    for (guint c = 0; format != nullptr && c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); ++c) {
      if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != p) continue;
      const gint64 width = GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(format, c, caps.width());
      row_bytes = std::max(row_bytes, width * GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c));
      plane.rows = std::max(plane.rows, GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(format, c, caps.height()));
    }
    if (plane.rows == 0) plane.rows = rowsOf(caps, p);
    // packed pixels (NV15 and the like) have no bytes per pixel: a row is the default stride
    if (row_bytes == 0 && p < GST_VIDEO_INFO_N_PLANES(&caps.info))
      row_bytes = GST_VIDEO_INFO_PLANE_STRIDE(&caps.info, p);
    if (row_bytes == 0) row_bytes = 1;
    if (!linear) { // a plane may be of tiles, or compression data: only where it begins is known
      row_bytes = 1;
      plane.rows = 1;
    }

    const std::string name = "plane " + std::to_string(p);
    if (plane.stride < (linear ? row_bytes : 0))
      return Error{name + " has a stride of " + std::to_string(plane.stride) + " bytes where a row has " +
                       std::to_string(row_bytes),
                   0, "The producer's GstVideoMeta is wrong for these caps"};
    plane.row_bytes = static_cast<gint>(row_bytes);

    guint memories = 0;
    gsize skip = 0;
    if (!gst_buffer_find_memory(buffer, offset, 1, &plane.memory, &memories, &skip) || memories != 1)
      return Error{name + " starts at byte " + std::to_string(offset) + ", past the buffer's " +
                       std::to_string(gst_buffer_get_size(buffer)),
                   0, "The producer's GstVideoMeta or buffer size is wrong"};
    GstMemory *memory = gst_buffer_peek_memory(buffer, plane.memory);
    const guint64 end = skip + static_cast<guint64>(std::max(plane.stride, 0)) * static_cast<guint64>(plane.rows - 1) +
                        static_cast<guint64>(plane.row_bytes);
    if (end > memory->size)
      return Error{name + " ends at byte " + std::to_string(end) + " of a memory of " + std::to_string(memory->size), 0,
                   "The producer's GstVideoMeta or buffer size is wrong"};
    plane.in_memory = skip;
    plane.offset = memory->offset + skip;
    if (!gst_is_dmabuf_memory(memory)) continue;

    plane.fd = gst_dmabuf_memory_get_fd(memory);
    if (plane.fd != sized_fd) {
      // what the producer says of a descriptor's size is not checked by anybody; a device, or the CPU, would find out
      const auto known = bufferFacts(plane.fd);
      if (!known) return Error{"the memory of " + name + ": " + known.error().what, known.error().code, ""};
      sized_fd = plane.fd;
      facts = *known; // what has no size is no dma-buf: importing or mapping it will say so
    }
    plane.buffer = facts.id;
    if (memory->offset + end > facts.size)
      return Error{name + " ends at byte " + std::to_string(memory->offset + end) + " of a dma-buf of " +
                       std::to_string(facts.size),
                   0, "The producer's GstMemory is larger than the dma-buf behind it"};
  }
  return layout;
}

} // namespace gstzc
