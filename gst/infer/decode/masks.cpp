// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/masks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gst/infer/decode/half.h"

namespace gstzc::infer {
namespace {

constexpr int64_t kMaxSide = 16384;

// Where one line of the mask's cells takes its values: between two cells of the prototypes each.
struct Axis {
  struct Taps {
    int first = 0, second = 0; // counted from Axis::first
    float weight = 0;          // of the second
  };
  std::vector<Taps> cells;
  int first = 0, count = 0; // cells of the prototypes that are read
};

// `from` to `to`: parts of the picture, 0..1; `cells`: of the prototypes.
Axis divide(double from, double to, int cells) {
  const double begin = from * cells, length = (to - from) * cells;
  // a hair less, so that rounding makes no cell of its own
  const int count = std::clamp(static_cast<int>(std::ceil(length - 1e-3)), 1, cells);
  Axis axis;
  for (int i = 0; i < count; ++i) {
    // the value of a cell is that of its centre
    const double at = std::clamp(begin + (i + 0.5) * length / count - 0.5, 0.0, cells - 1.0);
    const int first = static_cast<int>(at);
    const float weight = static_cast<float>(at - first);
    // a neighbour that weighs nothing may be no number
    axis.cells.push_back({first, weight > 0 ? std::min(first + 1, cells - 1) : first, weight});
  }
  axis.first = axis.cells.front().first;
  axis.count = axis.cells.back().second - axis.first + 1;
  for (Axis::Taps &taps : axis.cells) {
    taps.first -= axis.first;
    taps.second -= axis.first;
  }
  return axis;
}

} // namespace

std::optional<BoxMask> maskOf(std::span<const float> coefficients, const TensorView &prototypes, const Detection &box) {
  const std::vector<int64_t> &dims = prototypes.dims;
  if (!isFloat(prototypes.type) || prototypes.data == nullptr || dims.size() != 4 || dims[0] != 1) return {};
  if (dims[1] < 1 || dims[1] != static_cast<int64_t>(coefficients.size())) return {};
  if (dims[2] < 1 || dims[3] < 1 || dims[2] > kMaxSide || dims[3] > kMaxSide) return {};
  const size_t plane = static_cast<size_t>(dims[2] * dims[3]);
  if (prototypes.bytes / tensorTypeSize(prototypes.type) / plane < coefficients.size()) return {};

  const PictureRect visible = insidePicture(box);
  if (!visible.hasArea()) return {};
  const int width = static_cast<int>(dims[3]), height = static_cast<int>(dims[2]);
  const Axis across = divide(visible.left, visible.right, width), down = divide(visible.top, visible.bottom, height);

  // interpolated before the threshold, so that edges are not the stairs of the prototypes' cells
  const size_t columns = static_cast<size_t>(across.count);
  std::vector<float> sums(columns * static_cast<size_t>(down.count)), row(columns);
  for (int y = 0; y < down.count; ++y) {
    float *const sum = sums.data() + static_cast<size_t>(y) * columns;
    const size_t start = static_cast<size_t>(down.first + y) * static_cast<size_t>(width) + across.first;
    for (size_t p = 0; p < coefficients.size(); ++p) {
      readFloats(prototypes, p * plane + start, columns, row.data());
      const float factor = coefficients[p];
      for (size_t x = 0; x < columns; ++x) sum[x] += factor * row[x];
    }
  }

  BoxMask mask;
  mask.width = static_cast<int>(across.cells.size());
  mask.height = static_cast<int>(down.cells.size());
  mask.values.reserve(across.cells.size() * down.cells.size());
  for (const Axis::Taps &y : down.cells) {
    const float *const top = sums.data() + static_cast<size_t>(y.first) * columns;
    const float *const bottom = sums.data() + static_cast<size_t>(y.second) * columns;
    for (const Axis::Taps &x : across.cells) {
      const float upper = top[x.first] + (top[x.second] - top[x.first]) * x.weight;
      const float lower = bottom[x.first] + (bottom[x.second] - bottom[x.first]) * x.weight;
      // sigmoid(v) > 0.5 where v > 0
      mask.values.push_back(upper + (lower - upper) * y.weight > 0 ? 255 : 0);
    }
  }
  return mask;
}

} // namespace gstzc::infer
