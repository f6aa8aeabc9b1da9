// SPDX-License-Identifier: LGPL-2.1-or-later
// Shapes to pixels. What a pixel becomes depends on the shapes alone and not on the part that is painted, so that a
// picture that was painted in parts is the same as one that was painted at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gst/drm/overlay/draw_list.h"

namespace gstzc {

class Painter {
public:
  // Replaces the pixels of `part` in a picture of premultiplied 32-bit pixels at `data` with rows of `pitch` bytes.
  // `part` lies in the picture. The picture is only written, each pixel once: reading memory of a display is slow.
  void paint(std::span<const DrawItem> items, const Rect &part, unsigned char *data, uint32_t pitch);

private:
  void outline(const DrawItem &item);
  void segment(const DrawItem &item);
  void disc(const DrawItem &item);
  void label(const DrawItem &item);
  void image(const DrawItem &item);
  void blocks(const DrawItem &item);
  void fill(const Rect &area, uint32_t color);
  uint32_t *row(int y) { return pixels_.data() + static_cast<size_t>(y - part_.y) * static_cast<size_t>(part_.width); }

  // How one side of a pixmap is resampled: each of the part's columns (or rows) is a weighted sum of `count` of the
  // pixmap's from `first` on.
  struct Taps {
    struct Tap {
      int first = 0, count = 0;
      size_t weights = 0; // in `all`
    };
    std::vector<Tap> taps;
    std::vector<uint32_t> all; // of 65536
    void make(int from, int source, int target, int begin, int end);
  };

  Rect part_;
  std::vector<uint32_t> pixels_;
  Taps across_, down_;
  std::vector<uint32_t> mixed_; // a row of the pixmap, components in 8.8, two words a pixel
};

} // namespace gstzc
