// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/reference/preprocess_reference.h"

#include <cmath>

namespace gstzc::reference {
namespace {

double limit(double v, double low, double high) { return v < low ? low : v > high ? high : v; }

// One channel as a grid of its own: value at column i, row j.
struct Grid {
  const std::vector<uint8_t> *bytes;
  int stride, pixel, offset, columns, rows;
  double at(int i, int j) const {
    return (*bytes)[static_cast<size_t>(j) * stride + static_cast<size_t>(i) * pixel + offset];
  }
  // `x`, `y` in this grid's own samples, the first at 0
  double bilinear(double x, double y) const {
    x = limit(x, 0, columns - 1);
    y = limit(y, 0, rows - 1);
    const int i = static_cast<int>(std::floor(x)), j = static_cast<int>(std::floor(y));
    const int i1 = i + 1 < columns ? i + 1 : i, j1 = j + 1 < rows ? j + 1 : j;
    const double fx = x - i, fy = y - j;
    return (1 - fy) * ((1 - fx) * at(i, j) + fx * at(i1, j)) + fy * ((1 - fx) * at(i, j1) + fx * at(i1, j1));
  }
};

Colour convert(const Picture &p, double y, double cb, double cr) {
  const double kg = 1 - p.kr - p.kb;
  const double luma = p.full_range ? y / 255 : (y - 16) / 219;
  const double pb = p.full_range ? (cb - 128) / 255 : (cb - 128) / 224;
  const double pr = p.full_range ? (cr - 128) / 255 : (cr - 128) / 224;
  const double r = luma + 2 * (1 - p.kr) * pr;
  const double b = luma + 2 * (1 - p.kb) * pb;
  const double g = (luma - p.kr * r - p.kb * b) / kg;
  return {{limit(r, 0, 1) * 255, limit(g, 0, 1) * 255, limit(b, 0, 1) * 255}};
}

} // namespace

Colour sample(const Picture &p, double x, double y) {
  const auto whole = [&](int plane, int pixel, int offset) {
    return Grid{&p.planes[plane], p.strides[plane], pixel, offset, p.width, p.height}.bilinear(x - 0.5, y - 0.5);
  };
  const auto chroma = [&](int plane, int pixel, int offset, bool half_height) {
    const Grid grid{&p.planes[plane], p.strides[plane],  pixel,
                    offset,           (p.width + 1) / 2, half_height ? (p.height + 1) / 2 : p.height};
    // chroma sample k belongs to pixels 2k and 2k+1: its centre is at 2k+1, or at 2k+0.5 where it sits on the left one
    const double cx = p.chroma_left ? (x - 0.5) / 2 : (x - 1) / 2;
    const double cy = half_height ? (y - 1) / 2 : y - 0.5;
    return grid.bilinear(cx, cy);
  };
  const auto packed = [&](int pixel, int r, int g, int b) {
    return Colour{{whole(0, pixel, r), whole(0, pixel, g), whole(0, pixel, b)}};
  };
  if (p.format == "RGB") return packed(3, 0, 1, 2);
  if (p.format == "BGR") return packed(3, 2, 1, 0);
  if (p.format == "RGBx" || p.format == "RGBA") return packed(4, 0, 1, 2);
  if (p.format == "BGRx" || p.format == "BGRA") return packed(4, 2, 1, 0);
  if (p.format == "xRGB" || p.format == "ARGB") return packed(4, 1, 2, 3);
  if (p.format == "xBGR" || p.format == "ABGR") return packed(4, 3, 2, 1);
  if (p.format == "GRAY8") {
    const double v = whole(0, 1, 0);
    const double grey = limit(p.full_range ? v : (v - 16) * 255 / 219, 0, 255);
    return {{grey, grey, grey}};
  }
  if (p.format == "NV12") return convert(p, whole(0, 1, 0), chroma(1, 2, 0, true), chroma(1, 2, 1, true));
  if (p.format == "NV21") return convert(p, whole(0, 1, 0), chroma(1, 2, 1, true), chroma(1, 2, 0, true));
  if (p.format == "NV16") return convert(p, whole(0, 1, 0), chroma(1, 2, 0, false), chroma(1, 2, 1, false));
  if (p.format == "I420") return convert(p, whole(0, 1, 0), chroma(1, 1, 0, true), chroma(2, 1, 0, true));
  if (p.format == "YV12") return convert(p, whole(0, 1, 0), chroma(2, 1, 0, true), chroma(1, 1, 0, true));
  if (p.format == "Y42B") return convert(p, whole(0, 1, 0), chroma(1, 1, 0, false), chroma(2, 1, 0, false));
  if (p.format == "Y444") return convert(p, whole(0, 1, 0), whole(1, 1, 0), whole(2, 1, 0));
  if (p.format == "YUY2") return convert(p, whole(0, 2, 0), chroma(0, 4, 1, false), chroma(0, 4, 3, false));
  if (p.format == "UYVY") return convert(p, whole(0, 2, 1), chroma(0, 4, 0, false), chroma(0, 4, 2, false));
  return {{NAN, NAN, NAN}};
}

std::vector<double> preprocess(const Picture &p, const Target &t) {
  std::vector<double> tensor(static_cast<size_t>(3) * t.width * t.height);
  const double fit_x = static_cast<double>(t.width) / p.width, fit_y = static_cast<double>(t.height) / p.height;
  const double zoom = std::fmin(fit_x, fit_y);
  const double zoom_x = t.letterbox ? zoom : fit_x, zoom_y = t.letterbox ? zoom : fit_y;
  const double left = (t.width - p.width * zoom_x) / 2, top = (t.height - p.height * zoom_y) / 2;
  for (int y = 0; y < t.height; ++y)
    for (int x = 0; x < t.width; ++x) {
      const double px = (x + 0.5 - left) / zoom_x, py = (y + 0.5 - top) / zoom_y;
      constexpr double hair = 1e-9; // a centre on the very edge is inside, whatever the rounding
      const bool inside = px >= -hair && py >= -hair && px <= p.width + hair && py <= p.height + hair;
      const Colour colour = inside ? sample(p, px, py) : Colour{{t.padding, t.padding, t.padding}};
      for (int c = 0; c < 3; ++c) {
        const int k = t.bgr ? 2 - c : c;
        const double value = (colour.c[k] - t.mean[k]) * t.scale[k];
        const size_t at = t.nchw ? (static_cast<size_t>(c) * t.height + y) * t.width + x
                                 : (static_cast<size_t>(y) * t.width + x) * 3 + c;
        tensor[at] = value;
      }
    }
  return tensor;
}

} // namespace gstzc::reference
