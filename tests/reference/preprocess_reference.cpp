// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/reference/preprocess_reference.h"

#include <cmath>
#include <utility>

namespace gstzc::reference {
namespace {

double limit(double v, double low, double high) { return v < low ? low : v > high ? high : v; }

int bitsOf(const std::string &format) { return format == "P010_10LE" ? 10 : 8; }

// Samples of an axis of `n` with their weights, for a centre (sample i from i to i+1) and a width.
std::vector<std::pair<int, double>> weights(double centre, double width, int n, bool area) {
  const auto inside = [n](double i) { return static_cast<int>(limit(i, 0, n - 1)); };
  if (!area || width <= 1) {
    const double low = std::floor(centre - 0.5), part = centre - 0.5 - low;
    return {{inside(low), 1 - part}, {inside(low + 1), part}};
  }
  std::vector<std::pair<int, double>> all;
  for (double i = std::floor(centre - width / 2); i < centre + width / 2; ++i) {
    const double begin = std::fmax(i, centre - width / 2), end = std::fmin(i + 1, centre + width / 2);
    all.emplace_back(inside(i), (end - begin) / width);
  }
  return all;
}

// One component as a grid of its own.
struct Grid {
  const Picture &picture;
  size_t plane;
  int pixel, offset, columns, rows;

