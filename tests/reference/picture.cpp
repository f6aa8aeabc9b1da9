// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/reference/picture.h"

#include <algorithm>
#include <cmath>

namespace gstzc::reference {
namespace {

// The two neighbours of position `at` among `count` samples whose centres are at 0, 1, 2, …
struct Between {
  int low = 0, high = 0;
  double part_of_high = 0;
  Between(double at, int count) {
    at = std::min(std::max(at, 0.0), count - 1.0);
    low = static_cast<int>(std::floor(at));
    high = std::min(low + 1, count - 1);
    part_of_high = at - low;
  }
  double mix(double a, double b) const { return a + (b - a) * part_of_high; }
};

double clip(double value) { return std::min(std::max(value, 0.0), 255.0); }

} // namespace

RgbPicture fromRgb(const uint8_t *pixels, int stride, int width, int height) {
  RgbPicture picture{width, height, {}};
  picture.rgb.reserve(static_cast<size_t>(width) * height * 3);
  for (int y = 0; y < height; ++y) {
    const uint8_t *row = pixels + static_cast<ptrdiff_t>(y) * stride;
    picture.rgb.insert(picture.rgb.end(), row, row + width * 3);
  }
  return picture;
}

RgbPicture fromNv12(const Plane &luma, const Plane &chroma, int width, int height, const Matrix &matrix) {
  RgbPicture picture{width, height, std::vector<double>(static_cast<size_t>(width) * height * 3)};
  const int columns = (width + 1) / 2, rows = (height + 1) / 2;
  const double kg = 1 - matrix.kr - matrix.kb;
  for (int y = 0; y < height; ++y) {
    const Between v((y + 0.5) / 2 - 0.5, rows);
    const uint8_t *above = chroma.data + static_cast<ptrdiff_t>(v.low) * chroma.stride;
    const uint8_t *below = chroma.data + static_cast<ptrdiff_t>(v.high) * chroma.stride;
    for (int x = 0; x < width; ++x) {
      const Between h(matrix.chroma_left ? x / 2.0 : (x + 0.5) / 2 - 0.5, columns);
      const auto difference = [&](int which) {
        return v.mix(h.mix(above[2 * h.low + which], above[2 * h.high + which]),
                     h.mix(below[2 * h.low + which], below[2 * h.high + which])) -
               128;
      };
      const double sample = luma.data[static_cast<ptrdiff_t>(y) * luma.stride + x];
      const double light = matrix.full_range ? sample : (sample - 16) * 255 / 219;
      const double gain = matrix.full_range ? 1 : 255.0 / 224;
      const double red = light + 2 * (1 - matrix.kr) * gain * difference(1);
      const double blue = light + 2 * (1 - matrix.kb) * gain * difference(0);
      double *out = &picture.rgb[(static_cast<size_t>(y) * width + x) * 3];
      out[0] = clip(red);
      out[1] = clip((light - matrix.kr * red - matrix.kb * blue) / kg);
      out[2] = clip(blue);
    }
  }
  return picture;
}

RgbPicture crop(const RgbPicture &picture, int x, int y, int width, int height) {
  RgbPicture part{width, height, {}};
  for (int row = y; row < y + height; ++row) {
    const auto from = picture.rgb.begin() + (static_cast<ptrdiff_t>(row) * picture.width + x) * 3;
    part.rgb.insert(part.rgb.end(), from, from + static_cast<ptrdiff_t>(width) * 3);
  }
  return part;
}

RgbPicture resized(const RgbPicture &picture, int width, int height) {
  RgbPicture out{width, height, {}};
  out.rgb.reserve(static_cast<size_t>(width) * height * 3);
  for (int y = 0; y < height; ++y) {
    const Between v((y + 0.5) * picture.height / height - 0.5, picture.height);
    for (int x = 0; x < width; ++x) {
      const Between h((x + 0.5) * picture.width / width - 0.5, picture.width);
      for (int c = 0; c < 3; ++c)
        out.rgb.push_back(v.mix(h.mix(picture.at(h.low, v.low, c), picture.at(h.high, v.low, c)),
                                h.mix(picture.at(h.low, v.high, c), picture.at(h.high, v.high, c))));
    }
  }
  return out;
}

} // namespace gstzc::reference
