// SPDX-License-Identifier: LGPL-2.1-or-later
// Where frames go that are turned, cropped, or put into a rectangle.
#include <drm_mode.h>
#include <gtest/gtest.h>

#include "gst/drm/element/orientation.h"
#include "gst/drm/planning.h"

using namespace gstzc;

namespace {

FrameNeed frame(int width, int height, uint32_t rotation = 0) {
  FrameNeed need;
  need.width = width;
  need.height = height;
  need.rotation = rotation;
  return need;
}

TEST(Orientation, IsCounterClockwiseInTheKernel) {
  EXPECT_EQ(rotationOf(GST_VIDEO_ORIENTATION_90R, GST_VIDEO_ORIENTATION_IDENTITY), uint32_t{DRM_MODE_ROTATE_270});
  EXPECT_EQ(rotationOf(GST_VIDEO_ORIENTATION_AUTO, GST_VIDEO_ORIENTATION_90L), uint32_t{DRM_MODE_ROTATE_90});
  EXPECT_EQ(rotationOf(GST_VIDEO_ORIENTATION_AUTO, GST_VIDEO_ORIENTATION_AUTO), uint32_t{DRM_MODE_ROTATE_0});
}

TEST(Placements, AQuarterTurnChangesSides) {
  const auto p = placements(frame(64, 48, DRM_MODE_ROTATE_90), 48, 64);
  ASSERT_EQ(p.size(), 1u);
  EXPECT_FALSE(p[0].scaled);
  EXPECT_EQ(p[0].source, (Rect{0, 0, 64, 48}));
  EXPECT_EQ(p[0].target, (Rect{0, 0, 48, 64}));
  const auto fitted = placements(frame(64, 48, DRM_MODE_ROTATE_270), 640, 480);
  ASSERT_EQ(fitted.size(), 2u);
  EXPECT_EQ(fitted[0].target, (Rect{140, 0, 360, 480}));
  EXPECT_EQ(fitted[1].target, (Rect{296, 208, 48, 64}));
}

TEST(Placements, OfAPart) {
  FrameNeed need = frame(640, 480);
  need.crop = Rect{100, 50, 320, 240};
  const auto p = placements(need, 640, 480);
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].source, (Rect{100, 50, 320, 240}));
  EXPECT_EQ(p[0].target, (Rect{0, 0, 640, 480}));
  EXPECT_EQ(p[1].target, (Rect{160, 120, 320, 240}));
}

TEST(Placements, IntoARectangle) {
  const auto p = placements(frame(640, 480), {{100, 50, 320, 320}, true, 1280, 720});
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].target, (Rect{100, 90, 320, 240}));
  EXPECT_EQ(p[1].source, (Rect{160, 80, 320, 320}));
  EXPECT_EQ(p[1].target, (Rect{100, 50, 320, 320}));
  const auto filled = placements(frame(640, 480), {{0, 0, 1280, 720}, false, 1280, 720});
  EXPECT_EQ(filled[0].target, (Rect{0, 0, 1280, 720}));
}

struct CutCase {
  uint32_t rotation;
  Rect source; // what is left of 64x48 when the left 20 columns of the rectangle are off the display
};

class Cut : public testing::TestWithParam<CutCase> {};

TEST_P(Cut, WhatIsOffTheDisplay) {
  const bool turned = GetParam().rotation & (DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270);
  const Rect into{-20, 10, turned ? 48 : 64, turned ? 64 : 48};
  const auto p = placements(frame(64, 48, GetParam().rotation), {into, true, 640, 480});
  ASSERT_FALSE(p.empty());
  EXPECT_EQ(p.back().source, GetParam().source);
  EXPECT_EQ(p.back().target, (Rect{0, 10, into.width - 20, into.height}));
}

INSTANTIATE_TEST_SUITE_P(Rotations, Cut,
                         testing::Values(CutCase{DRM_MODE_ROTATE_0, {20, 0, 44, 48}},
                                         CutCase{DRM_MODE_ROTATE_90, {0, 20, 64, 28}},
                                         CutCase{DRM_MODE_ROTATE_180, {0, 0, 44, 48}},
                                         CutCase{DRM_MODE_ROTATE_270, {0, 0, 64, 28}},
                                         CutCase{DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_X, {0, 0, 44, 48}}));

TEST(Placements, ARectangleOffTheDisplayHasNone) {
  EXPECT_TRUE(placements(frame(64, 48), {{700, 0, 64, 48}, true, 640, 480}).empty());
}

} // namespace
