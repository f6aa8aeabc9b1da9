// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/drm_format.h"

#include <drm_fourcc.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

constexpr DrmFormat kNv12{DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR};
constexpr DrmFormat kNv12Tiled{DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED};
constexpr DrmFormat kXr24{DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR};
constexpr DrmFormat kSand{DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128};
constexpr DrmFormat kSand1088{DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(1088)};

struct Good {
  const char *text;
  DrmFormat format;
};
class ParsesFormat : public testing::TestWithParam<Good> {};

TEST_P(ParsesFormat, AndPrintsItAgainAsGStreamerDoes) {
  const auto &[text, expected] = GetParam();
  const auto parsed = parseDrmFormat(text);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(*parsed, expected);
  EXPECT_EQ(*parseDrmFormat(toString(*parsed)), expected);
  guint64 modifier = 0;
  EXPECT_EQ(gst_video_dma_drm_fourcc_from_string(text, &modifier), expected.fourcc);
  EXPECT_EQ(modifier, expected.modifier);
  gchar *theirs = gst_video_dma_drm_fourcc_to_string(expected.fourcc, expected.modifier);
  EXPECT_EQ(toString(expected), theirs);
  g_free(theirs);
}
INSTANTIATE_TEST_SUITE_P(All, ParsesFormat,
                         testing::Values(Good{"NV12", kNv12}, Good{"NV12:0x0100000000000002", kNv12Tiled},
                                         Good{"NV12:0x100000000000002", kNv12Tiled}, Good{"XR24", kXr24},
                                         Good{"R8  ", {DRM_FORMAT_R8, 0}},
                                         Good{"C1  ", {fourcc_code('C', '1', ' ', ' '), 0}},
                                         Good{"AR24:0x0300000000606015", {DRM_FORMAT_ARGB8888, 0x0300000000606015}},
                                         Good{"P030:0x07000000000c3c04",
                                              {DRM_FORMAT_P030, DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(0xc3c)}},
                                         Good{"YU08:0x0a00000000000101", {DRM_FORMAT_YUV420_8BIT, 0x0a00000000000101}},
                                         Good{"RG16_BE", {DRM_FORMAT_RGB565 | DRM_FORMAT_BIG_ENDIAN, 0}}));

struct Bad {
  const char *text;
  const char *why; // part of the message
};
class RefusesFormat : public testing::TestWithParam<Bad> {};

TEST_P(RefusesFormat, AndSaysWhatIsWrong) {
  const auto &[text, why] = GetParam();
  const auto parsed = parseDrmFormat(text);
  ASSERT_FALSE(parsed) << toString(*parsed);
  EXPECT_NE(parsed.error().message().find(why), std::string::npos) << parsed.error().message();
  EXPECT_NE(parsed.error().message().find(text), std::string::npos) << parsed.error().message();
  EXPECT_FALSE(parsed.error().remedy.empty());
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusesFormat,
    testing::Values(Bad{"", "4 characters"}, Bad{"R8", "4 characters"}, Bad{"NV123", "4 characters"},
                    Bad{":0x1", "4 characters"}, Bad{"_BE", "4 characters"}, Bad{"R8_BE", "4 characters"},
                    Bad{"nv12", "capitals"}, Bad{"NV1\n", "capitals"}, Bad{"    ", "capitals"}, Bad{"N V1", "capitals"},
                    Bad{" NV1", "capitals"}, Bad{"NV12:0x0", "without a modifier"},
                    Bad{"NV12:0x0000000000000000", "without a modifier"}, Bad{"NV12:0x00ffffffffffffff", "INVALID"},
                    Bad{"NV12:72057594037927938", "hexadecimal"}, Bad{"NV12:", "hexadecimal"},
                    Bad{"NV12:0x", "hexadecimal"}, Bad{"NV12:0x1g", "hexadecimal"}, Bad{"NV12:0x-1", "hexadecimal"},
                    Bad{"NV12:-0x1", "hexadecimal"}, Bad{"NV12:0x10000000000000000", "hexadecimal"},
                    Bad{"NV12:0x1 ", "hexadecimal"}, Bad{"NV12:0x1:0x2", "hexadecimal"}));

