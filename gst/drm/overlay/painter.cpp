// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/painter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gstzc {
namespace {

constexpr uint32_t kRim = 0xff000000;

// 0 to 255: how much of a pixel lies inside, `depth` pixels from the edge
uint32_t coverageOf(float depth) {
  return static_cast<uint32_t>(std::lround(std::clamp(depth + 0.5f, 0.0f, 1.0f) * 255));
}

} // namespace

void Painter::paint(std::span<const DrawItem> items, const Rect &part, unsigned char *data, uint32_t pitch) {
  if (isEmpty(part)) return;
  part_ = part;
  const auto width = static_cast<size_t>(part.width), height = static_cast<size_t>(part.height);
  pixels_.assign(width * height, 0);
  for (const DrawItem &item : items) {
    if (isEmpty(intersection(item.bounds, part_))) continue;
    switch (item.shape) {
    case DrawItem::Shape::Outline: outline(item); break;
    case DrawItem::Shape::Segment: segment(item); break;
    case DrawItem::Shape::Disc: disc(item); break;
    case DrawItem::Shape::Label: label(item); break;
    case DrawItem::Shape::Image:
      if (item.smooth)
        image(item);
      else
        blocks(item);
      break;
    }
  }
  for (size_t y = 0; y < height; ++y)
    std::memcpy(data + (static_cast<size_t>(part.y) + y) * pitch + static_cast<size_t>(part.x) * 4,
                pixels_.data() + y * width, width * 4);
}

void Painter::fill(const Rect &area, uint32_t color) {
  const Rect r = intersection(area, part_);
  for (int y = r.y; y < r.y + r.height; ++y) {
    uint32_t *p = row(y) + (r.x - part_.x);
    for (int x = 0; x < r.width; ++x) p[x] = over(color, p[x]);
  }
}

void Painter::outline(const DrawItem &item) {
  const Rect &a = item.area;
  const int w = std::min({item.line, (a.width + 1) / 2, (a.height + 1) / 2});
  const int inner = a.height - 2 * w; // corners once: the color may be translucent
  fill({a.x, a.y, a.width, w}, item.color);
  if (inner >= 0)
    fill({a.x, a.y + a.height - w, a.width, w}, item.color);
  else
    fill({a.x, a.y + w, a.width, a.height - w}, item.color);
  if (inner <= 0) return;
  fill({a.x, a.y + w, w, inner}, item.color);
  const int right = std::max(a.x + a.width - w, a.x + w);
  fill({right, a.y + w, a.x + a.width - right, inner}, item.color);
}

void Painter::segment(const DrawItem &item) {
  const Rect r = intersection(item.bounds, part_);
  const float dx = item.x1 - item.x0, dy = item.y1 - item.y0, length2 = dx * dx + dy * dy;
  const float half = static_cast<float>(item.line) / 2;
  for (int y = r.y; y < r.y + r.height; ++y) {
    uint32_t *p = row(y) + (r.x - part_.x);
    for (int x = 0; x < r.width; ++x) {
      const float px = static_cast<float>(r.x + x) + 0.5f - item.x0, py = static_cast<float>(y) + 0.5f - item.y0;
      const float t = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0f, 1.0f) : 0;
      const uint32_t covered = coverageOf(half - std::hypot(px - t * dx, py - t * dy));
      if (covered != 0) p[x] = over(fade(item.color, covered), p[x]);
    }
  }
}

void Painter::disc(const DrawItem &item) {
  const Rect r = intersection(item.bounds, part_);
  const float radius = static_cast<float>(item.line) / 2;
  for (int y = r.y; y < r.y + r.height; ++y) {
    uint32_t *p = row(y) + (r.x - part_.x);
    for (int x = 0; x < r.width; ++x) {
      const float from =
          std::hypot(static_cast<float>(r.x + x) + 0.5f - item.x0, static_cast<float>(y) + 0.5f - item.y0);
      const uint32_t rim = coverageOf(radius + 1 - from);
      if (rim == 0) continue;
      p[x] = over(fade(fade(kRim, item.color >> 24), rim), p[x]);
      p[x] = over(fade(item.color, coverageOf(radius - from)), p[x]);
    }
  }
}

void Painter::label(const DrawItem &item) {
  fill(item.area, item.color);
  const TextBitmap &text = *item.text;
  const int left = item.area.x + (item.area.width - text.width) / 2;
  const int top = item.area.y + (item.area.height - text.height) / 2;
  const Rect r = intersection(intersection({left, top, text.width, text.height}, item.area), part_);
  for (int y = r.y; y < r.y + r.height; ++y) {
    uint32_t *p = row(y) + (r.x - part_.x);
    const uint8_t *c =
        text.coverage.data() + static_cast<size_t>(y - top) * static_cast<size_t>(text.width) + (r.x - left);
    for (int x = 0; x < r.width; ++x)
      if (c[x] != 0) p[x] = over(fade(item.text_color, c[x]), p[x]);
  }
}

