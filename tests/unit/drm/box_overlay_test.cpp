// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/box_overlay.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

using namespace gstzc;

namespace {

TEST(Boxes, FromFrameToTarget) {
  const Placement plain{{0, 0, 640, 480}, {192, 144, 640, 480}, false};
  EXPECT_EQ(boxOnTarget({10, 20, 30, 40}, plain), (Rect{10, 20, 30, 40})) << "relative to the target";
  const Placement half{{0, 0, 640, 480}, {0, 0, 320, 240}, true};
  EXPECT_EQ(boxOnTarget({10, 20, 30, 40}, half), (Rect{5, 10, 15, 20}));
  const Placement cropped{{100, 50, 200, 100}, {0, 0, 200, 100}, false};
  EXPECT_EQ(boxOnTarget({90, 60, 30, 20}, cropped), (Rect{0, 10, 20, 20}));
  EXPECT_EQ(boxOnTarget({0, 0, 50, 50}, cropped), (Rect{})) << "outside of what is shown";
  EXPECT_EQ(boxOnTarget({-5, -5, 10, 10}, plain), (Rect{0, 0, 5, 5}));
  EXPECT_EQ(boxOnTarget({630, 470, 1000000, 1000000}, plain), (Rect{630, 470, 10, 10}));
}

TEST(Boxes, AnyNumbers) {
  constexpr int kMax = INT_MAX, kMin = INT_MIN;
  const Placement plain{{0, 0, 640, 480}, {0, 0, 640, 480}, false};
  EXPECT_EQ(boxOnTarget({600, 10, kMax, 10}, plain), (Rect{600, 10, 40, 10}));
  EXPECT_EQ(boxOnTarget({10, 400, 10, kMax}, plain), (Rect{10, 400, 10, 80}));
  EXPECT_EQ(boxOnTarget({kMax - 5, 10, 10, 10}, plain), (Rect{}));
  EXPECT_EQ(boxOnTarget({kMin, kMin, kMax, kMax}, plain), (Rect{}));
  const Placement cropped{{100, 50, 200, 100}, {0, 0, 1600, 800}, true};
  EXPECT_EQ(boxOnTarget({kMin, 60, 20, 20}, cropped), (Rect{}));
  EXPECT_EQ(boxOnTarget({300000000, 60, 20, 20}, cropped), (Rect{})) << "times eight is more than 31 bits";
  EXPECT_EQ(boxOnTarget({100, 50, 300000000, 20}, cropped), (Rect{0, 0, 1600, 160}));
}

TEST(Boxes, Outlines) {
  constexpr int kWidth = 16, kHeight = 12, kPitch = 80; // wider than the rows
  std::vector<unsigned char> data(kPitch * kHeight, 0x11);
  drawOutlines(data.data(), kPitch, kWidth, kHeight, {{2, 3, 8, 6}}, 0xff00ff00, 2);
  int drawn = 0;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kPitch / 4; ++x) {
      uint32_t pixel;
      std::memcpy(&pixel, data.data() + y * kPitch + x * 4, 4);
      const bool inside = x >= 2 && x < 10 && y >= 3 && y < 9;
      const bool hole = x >= 4 && x < 8 && y >= 5 && y < 7;
      EXPECT_EQ(pixel, inside && !hole ? 0xff00ff00u : 0x11111111u) << x << "," << y;
      drawn += pixel == 0xff00ff00u;
    }
  EXPECT_EQ(drawn, 8 * 6 - 4 * 2);
}

TEST(Boxes, TinyOnesAndOnesAtTheEdgeStayInside) {
  constexpr int kWidth = 8, kHeight = 8;
  std::vector<unsigned char> data(kWidth * 4 * kHeight + 16, 0x11);
  drawOutlines(data.data(), kWidth * 4, kWidth, kHeight, {{7, 7, 1, 1}, {0, 0, 1, 8}, {4, 0, 8, 20}}, ~0u, 3);
  EXPECT_TRUE(std::all_of(data.end() - 16, data.end(), [](unsigned char c) { return c == 0x11; }));
  EXPECT_EQ(data[(7 * kWidth + 7) * 4], 0xff);
}

} // namespace
