// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cmath>

#include <gtest/gtest.h>

#include "gst/infer/preprocess/pixel_plan.h"

using namespace gstzc::infer;

namespace {

#define GSTZC_PIXEL inline
#include "gst/infer/preprocess/taps.inl.h"
#undef GSTZC_PIXEL

TEST(Taps, BilinearStaysBetweenTwoNeighbours) {
  struct {
    double centre;
    int samples;
    int first, count;
    float second;
  } const rows[] = {
      {2.5, 10, 2, 2, 0},  {2.75, 10, 2, 2, 0.25}, {3.0, 10, 2, 2, 0.5},  {0.5, 10, 0, 2, 0},
      {0.1, 10, 0, 2, 0},  {-1e12, 10, 0, 2, 0},   {9.5, 10, 8, 2, 1},    {9.9, 10, 8, 2, 1},
      {1e12, 10, 8, 2, 1}, {0.7, 1, 0, 1, 0},      {1.25, 2, 0, 2, 0.75},
  };
  for (const auto &row : rows) {
    const Taps taps = bilinearTaps(positionOf(row.centre), row.samples);
    EXPECT_EQ(taps.first, row.first) << row.centre;
    EXPECT_EQ(taps.count, row.count) << row.centre;
    EXPECT_FLOAT_EQ(taps.weight_last, row.second) << row.centre;
    EXPECT_FLOAT_EQ(taps.weight_first, 1 - row.second) << row.centre;
  }
}

TEST(Taps, AreaCoversEachSampleByItsPart) {
  struct {
    double centre, width;
    int samples;
    int first, count;
    float weight_first, weight_between, weight_last;
  } const rows[] = {
      {2, 4, 10, 0, 4, 0.25, 0.25, 0.25},     // whole samples
      {2.5, 2, 10, 1, 3, 0.25, 0.5, 0.25},    // half of both outer ones
      {1, 1.5, 10, 0, 2, 0.5, 2 / 3.0f, 0.5}, // 0.25 to 1.75
      {0.5, 1, 10, 0, 1, 1, 0, 0},            // one sample
      {0, 4, 10, 0, 2, 0.75, 0.25, 0.25},     // what is outside counts as the edge
      {10, 4, 10, 8, 2, 0.25, 0.25, 0.75},    // at the other end too
      {-50, 4, 10, 0, 1, 1, 0, 0},            // all of it outside
      {1e12, 4, 10, 9, 1, 1, 0, 0},
      {5, 1000, 10, 0, 10, 0.496f, 0.001f, 0.496f}, // more than there is
      {0.5, 3, 1, 0, 1, 1, 0, 0},
  };
  for (const auto &row : rows) {
    const auto inverse = static_cast<float>(1 / static_cast<double>(positionOf(row.width)));
    const Taps taps = areaTaps(positionOf(row.centre), positionOf(row.width), inverse, row.samples);
    EXPECT_EQ(taps.first, row.first) << row.centre;
    EXPECT_EQ(taps.count, row.count) << row.centre;
    EXPECT_FLOAT_EQ(taps.weight_first, row.weight_first) << row.centre;
    EXPECT_TRUE(taps.count < 3 || std::abs(taps.weight_between - row.weight_between) < 1e-7f) << row.centre;
    if (taps.count > 1) {
      EXPECT_FLOAT_EQ(taps.weight_last, row.weight_last) << row.centre;
      EXPECT_NEAR(taps.weight_first + taps.weight_between * static_cast<float>(taps.count - 2) + taps.weight_last, 1,
                  1e-6)
          << row.centre;
    }
  }
}

// Pixels of an axis lie where the multiplication in double precision has them.
TEST(Taps, OfAnAxis) {
  const double origin = -3.7, step = 1.618;
  const PixelAxis axis{positionOf(4.5 * step + origin), positionOf(step), 4, 20000, 0};
  for (int i = 4; i < 12000; i += 7) {
    const double centre = (i + 0.5) * step + origin;
    const Taps taps = tapsAt(axis, i);
    ASSERT_EQ(taps.first, static_cast<int>(centre - 0.5)) << i;
    ASSERT_NEAR(taps.weight_last, centre - 0.5 - std::floor(centre - 0.5), 1e-7) << i;
  }
}

} // namespace
