// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/grids.h"

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

TEST(GridCells, Table) {
  EXPECT_EQ(gridCells(picture(640, 640)), 8400);
  EXPECT_EQ(gridCells(picture(416, 416)), 3549);
  EXPECT_EQ(gridCells(picture(320, 256)), 40 * 32 + 20 * 16 + 10 * 8);
  EXPECT_EQ(gridCells(picture(32, 32)), 16 + 4 + 1);
  EXPECT_EQ(gridCells(picture(300, 300)), 0);
  EXPECT_EQ(gridCells(picture(640, 360)), 0);
  constexpr int eight = 8;
  EXPECT_EQ(gridCells(picture(640, 360), {&eight, 1}), 80 * 45);
}

// 96x64: grids of 12x8, 6x4 and 3x2 cells
TEST(CellOf, Table) {
  const InputPlan input = picture(96, 64);
  struct {
    size_t row, grid, index;
    float column, line, stride;
  } const rows[] = {
      {0, 0, 0, 0, 0, 8},   {11, 0, 11, 11, 0, 8},      {12, 0, 12, 0, 1, 8},      {95, 0, 95, 11, 7, 8},
      {96, 1, 0, 0, 0, 16}, {96 + 23, 1, 23, 5, 3, 16}, {96 + 24, 2, 0, 0, 0, 32}, {96 + 24 + 5, 2, 5, 2, 1, 32},
  };
  for (const auto &row : rows) {
    const Cell cell = cellOf(input, row.row);
    EXPECT_EQ(cell.grid, row.grid) << row.row;
    EXPECT_EQ(cell.index, row.index) << row.row;
    EXPECT_EQ(cell.column, row.column) << row.row;
    EXPECT_EQ(cell.row, row.line) << row.row;
    EXPECT_EQ(cell.stride, row.stride) << row.row;
  }
}

} // namespace
