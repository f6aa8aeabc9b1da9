// SPDX-License-Identifier: LGPL-2.1-or-later
// What tests of overlays draw with, and into.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <gst/video/video.h>

#include "gst/drm/overlay/painter.h"
#include "gst/drm/overlay/scene.h"

namespace gstzc::testdata {

// A picture in memory, its rows longer than they need to be.
struct Canvas {
  int width, height;
  uint32_t pitch;
  std::vector<unsigned char> data;

  Canvas(int w, int h)
      : width(w), height(h), pitch(static_cast<uint32_t>(w) * 4 + 16), data(pitch * static_cast<size_t>(h)) {}
  uint32_t at(int x, int y) const {
    uint32_t pixel;
    std::memcpy(&pixel, data.data() + static_cast<size_t>(y) * pitch + static_cast<size_t>(x) * 4, 4);
    return pixel;
  }
  void paint(const std::vector<DrawItem> &items) {
    Painter painter;
    painter.paint(items, {0, 0, width, height}, data.data(), pitch);
  }
};

inline OverlayMapping oneToOne(int width, int height) {
  return OverlayMapping({{0, 0, width, height}, {0, 0, width, height}, false});
}

// A packed picture with `pad` bytes after each row.
inline BufferRef picture(GstVideoFormat format, guint width, guint height, const std::vector<guint8> &bytes,
                         gint pad = 0) {
  const auto row = static_cast<gint>(bytes.size() / height);
  const gint stride[GST_VIDEO_MAX_PLANES] = {row + pad};
  const gsize offset[GST_VIDEO_MAX_PLANES] = {4}, size = 4 + static_cast<gsize>(stride[0]) * height;
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, size, nullptr);
  gst_buffer_memset(buffer, 0, 0xee, size);
  for (guint y = 0; y < height; ++y)
    gst_buffer_fill(buffer, 4 + static_cast<gsize>(stride[0]) * y, bytes.data() + static_cast<gsize>(row) * y,
                    static_cast<gsize>(row));
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, format, width, height, 1,
                                 const_cast<gsize *>(offset), const_cast<gint *>(stride));
  return BufferRef::adopt(buffer);
}

// Texts without fonts: as wide as they have characters, every pixel of the left column half covered, the others wholly.
class FakeLabels : public LabelSource {
public:
  std::shared_ptr<const TextBitmap> label(uint32_t quark, int percent) override {
    for (const Known &k : known_)
      if (k.quark == quark && k.percent == percent) return k.bitmap;
    auto bitmap = std::make_shared<TextBitmap>();
    const gchar *name = g_quark_to_string(quark);
    bitmap->width = static_cast<int>(name != nullptr ? std::strlen(name) : 3);
    bitmap->height = 6;
    bitmap->coverage.assign(static_cast<size_t>(bitmap->width) * 6, 255);
    for (size_t y = 0; y < 6; ++y) bitmap->coverage[y * static_cast<size_t>(bitmap->width)] = 128;
    known_.push_back({quark, percent, bitmap});
    return bitmap;
  }

private:
  struct Known {
    uint32_t quark;
    int percent;
    std::shared_ptr<const TextBitmap> bitmap;
  };
  std::vector<Known> known_;
};

} // namespace gstzc::testdata
