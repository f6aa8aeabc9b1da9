// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/pixmap.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <drm_mode.h>
#include <gst/video/video.h>

namespace gstzc {
namespace {

constexpr guint kMostSide = 32768;

// The picture of a packed format in a buffer, mapped; of what its GstVideoMeta says nothing is believed that would
// leave the memory.
class Mapped {
public:
  Mapped(GstBuffer *buffer, unsigned pixel_bytes) : buffer_(buffer) {
    const GstVideoMeta *meta = buffer != nullptr ? gst_buffer_get_video_meta(buffer) : nullptr;
    if (meta == nullptr || meta->width == 0 || meta->height == 0 || meta->width > kMostSide ||
        meta->height > kMostSide || meta->stride[0] < static_cast<gint>(meta->width * pixel_bytes))
      return;
    mapped_ = gst_buffer_map(buffer, &map_, GST_MAP_READ);
    if (!mapped_) return;
    const auto stride = static_cast<gsize>(meta->stride[0]);
    const gsize needed = stride * (meta->height - 1) + gsize{meta->width} * pixel_bytes;
    if (meta->offset[0] > map_.size || needed > map_.size - meta->offset[0]) return;
    data_ = map_.data + meta->offset[0];
    stride_ = stride;
    width_ = static_cast<int>(meta->width);
    height_ = static_cast<int>(meta->height);
  }
  ~Mapped() {
    if (mapped_) gst_buffer_unmap(buffer_, &map_);
  }
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;

  bool valid() const { return data_ != nullptr; }
  int width() const { return width_; }
  int height() const { return height_; }
  const guint8 *row(int y) const { return data_ + static_cast<gsize>(y) * stride_; }

private:
  GstBuffer *buffer_;
  GstMapInfo map_ = {};
  bool mapped_ = false;
  const guint8 *data_ = nullptr;
  gsize stride_ = 0;
  int width_ = 0, height_ = 0;
};

// Calls write(index of the turned picture's pixel, x, y) for each pixel of one of width x height.
template <typename Write> void turned(int width, int height, uint32_t rotation, Write write) {
  const bool mirror = (rotation & DRM_MODE_REFLECT_X) != 0, flip = (rotation & DRM_MODE_REFLECT_Y) != 0;
  const uint32_t turn = rotation & DRM_MODE_ROTATE_MASK;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int u = mirror ? width - 1 - x : x, v = flip ? height - 1 - y : y;
      size_t at;
      switch (turn) {
      case DRM_MODE_ROTATE_90: at = static_cast<size_t>(width - 1 - u) * static_cast<size_t>(height) + v; break;
      case DRM_MODE_ROTATE_180:
        at = static_cast<size_t>(height - 1 - v) * static_cast<size_t>(width) + (width - 1 - u);
        break;
      case DRM_MODE_ROTATE_270: at = static_cast<size_t>(u) * static_cast<size_t>(height) + (height - 1 - v); break;
      default: at = static_cast<size_t>(v) * static_cast<size_t>(width) + u;
      }
      write(at, x, y);
    }
}

std::shared_ptr<Pixmap> emptyPixmap(int width, int height, uint32_t rotation) {
  auto pixmap = std::make_shared<Pixmap>();
  pixmap->width = width;
  pixmap->height = height;
  if (const uint32_t turn = rotation & DRM_MODE_ROTATE_MASK; turn == DRM_MODE_ROTATE_90 || turn == DRM_MODE_ROTATE_270)
    std::swap(pixmap->width, pixmap->height);
  pixmap->pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height));
  return pixmap;
}

// BT.709, limited range
uint32_t rgbOfYuv(int y, int u, int v) {
  const auto level = [](double value) { return static_cast<uint32_t>(std::clamp(std::lround(value), 0L, 255L)); };
  const double l = (y - 16) * 255.0 / 219, cb = (u - 128) * 255.0 / 224, cr = (v - 128) * 255.0 / 224;
  return level(l + 1.5748 * cr) << 16 | level(l - 0.187324 * cb - 0.468124 * cr) << 8 | level(l + 1.8556 * cb);
}

} // namespace

