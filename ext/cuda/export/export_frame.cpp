// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/export/export_frame.h"

#include <string>

namespace gstzc::cuda {
namespace {

std::string listOf(const GstVideoInfo &info) {
  std::string offsets, strides;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    offsets += (p > 0 ? ", " : "") + std::to_string(info.offset[p]);
    strides += (p > 0 ? ", " : "") + std::to_string(info.stride[p]);
  }
  return "strides " + strides + " and offsets " + offsets;
}

} // namespace

CUstream streamOf(GstMemory *memory) {
  return gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)));
}

GstVideoInfo deviceLayout(GstBuffer *frame, const GstVideoInfo &caps, GstMemory *memory) {
  GstVideoInfo layout = GST_CUDA_MEMORY_CAST(memory)->info;
  if (GST_VIDEO_INFO_FORMAT(&layout) != GST_VIDEO_INFO_FORMAT(&caps)) layout = caps;
  if (const GstVideoMeta *meta = gst_buffer_get_video_meta(frame); meta != nullptr)
    for (guint p = 0; p < meta->n_planes && p < GST_VIDEO_MAX_PLANES; ++p) {
      layout.offset[p] = meta->offset[p];
      layout.stride[p] = meta->stride[p];
    }
  return layout;
}

Status laidOutAs(const GstVideoInfo *plain, const GstVideoInfo &layout) {
  bool same = true;
  for (guint p = 0; plain != nullptr && p < GST_VIDEO_INFO_N_PLANES(plain); ++p)
    same = same && layout.offset[p] == plain->offset[p] && layout.stride[p] == plain->stride[p];
  if (same) return Nothing{};
  return Error{"the planes have " + listOf(layout) + ", and downstream, which does not read GstVideoMeta, expects " +
                   listOf(*plain),
               0, ""};
}

void setVideoMeta(GstBuffer *buffer, const GstVideoInfo &info) {
  if (const GstVideoMeta *old = gst_buffer_get_video_meta(buffer); old != nullptr)
    gst_buffer_remove_meta(buffer, reinterpret_cast<GstMeta *>(const_cast<GstVideoMeta *>(old)));
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&info),
                                 GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info),
                                 GST_VIDEO_INFO_N_PLANES(&info), info.offset, info.stride);
}

} // namespace gstzc::cuda
