// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/modifiers.h"

#include <drm_fourcc.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

constexpr uint64_t intel(uint64_t value) { return uint64_t{1} << 56 | value; }
constexpr uint64_t kAmdDcc = 1ull << 13, kAmdRetile = 1ull << 14;
constexpr uint64_t amd(uint64_t version, uint64_t bits) { return uint64_t{2} << 56 | bits | version; }
constexpr uint64_t afbc(uint64_t bits) { return uint64_t{8} << 56 | bits; }

struct PlanesCase {
  const char *what;
  uint32_t fourcc;
  uint64_t modifier;
  unsigned planes;
};

class MemoryPlanes : public testing::TestWithParam<PlanesCase> {};
TEST_P(MemoryPlanes, AreCounted) {
  EXPECT_EQ(memoryPlanes({GetParam().fourcc, GetParam().modifier}), GetParam().planes);
}
// as the comments of drm_fourcc.h have them
INSTANTIATE_TEST_SUITE_P(
    Layouts, MemoryPlanes,
    testing::Values(
        PlanesCase{"linear_rgb", DRM_FORMAT_XRGB8888, 0, 1}, PlanesCase{"linear_nv12", DRM_FORMAT_NV12, 0, 2},
        PlanesCase{"linear_yu12", DRM_FORMAT_YUV420, 0, 3}, PlanesCase{"unknown_fourcc", 0x34333231, 0, 1},
        PlanesCase{"intel_y", DRM_FORMAT_NV12, intel(2), 2},
        PlanesCase{"intel_y_ccs", DRM_FORMAT_XRGB8888, intel(4), 2},
        PlanesCase{"intel_yf_ccs", DRM_FORMAT_XRGB8888, intel(5), 2},
        PlanesCase{"gen12_rc", DRM_FORMAT_XRGB8888, intel(6), 2},
        PlanesCase{"gen12_mc_nv12", DRM_FORMAT_NV12, intel(7), 4},
        PlanesCase{"gen12_mc_p010", DRM_FORMAT_P010, intel(7), 4},
        PlanesCase{"gen12_mc_yuyv", DRM_FORMAT_YUYV, intel(7), 2},
        PlanesCase{"gen12_rc_cc", DRM_FORMAT_XRGB8888, intel(8), 3}, PlanesCase{"tile4", DRM_FORMAT_NV12, intel(9), 2},
        PlanesCase{"dg2_rc", DRM_FORMAT_XRGB8888, intel(10), 1}, PlanesCase{"dg2_mc", DRM_FORMAT_NV12, intel(11), 2},
        PlanesCase{"dg2_rc_cc", DRM_FORMAT_XRGB8888, intel(12), 2},
        PlanesCase{"mtl_rc", DRM_FORMAT_XRGB8888, intel(13), 2}, PlanesCase{"mtl_mc", DRM_FORMAT_NV12, intel(14), 4},
        PlanesCase{"mtl_rc_cc", DRM_FORMAT_XRGB8888, intel(15), 3}, PlanesCase{"lnl", DRM_FORMAT_NV12, intel(16), 2},
        PlanesCase{"bmg", DRM_FORMAT_NV12, intel(17), 2},
        PlanesCase{"gfx9_dcc", DRM_FORMAT_XRGB8888, amd(1, 0x1900 | kAmdDcc), 2},
        PlanesCase{"gfx9_retile", DRM_FORMAT_XRGB8888, amd(1, 0x1900 | kAmdDcc | kAmdRetile), 3},
        PlanesCase{"gfx11_dcc", DRM_FORMAT_XRGB8888, amd(4, 0x1f00 | kAmdDcc), 2},
        PlanesCase{"gfx12_dcc", DRM_FORMAT_XRGB8888, amd(5, 0x300 | kAmdDcc), 1},
        PlanesCase{"gfx9_tiled", DRM_FORMAT_NV12, amd(1, 0x1900), 2},
        PlanesCase{"afbc", DRM_FORMAT_YUV420_8BIT, afbc(1), 1},
        PlanesCase{"sand", DRM_FORMAT_NV12, 0x0700000000000004, 2},
        PlanesCase{"vivante_ts", DRM_FORMAT_XRGB8888, 0x0601000000000002, 2},
        PlanesCase{"nvidia", DRM_FORMAT_NV12, 0x0300000000606014, 2}),
    [](const auto &i) { return std::string(i.param.what); });

