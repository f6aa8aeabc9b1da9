// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include "gst/drm/dumb_frames.h"
#include "tests/unit/drm/device/profile_fixture.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

struct Case {
  GstVideoFormat format;
  int width, height;
  uint32_t dumb_width, dumb_height, bits;
};

class Dumb : public testing::TestWithParam<Case> {};

TEST_P(Dumb, AsksForEnough) {
  const Case &c = GetParam();
  GstVideoInfo info;
  ASSERT_TRUE(gst_video_info_set_format(&info, c.format, static_cast<guint>(c.width), static_cast<guint>(c.height)));
  const DumbLayout layout = dumbLayout(info);
  EXPECT_EQ(layout.width, c.dumb_width);
  EXPECT_EQ(layout.height, c.dumb_height);
  EXPECT_EQ(layout.bits, c.bits);

  // the kernel may give a larger pitch: everything has to fit all the same
  for (const uint32_t align : {1u, 64u, 256u}) {
    const uint32_t pitch = (layout.width * layout.bits / 8 + align - 1) / align * align;
    GstVideoInfo placed = info;
    ASSERT_TRUE(applyPitch(placed, pitch, uint64_t{pitch} * layout.height)) << align;
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&placed); ++p) {
      EXPECT_GE(placed.stride[p], info.stride[p] - 3) << "plane " << p; // defaults are rounded up to 4
      if (p > 0) {
        EXPECT_GE(placed.offset[p], placed.offset[p - 1] + static_cast<gsize>(placed.stride[p - 1]));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Dumb,
    testing::Values(Case{GST_VIDEO_FORMAT_BGRx, 640, 480, 640, 480, 32},
                    Case{GST_VIDEO_FORMAT_BGRx, 641, 3, 641, 3, 32}, Case{GST_VIDEO_FORMAT_RGB, 10, 4, 32, 4, 8},
                    Case{GST_VIDEO_FORMAT_RGB16, 10, 4, 20, 4, 8}, Case{GST_VIDEO_FORMAT_NV12, 640, 480, 640, 720, 8},
                    // odd height: 1079 rows of luma and 540 of chroma
                    Case{GST_VIDEO_FORMAT_NV12, 1921, 1079, 1924, 1619, 8},
                    Case{GST_VIDEO_FORMAT_I420, 640, 480, 640, 720, 8},
                    Case{GST_VIDEO_FORMAT_NV16, 640, 480, 640, 960, 8}, Case{GST_VIDEO_FORMAT_YUY2, 641, 3, 1284, 3, 8},
                    Case{GST_VIDEO_FORMAT_P010_10LE, 64, 48, 128, 72, 8},
                    Case{GST_VIDEO_FORMAT_GRAY8, 65, 3, 68, 3, 8}));

TEST(DumbPitch, TooSmallIsRefused) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 64, 48);
  EXPECT_FALSE(applyPitch(info, 64, 64 * 72 - 1));
  EXPECT_TRUE(applyPitch(info, 64, 64 * 72));
  EXPECT_EQ(info.offset[1], 64u * 48);
  EXPECT_EQ(info.size, 64u * 72);
}

TEST(DumbPitch, DefaultLayoutsAreTold) {
  const auto same = [](GstVideoFormat format, int height, uint32_t pitch) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, format, 64, static_cast<guint>(height));
    GstVideoInfo placed = info;
    EXPECT_TRUE(applyPitch(placed, pitch, uint64_t{pitch} * static_cast<uint32_t>(height) * 2));
    return sameLayout(placed, info);
  };
  EXPECT_TRUE(same(GST_VIDEO_FORMAT_BGRx, 48, 256));
  EXPECT_FALSE(same(GST_VIDEO_FORMAT_BGRx, 48, 320));
  EXPECT_TRUE(same(GST_VIDEO_FORMAT_NV12, 48, 64));
  EXPECT_FALSE(same(GST_VIDEO_FORMAT_NV12, 47, 64)) << "chroma follows the last row, by default a row later";
}

// What a device that is asked for a row of one pixel answers.
class OtherPitch : public ProfileTest, public testing::WithParamInterface<std::pair<bool, uint32_t>> {};

TEST_P(OtherPitch, IsTheAlignmentOfRows) {
  KmsSnapshot s = desk();
  s.dumb_buffers = GetParam().first;
  use(profileOf(s));
  EXPECT_EQ(pitchAlignment(*device_), GetParam().second);
  EXPECT_EQ(device_->counters().live_handles, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, OtherPitch, testing::Values(std::pair{true, 64u}, std::pair{false, 1u}));

TEST_F(ProfileTest, FramesOfThePoolLieInOneDumbBuffer) {
  GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=100,height=31");
  const auto parsed = parseFrameCaps(caps);
  gst_caps_unref(caps);
  ASSERT_TRUE(parsed);
  auto frame = dumbFrames(device_)->make(*parsed);
  ASSERT_TRUE(frame) << frame.error().message();
  ASSERT_EQ(frame->memories.size(), 1u);
  EXPECT_EQ(frame->n_planes, 2u);
  EXPECT_EQ(frame->strides[0], 128);
  EXPECT_EQ(frame->offsets[1], 128u * 31);
  EXPECT_FALSE(frame->usual);
  EXPECT_GE(frame->size(), 128u * 47);
  auto tiled = *parsed;
  tiled.modifier = 1;
  EXPECT_FALSE(dumbFrames(device_)->make(tiled));
}

} // namespace
