// SPDX-License-Identifier: LGPL-2.1-or-later
// The grids of cells that detectors without priors divide their input into, one for each stride.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gst/infer/preprocess/input_plan.h"

namespace gstzc::infer {

// Of YOLO's, YOLOX's and YuNet's detectors, in the order of their rows.
inline constexpr std::array<int, 3> kStrides = {8, 16, 32};

// Cells of the grids that `strides` divide the input into, in all; 0 where a stride does not divide it evenly.
int64_t gridCells(const InputPlan &input, std::span<const int> strides = kStrides);

// One cell of the grids of kStrides.
struct Cell {
  size_t grid = 0;  // index of its stride
  size_t index = 0; // within its grid, row by row
  float column = 0, row = 0, stride = 1;
};

// The cell that row `row` of an output with one for each cell belongs to; `row` is below gridCells().
Cell cellOf(const InputPlan &input, size_t row);

} // namespace gstzc::infer
