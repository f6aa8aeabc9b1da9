// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/mapping.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

InputPlan tensorOf(int width, int height) { return {width, height, TensorLayout::Nhwc, TensorType::Float32}; }

// Corners of the tensor in the frame, or of the frame in the tensor, by hand.
TEST(Mapping, TensorToFrame) {
  const Region wide = {0, 0, 1920, 1080}, tall = {0, 0, 1080, 1920}, part = {100, 50, 200, 100};
  struct {
    const char *name;
    int width, height;
    Region region;
    ResizeMode mode;
    double left, top, right, bottom; // the tensor's edges in the frame
  } const rows[] = {
      {"stretch", 128, 128, wide, ResizeMode::Stretch, 0, 0, 1920, 1080},
      {"stretch a part", 64, 32, part, ResizeMode::Stretch, 100, 50, 300, 150},
      {"letterbox, bars above and below", 128, 128, wide, ResizeMode::Letterbox, 0, -420, 1920, 1500},
      {"letterbox, bars left and right", 128, 128, tall, ResizeMode::Letterbox, -420, 0, 1500, 1920},
      {"letterbox a part", 100, 100, part, ResizeMode::Letterbox, 100, 0, 300, 200},
      {"letterbox in the corner, wide", 128, 128, wide, ResizeMode::LetterboxTopLeft, 0, 0, 1920, 1920},
      {"letterbox in the corner, tall", 128, 64, tall, ResizeMode::LetterboxTopLeft, 0, 0, 3840, 1920},
      {"letterbox in the corner, a part", 100, 100, part, ResizeMode::LetterboxTopLeft, 100, 50, 300, 250},
      {"crop, sides lost", 128, 128, wide, ResizeMode::Crop, 420, 0, 1500, 1080},
      {"crop, top and bottom lost", 128, 128, tall, ResizeMode::Crop, 0, 420, 1080, 1500},
      {"crop a part", 10, 10, part, ResizeMode::Crop, 150, 50, 250, 150},
      {"crop of the same shape", 160, 90, wide, ResizeMode::Crop, 0, 0, 1920, 1080},
  };
  for (const auto &row : rows) {
    const Mapping m = mapTensorToFrame(tensorOf(row.width, row.height), row.region, row.mode);
    EXPECT_DOUBLE_EQ(m.frameX(0), row.left) << row.name;
    EXPECT_DOUBLE_EQ(m.frameY(0), row.top) << row.name;
    EXPECT_DOUBLE_EQ(m.frameX(row.width), row.right) << row.name;
    EXPECT_DOUBLE_EQ(m.frameY(row.height), row.bottom) << row.name;
    EXPECT_TRUE(row.mode == ResizeMode::Stretch || m.step_x == m.step_y) << row.name;
  }
}

TEST(Mapping, PixelsWithin) {
  struct {
    int pixels;
    double step, origin, low, high;
    int first, last;
  } const rows[] = {
      {10, 1, 0, 0, 10, 0, 10},
      {10, 1, -2, 0, 4, 2, 6},
      {10, 1, -2.5, 0, 4, 2, 7},         // centres on both edges belong to it
      {128, 15, -420, 0, 1080, 28, 100}, // 1080p in a square: bars of 28 rows
      {10, 1, 20, 0, 10, 0, 0},          // all beyond
      {10, 1, -20, 0, 10, 0, 0},         // all before
      {10, 100, -130, 0, 10, 0, 0},      // between two centres
      {3, 1e9, 0, 0, 4, 0, 0},           // beyond what an int holds
      {1, 1, 0, 0, 1, 0, 1},
  };
  for (const auto &row : rows) {
    const Span span = pixelsWithin(row.pixels, row.step, row.origin, row.low, row.high);
    EXPECT_EQ(span.first, row.first) << row.step << " " << row.origin;
    EXPECT_EQ(span.last, row.last) << row.step << " " << row.origin;
  }
}

} // namespace
