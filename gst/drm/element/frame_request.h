// SPDX-License-Identifier: LGPL-2.1-or-later
// What a buffer and its caps say, as the display wants to be told it.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/drm/display.h"
#include "gst/drm/recycling.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

// Colorimetry and HDR metadata of caps. Where they do not say how YCbCr becomes RGB: what video of the size usually is.
ColorChoice colorOf(const FrameCaps &frame, const GstCaps *caps);

// A buffer's picture, and the part of it to be shown. Crop metadata counts in the pixels of the buffer's GstVideoMeta.
// By GStreamer's convention the caps say the size of the part (videocrop, decoders), but some elements leave them at
// the whole picture's.
struct Picture {
  FrameCaps caps;           // of the whole picture
  std::optional<Rect> crop; // nothing: all of it
  bool cut = false;         // the metadata asks for what is not in the picture, and some or all of it is left out
  int x = 0, y = 0;         // where in it is the beginning of what the caps call the frame, as metadata counts
};
Picture pictureOf(GstBuffer *buffer, const FrameCaps &caps);

// What frames of the same caps may differ in, as far as a display may take one and refuse another.
struct FrameShape {
  int width = 0, height = 0; // of the whole picture
  std::optional<Rect> crop;
  bool dmabuf = false;
  unsigned n_planes = 0; // of the GstVideoMeta; 0: none
  std::array<gsize, GST_VIDEO_MAX_PLANES> offsets{};
  std::array<gint, GST_VIDEO_MAX_PLANES> strides{};
  bool operator==(const FrameShape &) const = default;
};
FrameShape shapeOf(GstBuffer *buffer, const Picture &picture);

// The frame's dma-bufs and where its planes lie in them. Errors: what no framebuffer can be.
Result<FramebufferImporter::Source> importSource(GstBuffer *buffer, const FrameLayout &layout, uint64_t modifier);

// Takes the reference; where it is counted comes from `store`.
std::shared_ptr<void> keepBuffer(const std::shared_ptr<BlockStore> &store, GstBuffer *buffer);

} // namespace gstzc
