// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames of a test's own dma-bufs into a pipeline, in any layout and with any fences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gst/video/video.h>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "tests/lab/drm/player.h"

namespace gstzc::lab {

// One GstMemory: bytes [offset, offset + size) of a dma-buf of `total` bytes, borrowed. `shared`: as a sub-memory of
// one that is all of the dma-buf.
struct Piece {
  int dmabuf = -1;
  size_t total = 0, offset = 0, size = 0;
  bool shared = false;
};

// A frame that consists of `pieces`, one after the other; `offsets` and `strides` of the planes count from the first
// piece's first byte, as in GstVideoMeta.
struct FrameShape {
  GstVideoFormat format = GST_VIDEO_FORMAT_BGRx;
  uint32_t width = 0, height = 0;
  std::vector<size_t> offsets;
  std::vector<int> strides;
};
GstBuffer *makeFrame(std::span<const Piece> pieces, const FrameShape &shape, uint64_t pts);

// The player's element "src", which is an appsrc with format=time.
class Feeder {
public:
  explicit Feeder(Player &player);
  ~Feeder();
  Feeder(const Feeder &) = delete;
  Feeder &operator=(const Feeder &) = delete;

  GstElement *element() const { return source_; }
  GstFlowReturn push(GstBuffer *buffer); // takes it
  void end();

private:
  GstElement *source_;
};

// A picture of one colour: XRGB8888 in a udmabuf of its own.
class Picture {
public:
  static constexpr uint32_t kWidth = 64, kHeight = 48;
  static constexpr size_t kSize = size_t{kWidth} * kHeight * 4; // whole pages
  static Result<Picture> create(uint32_t rgb);

  int dmabuf() const { return dmabuf_.get(); } // borrowed
  uint32_t rgb() const { return rgb_; }
  GstBuffer *frame(uint64_t pts) const { return frameOf(dmabuf_.get(), pts); }

  // Of other memory of kSize bytes
  static GstBuffer *frameOf(int dmabuf, uint64_t pts);
  // "appsrc name=src … caps=…" for such frames
  static std::string source();

private:
  Picture(UniqueFd dmabuf, uint32_t rgb) : dmabuf_(std::move(dmabuf)), rgb_(rgb) {}
  UniqueFd dmabuf_;
  uint32_t rgb_;
};

} // namespace gstzc::lab
