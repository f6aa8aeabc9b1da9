// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/grids.h"

namespace gstzc::infer {

int64_t gridCells(const InputPlan &input, std::span<const int> strides) {
  int64_t cells = 0;
  for (const int stride : strides) {
    if (input.width % stride != 0 || input.height % stride != 0) return 0;
    cells += int64_t{input.width / stride} * (input.height / stride);
  }
  return cells;
}

Cell cellOf(const InputPlan &input, size_t row) {
  for (size_t grid = 0; grid < kStrides.size(); ++grid) {
    const int stride = kStrides[grid];
    const auto columns = static_cast<size_t>(input.width / stride), rows = static_cast<size_t>(input.height / stride);
    if (row < columns * rows)
      return {grid, row, static_cast<float>(row % columns), static_cast<float>(row / columns),
              static_cast<float>(stride)};
    row -= columns * rows;
  }
  return {};
}

} // namespace gstzc::infer