  double at(int i, int j) const {
    const uint8_t *const p = picture.planes[plane].data() +
                             static_cast<size_t>(j) * static_cast<size_t>(picture.strides[plane]) +
                             static_cast<size_t>(i) * static_cast<size_t>(pixel) + offset;
    if (bitsOf(picture.format) == 10) return (p[0] + 256 * p[1]) / 64; // the ten upper bits
    return *p;
  }
  double value(const Spot &s) const {
    double sum = 0;
    for (const auto &[j, down] : weights(s.y, s.height, rows, s.area))
      for (const auto &[i, across] : weights(s.x, s.width, columns, s.area)) sum += down * across * at(i, j);
    return sum;
  }
};

// Nominal 0..1 of luma and colours; -0.5..0.5 of chroma.
double expandLuma(const Picture &p, double v) {
  const double unit = std::pow(2, bitsOf(p.format) - 8), top = std::pow(2, bitsOf(p.format)) - 1;
  return p.full_range ? v / top : (v - 16 * unit) / (219 * unit);
}
double expandChroma(const Picture &p, double v) {
  const double unit = std::pow(2, bitsOf(p.format) - 8), top = std::pow(2, bitsOf(p.format)) - 1;
  return (v - 128 * unit) / (p.full_range ? top : 224 * unit);
}
double toByte(double v) { return limit(v, 0, 1) * 255; }

Colour fromYuv(const Picture &p, double y, double cb, double cr, bool grey) {
  const double kg = 1 - p.kr - p.kb;
  const double luma = expandLuma(p, y), pb = expandChroma(p, cb), pr = expandChroma(p, cr);
  if (grey) return {{toByte(luma), toByte(luma), toByte(luma)}};
  const double r = luma + 2 * (1 - p.kr) * pr;
  const double b = luma + 2 * (1 - p.kb) * pb;
  const double g = (luma - p.kr * r - p.kb * b) / kg;
  return {{toByte(r), toByte(g), toByte(b)}};
}

Colour fromRgb(const Picture &p, double red, double green, double blue, bool grey) {
  const double r = expandLuma(p, red), g = expandLuma(p, green), b = expandLuma(p, blue);
  if (!grey) return {{toByte(r), toByte(g), toByte(b)}};
  const double luma = p.kr * r + (1 - p.kr - p.kb) * g + p.kb * b;
  return {{toByte(luma), toByte(luma), toByte(luma)}};
}

} // namespace

std::vector<PlaneShape> planesOf(const std::string &f, int w, int h) {
  const int cw = (w + 1) / 2, ch = (h + 1) / 2;
  if (f == "GRAY8") return {{1, w, h}};
  if (f == "RGB" || f == "BGR") return {{3, w, h}};
  if (f == "NV12" || f == "NV21") return {{1, w, h}, {2, cw, ch}};
  if (f == "NV16" || f == "NV61") return {{1, w, h}, {2, cw, h}};
  if (f == "P010_10LE") return {{2, w, h}, {4, cw, ch}};
  if (f == "I420" || f == "YV12") return {{1, w, h}, {1, cw, ch}, {1, cw, ch}};
  if (f == "Y42B") return {{1, w, h}, {1, cw, h}, {1, cw, h}};
  if (f == "Y444" || f == "RGBP" || f == "BGRP" || f == "GBR") return {{1, w, h}, {1, w, h}, {1, w, h}};
  if (f == "YUY2" || f == "UYVY") return {{4, cw, h}};
  return {{4, w, h}};
}

Colour sample(const Picture &p, const Spot &spot, bool grey) {
  const std::string &f = p.format;
  const auto whole = [&](size_t plane, int pixel, int offset) {
    return Grid{p, plane, pixel, offset, p.width, p.height}.value(spot);
  };
  const auto chroma = [&](size_t plane, int pixel, int offset, bool half_height) {
    const Grid grid{p, plane, pixel, offset, (p.width + 1) / 2, half_height ? (p.height + 1) / 2 : p.height};
    // chroma sample k belongs to pixels 2k and 2k+1: its centre is at 2k+1, or at 2k+0.5 where it sits on the first one
    Spot own = spot;
    own.x = p.chroma_left ? (spot.x + 0.5) / 2 : spot.x / 2;
    own.width = spot.width / 2;
    if (half_height) {
      own.y = p.chroma_top ? (spot.y + 0.5) / 2 : spot.y / 2;
      own.height = spot.height / 2;
    }
    return grid.value(own);
  };
  const auto packed = [&](int pixel, int r, int g, int b) {
    return fromRgb(p, whole(0, pixel, r), whole(0, pixel, g), whole(0, pixel, b), grey);
  };
  const auto planar = [&](size_t r, size_t g, size_t b) {
    return fromRgb(p, whole(r, 1, 0), whole(g, 1, 0), whole(b, 1, 0), grey);
  };
  const auto semiplanar = [&](int bytes, int u, int v, bool half_height) {
    return fromYuv(p, whole(0, bytes, 0), chroma(1, 2 * bytes, u * bytes, half_height),
                   chroma(1, 2 * bytes, v * bytes, half_height), grey);
  };
  if (f == "RGB") return packed(3, 0, 1, 2);
  if (f == "BGR") return packed(3, 2, 1, 0);
  if (f == "RGBx" || f == "RGBA") return packed(4, 0, 1, 2);
  if (f == "BGRx" || f == "BGRA") return packed(4, 2, 1, 0);
  if (f == "xRGB" || f == "ARGB") return packed(4, 1, 2, 3);
  if (f == "xBGR" || f == "ABGR") return packed(4, 3, 2, 1);
  if (f == "RGBP") return planar(0, 1, 2);
  if (f == "BGRP") return planar(2, 1, 0);
  if (f == "GBR") return planar(2, 0, 1);
  if (f == "GRAY8") {
    const double v = toByte(expandLuma(p, whole(0, 1, 0)));
    return {{v, v, v}};
  }
  if (f == "NV12" || f == "NV16") return semiplanar(1, 0, 1, f == "NV12");
  if (f == "NV21" || f == "NV61") return semiplanar(1, 1, 0, f == "NV21");
  if (f == "P010_10LE") return semiplanar(2, 0, 1, true);
  if (f == "I420") return fromYuv(p, whole(0, 1, 0), chroma(1, 1, 0, true), chroma(2, 1, 0, true), grey);
  if (f == "YV12") return fromYuv(p, whole(0, 1, 0), chroma(2, 1, 0, true), chroma(1, 1, 0, true), grey);
  if (f == "Y42B") return fromYuv(p, whole(0, 1, 0), chroma(1, 1, 0, false), chroma(2, 1, 0, false), grey);
  if (f == "Y444") return fromYuv(p, whole(0, 1, 0), whole(1, 1, 0), whole(2, 1, 0), grey);
  if (f == "YUY2") return fromYuv(p, whole(0, 2, 0), chroma(0, 4, 1, false), chroma(0, 4, 3, false), grey);
  if (f == "UYVY") return fromYuv(p, whole(0, 2, 1), chroma(0, 4, 0, false), chroma(0, 4, 2, false), grey);
  return {{NAN, NAN, NAN}};
}

std::vector<double> preprocess(const Picture &p, const Target &t) {
  std::vector<double> tensor(static_cast<size_t>(t.channels) * static_cast<size_t>(t.width) *
                             static_cast<size_t>(t.height));
  const double shown_width = t.shown_width > 0 ? t.shown_width : p.width;
  const double shown_height = t.shown_width > 0 ? t.shown_height : p.height;
  double zoom_x = t.width / shown_width, zoom_y = t.height / shown_height;
  if (t.fit == Fit::Letterbox || t.fit == Fit::LetterboxTopLeft) zoom_x = zoom_y = std::fmin(zoom_x, zoom_y);
  if (t.fit == Fit::Crop) zoom_x = zoom_y = std::fmax(zoom_x, zoom_y);
  // of what is shown, in the tensor
  const bool corner = t.fit == Fit::LetterboxTopLeft;
  const double left = corner ? 0 : (t.width - shown_width * zoom_x) / 2;
  const double top = corner ? 0 : (t.height - shown_height * zoom_y) / 2;
  for (int y = 0; y < t.height; ++y)
    for (int x = 0; x < t.width; ++x) {
      const double rx = (x + 0.5 - left) / zoom_x, ry = (y + 0.5 - top) / zoom_y; // within what is shown
      const double px = rx + t.left, py = ry + t.top;
      constexpr double hair = 1e-9; // a centre on the very edge is inside, whatever the rounding
      const auto within = [](double v, double end) { return v >= -hair && v <= end + hair; };
      const bool inside =
          within(rx, shown_width) && within(ry, shown_height) && within(px, p.width) && within(py, p.height);
      const Colour colour = inside ? sample(p, {px, py, 1 / zoom_x, 1 / zoom_y, t.area}, t.channels == 1)
                                   : Colour{{t.padding, t.padding, t.padding}};
      for (int c = 0; c < t.channels; ++c) {
        const int k = t.bgr && t.channels == 3 ? 2 - c : c;
        const size_t at = t.nchw ? (static_cast<size_t>(c) * t.height + y) * t.width + x
                                 : (static_cast<size_t>(y) * t.width + x) * t.channels + c;
        tensor[at] = (colour.c[k] - t.mean[k]) * t.scale[k];
      }
    }
  return tensor;
}

} // namespace gstzc::reference
