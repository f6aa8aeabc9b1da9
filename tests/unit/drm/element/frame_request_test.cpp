// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/frame_request.h"

#include <optional>
#include <ostream>
#include <string>

#include <gst/video/video.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

struct Size {
  guint width, height;
};
struct PictureCase {
  const char *name;
  Size caps;
  std::optional<Size> meta;  // of GstVideoMeta
  std::optional<Rect> crop;  // metadata
  Size picture;              // expected
  std::optional<Rect> shown; // nothing: all
  int x = 0, y = 0;          // where other metadata counts from
  bool cut = false;
};
void PrintTo(const PictureCase &c, std::ostream *out) { *out << c.name; }

class PictureOf : public testing::TestWithParam<PictureCase> {};

TEST_P(PictureOf, IsWhatMetadataSay) {
  const PictureCase &c = GetParam();
  GstCaps *caps = gst_caps_from_string(("video/x-raw,format=NV12,width=" + std::to_string(c.caps.width) +
                                        ",height=" + std::to_string(c.caps.height) + ",colorimetry=bt709")
                                           .c_str());
  const auto parsed = parseFrameCaps(caps);
  gst_caps_unref(caps);
  ASSERT_TRUE(parsed);
  GstBuffer *buffer = gst_buffer_new();
  if (c.meta)
    gst_buffer_add_video_meta(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, c.meta->width, c.meta->height);
  if (c.crop) {
    GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);
    crop->x = static_cast<guint>(c.crop->x);
    crop->y = static_cast<guint>(c.crop->y);
    crop->width = static_cast<guint>(c.crop->width);
    crop->height = static_cast<guint>(c.crop->height);
  }
  const Picture picture = pictureOf(buffer, *parsed);
  EXPECT_EQ(picture.caps.width(), static_cast<int>(c.picture.width));
  EXPECT_EQ(picture.caps.height(), static_cast<int>(c.picture.height));
  EXPECT_EQ(picture.crop, c.shown);
  EXPECT_EQ(picture.cut, c.cut);
  EXPECT_EQ(picture.x, c.x);
  EXPECT_EQ(picture.y, c.y);
  EXPECT_EQ(picture.caps.info.colorimetry.matrix, GST_VIDEO_COLOR_MATRIX_BT709);
  GstVideoInfo plain;
  gst_video_info_set_format(&plain, GST_VIDEO_FORMAT_NV12, c.picture.width, c.picture.height);
  EXPECT_EQ(GST_VIDEO_INFO_SIZE(&picture.caps.info), GST_VIDEO_INFO_SIZE(&plain));
  gst_buffer_unref(buffer);
}

constexpr Size kVga{640, 480};
INSTANTIATE_TEST_SUITE_P(
    Crops, PictureOf,
    testing::Values(
        PictureCase{"none", kVga, {}, {}, kVga, {}},
        PictureCase{"a larger buffer without crop", kVga, Size{656, 496}, {}, kVga, {}},
        PictureCase{"caps of the whole", kVga, {}, Rect{100, 50, 320, 240}, kVga, Rect{100, 50, 320, 240}},
        PictureCase{"caps of the whole, said twice", kVga, kVga, Rect{100, 50, 320, 240}, kVga,
                    Rect{100, 50, 320, 240}},
        PictureCase{"videocrop", {320, 240}, kVga, Rect{100, 50, 320, 240}, kVga, Rect{100, 50, 320, 240}, 100, 50},
        PictureCase{"videocrop at the corner", {320, 240}, kVga, Rect{0, 0, 320, 240}, kVga, Rect{0, 0, 320, 240}},
        PictureCase{"a padded decoder",
                    {1920, 1080},
                    Size{1920, 1088},
                    Rect{0, 0, 1920, 1080},
                    {1920, 1088},
                    Rect{0, 0, 1920, 1080}},
        PictureCase{"all of it", kVga, kVga, Rect{0, 0, 640, 480}, kVga, {}},
        PictureCase{"reaches outside", kVga, kVga, Rect{600, 400, 320, 240}, kVga, Rect{600, 400, 40, 80}, 0, 0, true},
        PictureCase{"is outside", kVga, kVga, Rect{640, 0, 320, 240}, kVga, {}, 0, 0, true},
        PictureCase{"is empty", kVga, kVga, Rect{10, 10, 0, 5}, kVga, {}, 0, 0, true},
        PictureCase{"is absurd", kVga, kVga, Rect{-1, -1, -1, -1}, kVga, {}, 0, 0, true},
        PictureCase{"of an absurd picture", kVga, Size{0, 70000}, Rect{100, 50, 320, 240}, kVga,
                    Rect{100, 50, 320, 240}}));

} // namespace
