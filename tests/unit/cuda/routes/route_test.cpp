// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/route.h"

#include <cerrno>
#include <limits>

#include <gtest/gtest.h>

#include "ext/cuda/routes/staged_layout.h"
#include "tests/unit/cuda/routes/pictures.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

TEST(ImportSourceTest, FramesThatLieInTheirBufferPass) {
  for (const ImportSource &source : {nv12(1920, 1080, 1920), nv12(1921, 1079, 1984), nv12(1920, 1080, 1984, 1088),
                                     i420(641, 359, 648), rgba(1, 1, 4), rgba(1, 1, 0)}) {
    const Status status = checkSource(source);
    EXPECT_TRUE(status) << (status ? "" : status.error().message());
  }
  ImportSource exact = rgba(1024, 1024, 4096);
  EXPECT_EQ(exact.size, 4u << 20) << "without a byte to spare";
  EXPECT_TRUE(checkSource(exact));
}

struct BadSource {
  const char *name;
  void (*spoil)(ImportSource &);
};

TEST(ImportSourceTest, OthersAreErrorsThatNameThePlane) {
  const BadSource bad[] = {
      {"with 0 planes", [](ImportSource &s) { s.n_planes = 0; }},
      {"with 5 planes", [](ImportSource &s) { s.n_planes = 5; }},
      {"with 2 planes", [](ImportSource &s) { s.size = 0; }},
      {"plane 1", [](ImportSource &s) { s.planes[1].offset = s.size; }},
      {"plane 1", [](ImportSource &s) { s.planes[1].offset = std::numeric_limits<uint64_t>::max(); }},
      {"plane 1", [](ImportSource &s) { s.planes[1].rows += 3; }},
      {"plane 0", [](ImportSource &s) { s.size = 1920 * 1080 - 1; }},
      {"plane 0", [](ImportSource &s) { s.planes[0].rows = s.planes[0].pitch = 0xffffffff; }},
      {"plane 0", [](ImportSource &s) { s.planes[0].pitch = 1919; }},
      {"plane 1", [](ImportSource &s) { s.planes[1].rows = 0; }},
      {"plane 1", [](ImportSource &s) { s.planes[1].row_bytes = 0; }},
  };
  for (const BadSource &b : bad) {
    ImportSource source = nv12(1920, 1080, 1920);
    b.spoil(source);
    const Status status = checkSource(source);
    ASSERT_FALSE(status) << b.name;
    EXPECT_EQ(status.error().code, EINVAL);
    EXPECT_NE(status.error().what.find(b.name), std::string::npos) << status.error().what;
  }
}

TEST(ImportSourceTest, OfTiledFramesOnlyOffsetsAreLookedAt) {
  ImportSource source = nv12(1920, 1080, 1920);
  source.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED;
  source.planes[1].rows = 0;
  EXPECT_TRUE(checkSource(source));
  source.planes[1].offset = source.size;
  EXPECT_FALSE(checkSource(source));
}

TEST(ImportSourceTest, IsDescribedForPeople) {
  ImportSource source = nv12(1920, 1080, 1920);
  source.id = {12, 345};
  EXPECT_EQ(describe(source), "NV12 linear 1920x1080 in dma-buf 12:345 of 3112960 bytes");
}

TEST(ImportSourceTest, OnlyLinearBytesAreBroughtAsTheyAre) {
  ImportSource source = nv12(1920, 1080, 1920);
  EXPECT_TRUE(linearOnly(source));
  source.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED;
  const Status status = linearOnly(source);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EOPNOTSUPP);
}

TEST(StagedLayoutTest, PlanesHaveOnePitchAndDoNotOverlap) {
  for (const ImportSource &source :
       {nv12(1920, 1080, 1920), nv12(1921, 1079, 1984), i420(641, 359, 648), rgba(333, 7, 4096)})
    for (const int alignment : {0, 32, 256, 512}) {
      const StagedLayout layout = stagedLayout(source, alignment, 512);
      uint64_t end = 0;
      for (unsigned p = 0; p < source.n_planes; ++p) {
        const ImportPlane &plane = layout.planes[p];
        EXPECT_EQ(plane.rows, source.planes[p].rows);
        EXPECT_EQ(plane.row_bytes, source.planes[p].row_bytes);
        EXPECT_EQ(plane.pitch, layout.planes[0].pitch);
        EXPECT_GE(plane.pitch, plane.row_bytes);
        EXPECT_EQ(plane.pitch % static_cast<uint32_t>(std::max(alignment, 256)), 0u);
        EXPECT_EQ(plane.offset % 512, 0u);
        EXPECT_GE(plane.offset, end);
        end = plane.offset + uint64_t{plane.pitch} * plane.rows;
      }
      EXPECT_EQ(layout.size, end);
    }
}

} // namespace