TEST(LayoutTier, OfVendors) {
  const std::pair<uint64_t, LayoutTier> cases[] = {
      {DRM_FORMAT_MOD_LINEAR, LayoutTier::Linear},
      {DRM_FORMAT_MOD_INVALID, LayoutTier::Implicit},
      {intel(1), LayoutTier::Tiled},
      {intel(3), LayoutTier::Tiled},
      {intel(4), LayoutTier::Compressed},
      {intel(7), LayoutTier::Compressed},
      {intel(9), LayoutTier::Tiled},
      {intel(17), LayoutTier::Compressed},
      {amd(1, 0x1900), LayoutTier::Tiled},
      {amd(1, 0x1900 | kAmdDcc), LayoutTier::Compressed},
      {amd(0, kAmdDcc), LayoutTier::Tiled}, // GFX6 to 8 have other fields there
      {0x0300000000606014, LayoutTier::Tiled},
      {0x0300000000e06014, LayoutTier::Compressed},
      {0x0300000000000001, LayoutTier::Tiled}, // Tegra
      {afbc(1), LayoutTier::Compressed},
      {0x0810000000000001, LayoutTier::Tiled},      // 16x16 U-interleaved
      {0x0820000000000001, LayoutTier::Compressed}, // AFRC
      {0x0500000000000001, LayoutTier::Compressed},
      {0x0500000000000003, LayoutTier::Tiled},
      {0x0600000000000002, LayoutTier::Tiled},
      {0x0611000000000002, LayoutTier::Compressed}, // DEC400
      {0x0700000000000004, LayoutTier::Tiled},
      {0x07000000005a0004, LayoutTier::Tiled},
      {0x0a00000000000101, LayoutTier::Compressed},
      {0x0b00000000000001, LayoutTier::Tiled},
      {0x0b00000000000101, LayoutTier::Compressed},
      {0x0c00000000000002, LayoutTier::Compressed},
      {0x4200000000000001, LayoutTier::Tiled}, // nobody's yet
  };
  for (const auto &[modifier, tier] : cases)
    EXPECT_STREQ(tierName(layoutTier(modifier)), tierName(tier)) << std::hex << modifier;
}

TEST(ImpossiblePair, AfbcHasOnePlane) {
  EXPECT_EQ(impossiblePair({DRM_FORMAT_YUV420_8BIT, afbc(1)}), nullptr);
  EXPECT_EQ(impossiblePair({DRM_FORMAT_XRGB8888, afbc(0x51)}), nullptr);
  EXPECT_NE(impossiblePair({DRM_FORMAT_NV12, afbc(1)}), nullptr);
  EXPECT_EQ(impossiblePair({DRM_FORMAT_NV12, afbc(4)}), nullptr); // 32x8_64x4
  EXPECT_NE(impossiblePair({DRM_FORMAT_XRGB8888, afbc(4)}), nullptr);
  EXPECT_NE(impossiblePair({DRM_FORMAT_YUV420_8BIT, afbc(0x11)}), nullptr); // YTR is for RGB
  EXPECT_EQ(impossiblePair({DRM_FORMAT_NV12, 0x0810000000000001}), nullptr);
  EXPECT_EQ(impossiblePair({DRM_FORMAT_NV12, intel(7)}), nullptr);
}

TEST(LayoutName, AlsoWhereLibdrmHasNone) {
  EXPECT_EQ(layoutName(DRM_FORMAT_MOD_LINEAR), "linear");
  EXPECT_EQ(layoutName(intel(17)), "INTEL_4_TILED_BMG_CCS");
  EXPECT_EQ(layoutName(0x0b00000000000001), "MTK_16L_32S_TILE");
  EXPECT_EQ(layoutName(0x0c00000000000002), "APPLE_GPU_TILED_COMPRESSED");
  EXPECT_NE(layoutName(0x0700000005a00004).find("of height 368640"), std::string::npos)
      << layoutName(0x0700000005a00004);
  EXPECT_NE(layoutName(0x4200000000000001).find("0x4200000000000001"), std::string::npos);
}

TEST(FormatTraits, Subsampling) {
  EXPECT_EQ(formatTraits(DRM_FORMAT_NV12).vsub, 2u);
  EXPECT_EQ(formatTraits(DRM_FORMAT_NV16).vsub, 1u);
  EXPECT_EQ(formatTraits(DRM_FORMAT_YUYV).hsub, 2u);
  EXPECT_TRUE(formatTraits(DRM_FORMAT_ARGB8888).alpha);
  EXPECT_TRUE(formatTraits(DRM_FORMAT_C8).indexed_or_low);
  EXPECT_FALSE(formatTraits(DRM_FORMAT_XRGB2101010).indexed_or_low);
  EXPECT_TRUE(formatTraits(DRM_FORMAT_NV12 | DRM_FORMAT_BIG_ENDIAN).yuv);
}

} // namespace