void Painter::blocks(const DrawItem &item) {
  const Rect r = intersection(item.bounds, part_);
  const Pixmap &map = *item.pixmap;
  // the middle of a pixel says what it shows
  const auto at = [](int64_t position, int64_t source, int64_t target) {
    return static_cast<int>((2 * position + 1) * source / (2 * target));
  };
  for (int y = r.y; y < r.y + r.height; ++y) {
    uint32_t *p = row(y) + (r.x - part_.x);
    const uint32_t *from = map.pixels.data() + static_cast<size_t>(at(y - item.area.y, map.height, item.area.height)) *
                                                   static_cast<size_t>(map.width);
    for (int x = 0; x < r.width; ++x) p[x] = over(from[at(r.x + x - item.area.x, map.width, item.area.width)], p[x]);
  }
}

// A triangle as wide as a pixel of the larger of both pictures: linear between pixels where it is enlarged, a weighted
// mean where it is made smaller, and each pixel by itself where it is neither. Of the `target` pixels from `from` on
// those in [begin, end).
void Painter::Taps::make(int from, int source, int target, int begin, int end) {
  taps.clear();
  all.clear();
  const double scale = static_cast<double>(source) / target, reach = std::max(scale, 1.0);
  for (int i = begin; i < end; ++i) {
    const double centre = (static_cast<double>(i) - from + 0.5) * scale - 0.5;
    const int first = std::max(static_cast<int>(std::ceil(centre - reach)), 0);
    const int last = std::min(static_cast<int>(std::floor(centre + reach)), source - 1);
    const auto weight = [&](int k) { return std::max(1 - std::abs(k - centre) / reach, 0.0); };
    double sum = 0;
    for (int k = first; k <= last; ++k) sum += weight(k);
    Tap tap{first, 0, all.size()};
    if (sum <= 0) { // cannot be but at numbers that no longer tell pixels apart
      tap.first = std::clamp(static_cast<int>(centre), 0, source - 1);
      tap.count = 1;
      all.push_back(65536);
      taps.push_back(tap);
      continue;
    }
    uint32_t given = 0;
    size_t largest = all.size();
    for (int k = first; k <= last; ++k) {
      all.push_back(static_cast<uint32_t>(std::lround(weight(k) / sum * 65536)));
      given += all.back();
      if (all.back() > all[largest]) largest = all.size() - 1;
    }
    all[largest] += 65536 - given; // in all it is one, so that opaque stays opaque
    tap.count = last - first + 1;
    taps.push_back(tap);
  }
}

void Painter::image(const DrawItem &item) {
  const Rect r = intersection(item.bounds, part_);
  const Pixmap &map = *item.pixmap;
  if (map.width == item.area.width && map.height == item.area.height) {
    blocks(item);
    return;
  }
  across_.make(item.area.x, map.width, item.area.width, r.x, r.x + r.width);
  down_.make(item.area.y, map.height, item.area.height, r.y, r.y + r.height);
  int low = map.width, high = 0; // the pixmap's columns that are needed
  for (const Taps::Tap &tap : across_.taps) {
    low = std::min(low, tap.first);
    high = std::max(high, tap.first + tap.count);
  }
  mixed_.resize(static_cast<size_t>(std::max(high - low, 0)) * 4);
  for (int y = r.y; y < r.y + r.height; ++y) {
    const Taps::Tap &tap = down_.taps[static_cast<size_t>(y - r.y)];
    for (int x = low; x < high; ++x) {
      uint32_t sum[4] = {};
      for (int k = 0; k < tap.count; ++k) {
        const uint32_t pixel =
            map.pixels[static_cast<size_t>(tap.first + k) * static_cast<size_t>(map.width) + static_cast<size_t>(x)];
        const uint32_t weight = down_.all[tap.weights + static_cast<size_t>(k)];
        for (int c = 0; c < 4; ++c) sum[c] += weight * ((pixel >> (c * 8)) & 255);
      }
      for (int c = 0; c < 4; ++c)
        mixed_[static_cast<size_t>(x - low) * 4 + static_cast<size_t>(c)] = (sum[c] + 128) >> 8;
    }
    uint32_t *p = row(y) + (r.x - part_.x);
    for (int x = 0; x < r.width; ++x) {
      const Taps::Tap &t = across_.taps[static_cast<size_t>(x)];
      uint64_t sum[4] = {};
      for (int k = 0; k < t.count; ++k)
        for (int c = 0; c < 4; ++c)
          sum[c] += uint64_t{across_.all[t.weights + static_cast<size_t>(k)]} *
                    mixed_[static_cast<size_t>(t.first - low + k) * 4 + static_cast<size_t>(c)];
      uint32_t pixel = 0;
      for (int c = 0; c < 4; ++c) pixel |= static_cast<uint32_t>((sum[c] + (1u << 23)) >> 24) << (c * 8);
      p[x] = over(pixel, p[x]);
    }
  }
}

} // namespace gstzc