std::shared_ptr<const Pixmap> pixmapOf(GstBuffer *buffer, bool premultiplied, double alpha, uint32_t rotation) {
  const GstVideoMeta *meta = buffer != nullptr ? gst_buffer_get_video_meta(buffer) : nullptr;
  if (meta == nullptr) return nullptr;
  std::array<int, 4> order; // where in a pixel's bytes alpha, red, green and blue are, or alpha, Y, U and V
  bool yuv = false;
  switch (meta->format) {
  case GST_VIDEO_FORMAT_BGRA: order = {3, 2, 1, 0}; break;
  case GST_VIDEO_FORMAT_ARGB: order = {0, 1, 2, 3}; break;
  case GST_VIDEO_FORMAT_RGBA: order = {3, 0, 1, 2}; break;
  case GST_VIDEO_FORMAT_ABGR: order = {0, 3, 2, 1}; break;
  case GST_VIDEO_FORMAT_AYUV:
    order = {0, 1, 2, 3};
    yuv = true;
    break;
  default: return nullptr;
  }
  const Mapped mapped(buffer, 4);
  if (!mapped.valid()) return nullptr;
  const auto whole = static_cast<uint64_t>(std::lround(std::clamp(alpha, 0.0, 1.0) * 65536));
  auto pixmap = emptyPixmap(mapped.width(), mapped.height(), rotation);
  turned(mapped.width(), mapped.height(), rotation, [&](size_t at, int x, int y) {
    const guint8 *p = mapped.row(y) + static_cast<size_t>(x) * 4;
    const uint32_t a = p[order[0]];
    uint32_t c[3] = {p[order[1]], p[order[2]], p[order[3]]};
    if (yuv) {
      const uint32_t rgb = rgbOfYuv(p[1], p[2], p[3]);
      for (int i = 0; i < 3; ++i) c[i] = (rgb >> (16 - i * 8)) & 255;
    }
    // rounded once, whatever it is multiplied by
    uint32_t pixel = static_cast<uint32_t>((a * whole + 32768) >> 16);
    for (const uint32_t component : c) {
      constexpr uint64_t kOne = 255 * 65536;
      const uint64_t scaled = premultiplied ? uint64_t{255} * std::min(component, a) // more than its alpha is no light
                                            : uint64_t{component} * a;
      pixel = pixel << 8 | static_cast<uint32_t>((scaled * whole + kOne / 2) / kOne);
    }
    pixmap->pixels[at] = pixel;
  });
  return pixmap;
}

std::shared_ptr<const Pixmap> pixmapOfMask(GstBuffer *buffer, const std::function<uint32_t(uint32_t)> &color,
                                           uint32_t rotation) {
  const GstVideoMeta *meta = buffer != nullptr ? gst_buffer_get_video_meta(buffer) : nullptr;
  if (meta == nullptr) return nullptr;
  const GstVideoFormat format = meta->format;
  const bool wide = format == GST_VIDEO_FORMAT_GRAY16_LE || format == GST_VIDEO_FORMAT_GRAY16_BE;
  if (!wide && format != GST_VIDEO_FORMAT_GRAY8) return nullptr;
  const Mapped mapped(buffer, wide ? 2 : 1);
  if (!mapped.valid()) return nullptr;
  auto pixmap = emptyPixmap(mapped.width(), mapped.height(), rotation);
  uint32_t known = 0, known_color = 0; // neighbours mostly have the same value
  turned(mapped.width(), mapped.height(), rotation, [&](size_t at, int x, int y) {
    const guint8 *p = mapped.row(y) + static_cast<size_t>(x) * (wide ? 2 : 1);
    const uint32_t value = !wide                                  ? p[0]
                           : format == GST_VIDEO_FORMAT_GRAY16_LE ? GST_READ_UINT16_LE(p)
                                                                  : GST_READ_UINT16_BE(p);
    if (value != known) {
      known = value;
      known_color = value == 0 ? 0 : color(value);
    }
    pixmap->pixels[at] = known_color;
  });
  return pixmap;
}

} // namespace gstzc
