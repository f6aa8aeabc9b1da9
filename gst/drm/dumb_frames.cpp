// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/dumb_frames.h"

#include <algorithm>

#include "gst/drm/framebuffer.h"

namespace gstzc {
namespace {

gsize planeRows(const GstVideoInfo &info, guint plane) {
  gsize rows = 0;
  for (guint c = 0; c < GST_VIDEO_INFO_N_COMPONENTS(&info); ++c)
    if (static_cast<guint>(GST_VIDEO_INFO_COMP_PLANE(&info, c)) == plane)
      rows = std::max<gsize>(rows, GST_VIDEO_INFO_COMP_HEIGHT(&info, c));
  return rows;
}

class DumbFrames : public FrameSource {
public:
  explicit DumbFrames(std::shared_ptr<KmsDevice> device) : device_(std::move(device)) {}

  Result<PoolFrame> make(const FrameCaps &caps) override {
    GstVideoInfo info = caps.info;
    if (!caps.linear() || GST_VIDEO_INFO_N_PLANES(&info) == 0 || GST_VIDEO_INFO_SIZE(&info) == 0)
      return Error{"a dumb buffer for " + toString({caps.fourcc, caps.modifier}), 0,
                   "They are for linear layouts of formats that GStreamer knows"};
    const DumbLayout layout = dumbLayout(info);
    auto dumb = DumbBuffer::create(device_, layout.width, layout.height, layout.bits);
    if (!dumb) return dumb.error();
    if (!applyPitch(info, (*dumb)->pitch(), (*dumb)->size()))
      return Error{"a dumb buffer of " + device_->path() + " is too small for the frame", 0, ""};
    auto fd = (*dumb)->exportDmaBuf();
    if (!fd) return fd.error();
    PoolFrame frame;
    // the dma-buf keeps the memory, the handle may go
    frame.memories.push_back({fd.take(), (*dumb)->size()});
    frame.format = GST_VIDEO_INFO_FORMAT(&info);
    frame.n_planes = GST_VIDEO_INFO_N_PLANES(&info);
    std::copy_n(info.offset, GST_VIDEO_MAX_PLANES, frame.offsets.begin());
    std::copy_n(info.stride, GST_VIDEO_MAX_PLANES, frame.strides.begin());
    frame.usual = sameLayout(info, caps.info);
    return frame;
  }

private:
  const std::shared_ptr<KmsDevice> device_;
};

} // namespace

DumbLayout dumbLayout(const GstVideoInfo &info) {
  DumbLayout layout;
  const auto width = static_cast<uint32_t>(GST_VIDEO_INFO_WIDTH(&info));
  if (GST_VIDEO_INFO_N_PLANES(&info) == 1 && GST_VIDEO_INFO_COMP_PSTRIDE(&info, 0) == 4 &&
      GST_VIDEO_INFO_PLANE_STRIDE(&info, 0) == static_cast<gint>(4 * width)) {
    layout = {width, static_cast<uint32_t>(GST_VIDEO_INFO_HEIGHT(&info)), 32};
  } else {
    const auto stride = static_cast<gsize>(std::max(GST_VIDEO_INFO_PLANE_STRIDE(&info, 0), 1));
    gsize bytes = 0;
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p)
      bytes += planeRows(info, p) * static_cast<gsize>(gst_video_format_info_extrapolate_stride(
                                        info.finfo, static_cast<gint>(p), static_cast<gint>(stride)));
    layout = {static_cast<uint32_t>(stride), static_cast<uint32_t>((bytes + stride - 1) / stride), 8};
  }
  return layout;
}

bool applyPitch(GstVideoInfo &info, uint32_t pitch, uint64_t size) {
  gsize offset = 0;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    const gint stride =
        gst_video_format_info_extrapolate_stride(info.finfo, static_cast<gint>(p), static_cast<gint>(pitch));
    info.stride[p] = stride;
    info.offset[p] = offset;
    offset += planeRows(info, p) * static_cast<gsize>(stride);
  }
  info.size = offset;
  return offset <= size;
}

bool sameLayout(const GstVideoInfo &a, const GstVideoInfo &b) {
  const auto planes = GST_VIDEO_INFO_N_PLANES(&a);
  return planes == GST_VIDEO_INFO_N_PLANES(&b) && std::equal(a.offset, a.offset + planes, b.offset) &&
         std::equal(a.stride, a.stride + planes, b.stride);
}

std::shared_ptr<FrameSource> dumbFrames(std::shared_ptr<KmsDevice> device) {
  return std::make_shared<DumbFrames>(std::move(device));
}

uint32_t pitchAlignment(KmsDevice &device) {
  DumbMemory memory;
  for (const uint32_t bits : {8u, 32u}) { // some drivers know 32 only
    if (device.createDumb(1, 1, bits, &memory) != 0) continue;
    device.destroyDumb(memory.handle);
    constexpr uint32_t kMost = 4096; // more is no wish about rows
    const bool power = memory.pitch != 0 && (memory.pitch & (memory.pitch - 1)) == 0;
    return power && memory.pitch <= kMost ? memory.pitch : 1;
  }
  return 1;
}

} // namespace gstzc
