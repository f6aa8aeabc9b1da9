// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/mode.h"

#include <gtest/gtest.h>

using namespace gstzc;

namespace {

TEST(Mode, Notation) {
  struct {
    const char *text;
    ModeRequest expected;
  } const good[] = {
      {"1920x1080", {1920, 1080, 0}},
      {"64x48@60", {64, 48, 60}},
      {"3840x2160@59.94", {3840, 2160, 59.94}},
      {"1x1@1", {1, 1, 1}},
  };
  for (const auto &c : good) {
    auto mode = parseMode(c.text);
    ASSERT_TRUE(mode) << c.text;
    EXPECT_EQ(*mode, c.expected) << c.text;
  }
  for (const char *text :
       {"",     "1920",       "x1080",    "1920x",     "1920x1080@",       "1920x1080@0", "0x1080",      "1920x0",
        "-1x5", "1920x1080i", " 640x480", "640x480 ",  "640X480",          "99999x1",     "16385x1",     "+1x1",
        "1x+1", "1x1@-60",    "1x1@1001", "1x1@60@60", "99999999999999x1", "1x1@inf",     "640x480@0.5", "640x480@1e3"})
    EXPECT_FALSE(parseMode(text)) << text;
}

TEST(Mode, GeneratedTimingsAreWhatTheKernelAsksFor) {
  for (const int width : {1, 10, 64, 640, 1921, 8192})
    for (const int height : {1, 10, 48, 480, 1079, 4320})
      for (const double refresh : {1.0, 24.0, 59.94, 60.0, 144.0}) {
        const drmModeModeInfo m = generateMode(width, height, refresh);
        EXPECT_EQ(m.hdisplay, width);
        EXPECT_EQ(m.vdisplay, height);
        EXPECT_LE(m.hdisplay, m.hsync_start);
        EXPECT_LT(m.hsync_start, m.hsync_end);
        EXPECT_LE(m.hsync_end, m.htotal);
        EXPECT_LE(m.vdisplay, m.vsync_start);
        EXPECT_LT(m.vsync_start, m.vsync_end);
        EXPECT_LE(m.vsync_end, m.vtotal);
        EXPECT_GT(m.clock, 0u);
        if (m.clock > 100) {
          EXPECT_NEAR(refreshOf(m), refresh, refresh * 0.01) << width << "x" << height;
        }
      }
}

// VESA CVT 1.1 with reduced blanking, as published for 1920x1080 at 60 Hz: 138.50 MHz, 2080 x 1111
TEST(Mode, FullHdIsTheStandardsTiming) {
  const drmModeModeInfo m = generateMode(1920, 1080, 60);
  EXPECT_EQ(m.htotal, 2080);
  EXPECT_EQ(m.hsync_start, 1968);
  EXPECT_EQ(m.hsync_end, 2000);
  EXPECT_EQ(m.vtotal, 1111);
  EXPECT_EQ(m.vsync_start, 1083);
  EXPECT_EQ(m.vsync_end, 1088);
  EXPECT_NEAR(m.clock, 138500, 250);
}

TEST(Mode, RefreshOfInterlacedAndDoubled) {
  drmModeModeInfo m = {};
  m.clock = 74250;
  m.htotal = 2200;
  m.vtotal = 1125;
  EXPECT_NEAR(refreshOf(m), 30, 0.001);
  m.flags = DRM_MODE_FLAG_INTERLACE;
  EXPECT_NEAR(refreshOf(m), 60, 0.001);
  m.flags = DRM_MODE_FLAG_DBLSCAN;
  EXPECT_NEAR(refreshOf(m), 15, 0.001);
  m.htotal = 0; // a driver's nonsense
  m.vrefresh = 50;
  EXPECT_EQ(refreshOf(m), 50);
}

} // namespace