TEST(DrmFormat, NamesForPeople) {
  EXPECT_EQ(describe(kNv12), "NV12 linear");
  EXPECT_EQ(describe(kNv12Tiled), "NV12 INTEL_Y_TILED");
  EXPECT_EQ(describe({DRM_FORMAT_NV12, DRM_FORMAT_MOD_INVALID}), "NV12 implicit layout");
  EXPECT_EQ(describe(kSand), "NV12 BROADCOM_SAND128");
  EXPECT_EQ(describe(kSand1088), "NV12 BROADCOM_SAND128 of height 1088") << "libdrm has no name for these";
  EXPECT_EQ(modifierName(fourcc_mod_code(INTEL, 0x7777)), "INTEL 0x0100000000007777");
  EXPECT_EQ(modifierName(0x7f00000000000001), "0x7f00000000000001") << "nobody's";
  EXPECT_NE(modifierName(DRM_FORMAT_MOD_ARM_AFBC(AFBC_FORMAT_MOD_BLOCK_SIZE_16x16)).find("ARM_"), std::string::npos);
  EXPECT_EQ(toString({0, 0}), "????") << "a format without a fourcc is printable";
}

TEST(DrmFormat, ComparesWithoutBroadcomsColumnHeight) {
  EXPECT_NE(kSand, kSand1088);
  EXPECT_TRUE(sameLayout(kSand, kSand1088));
  EXPECT_EQ(comparableModifier(kSand1088.modifier), DRM_FORMAT_MOD_BROADCOM_SAND128);
  EXPECT_FALSE(sameLayout(kSand, {DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND64}));
  EXPECT_FALSE(sameLayout(kSand, {DRM_FORMAT_P030, DRM_FORMAT_MOD_BROADCOM_SAND128}));
  // all others to the bit
  for (const uint64_t modifier : {uint64_t{I915_FORMAT_MOD_Y_TILED}, uint64_t{0x0300000000606015},
                                  uint64_t{0x0800000000000041}, uint64_t{DRM_FORMAT_MOD_INVALID}, uint64_t{0}}) {
    EXPECT_EQ(comparableModifier(modifier), modifier);
    EXPECT_FALSE(sameLayout({DRM_FORMAT_NV12, modifier}, {DRM_FORMAT_NV12, modifier ^ 0x100})) << modifier;
  }
  EXPECT_FALSE(sameLayout(kNv12, {DRM_FORMAT_NV12, DRM_FORMAT_MOD_INVALID}));
}

TEST(DrmFormatSet, EachLayoutOnceInOrder) {
  DrmFormatSet set{kNv12Tiled, kNv12, kNv12Tiled, kXr24};
  EXPECT_EQ(set.formats(), (std::vector<DrmFormat>{kNv12Tiled, kNv12, kXr24}));
  EXPECT_FALSE(set.add(kNv12));
  EXPECT_TRUE(set.add(kSand));
  EXPECT_FALSE(set.add(kSand1088));
  EXPECT_TRUE(set.contains(kSand1088));
  EXPECT_EQ(set.size(), 4u);
  EXPECT_EQ(set.modifiersOf(DRM_FORMAT_NV12),
            (std::vector<uint64_t>{I915_FORMAT_MOD_Y_TILED, 0, DRM_FORMAT_MOD_BROADCOM_SAND128}));
  EXPECT_TRUE(set.modifiersOf(DRM_FORMAT_P010).empty());
  EXPECT_EQ((DrmFormatSet{kNv12, kNv12Tiled}).toString(), "NV12, NV12:0x0100000000000002");
  EXPECT_TRUE(DrmFormatSet().empty());
  EXPECT_EQ(DrmFormatSet().toString(), "");
}

struct Algebra {
  DrmFormatSet a, b;
  std::vector<DrmFormat> both, either;
};

TEST(DrmFormatSet, IntersectAndUnite) {
  const Algebra cases[] = {
      {{}, {}, {}, {}},
      {{kNv12}, {}, {}, {kNv12}},
      {{}, {kNv12}, {}, {kNv12}},
      {{kNv12, kXr24}, {kXr24, kNv12}, {kNv12, kXr24}, {kNv12, kXr24}},
      {{kNv12, kNv12Tiled}, {kXr24, kNv12Tiled}, {kNv12Tiled}, {kNv12, kNv12Tiled, kXr24}},
      {{kNv12}, {kNv12Tiled}, {}, {kNv12, kNv12Tiled}},
      // the height of the buffer's columns, whoever says it
      {{kSand}, {kSand1088}, {kSand1088}, {kSand}},
      {{kSand1088}, {kSand}, {kSand1088}, {kSand1088}},
  };
  for (const Algebra &c : cases) {
    EXPECT_EQ(c.a.intersect(c.b).formats(), c.both) << c.a.toString() << " and " << c.b.toString();
    EXPECT_EQ(c.a.unite(c.b).formats(), c.either) << c.a.toString() << " or " << c.b.toString();
  }
}

} // namespace
