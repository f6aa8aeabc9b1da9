// SPDX-License-Identifier: LGPL-2.1-or-later
// What is done with the frame CUDA makes of an image: used in place, copied, refused.
#include <cerrno>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "ext/cuda/routes/egl_frame.h"

using namespace gstzc::cuda;

namespace {

constexpr CUdeviceptr kBase = 0x700000000;

ImportSource nv12(uint32_t width, uint32_t height, uint32_t pitch, uint64_t chroma) {
  ImportSource source;
  source.fourcc = DRM_FORMAT_NV12;
  source.width = width;
  source.height = height;
  source.n_planes = 2;
  source.planes[0] = {0, pitch, height, width};
  source.planes[1] = {chroma, pitch, (height + 1) / 2, (width + 1) / 2 * 2};
  source.size = chroma + uint64_t{pitch} * ((height + 1) / 2);
  return source;
}

ImportSource i420(uint32_t width, uint32_t height, uint32_t pitch) {
  ImportSource source;
  source.fourcc = DRM_FORMAT_YUV420;
  source.width = width;
  source.height = height;
  source.n_planes = 3;
  source.planes[0] = {0, pitch, height, width};
  for (unsigned i : {1u, 2u})
    source.planes[i] = {uint64_t{pitch} * height + uint64_t{pitch / 2} * (height / 2) * (i - 1), pitch / 2, height / 2,
                        width / 2};
  source.size = uint64_t{pitch} * height * 3 / 2;
  return source;
}

CUeglFrame frameOf(const ImportSource &source, uint32_t pitch) {
  CUeglFrame frame = {};
  frame.frameType = CU_EGL_FRAME_TYPE_PITCH;
  frame.width = source.width;
  frame.height = source.height;
  frame.planeCount = source.n_planes;
  frame.pitch = pitch;
  for (unsigned i = 0; i < source.n_planes; ++i)
    frame.frame.pPitch[i] = reinterpret_cast<void *>(kBase + source.planes[i].offset);
  return frame;
}

TEST(EglFrame, PlanesInOneRangeAreUsedInPlace) {
  const ImportSource source = nv12(1920, 1080, 1984, 1984 * 1088);
  auto plan = planEglFrame(frameOf(source, 1984), source, source.size);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_TRUE(plan->in_place);
  EXPECT_EQ(plan->pointer, kBase);
  EXPECT_EQ(plan->planes[1].offset, 1984u * 1088);
  EXPECT_EQ(plan->planes[1].pitch, 1984u);
  EXPECT_EQ(plan->size, 1984u * 1088 + 1984u * 539 + 1920);
  EXPECT_TRUE(planEglFrame(frameOf(source, 1984), source, 0)->in_place) << "where the driver tells no range";
}

TEST(EglFrame, PictureMayBeginInsideTheBuffer) {
  ImportSource source = nv12(64, 16, 64, 0);
  source.planes[0].offset = 4096;
  source.planes[1].offset = 4096 + 64 * 16;
  source.size = 8192;
  auto plan = planEglFrame(frameOf(source, 64), source, 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->pointer, kBase + 4096);
  EXPECT_EQ(plan->planes[0].offset, 0u);
  EXPECT_EQ(plan->planes[1].offset, 64u * 16);
}

TEST(EglFrame, OtherPlanesPitchFollowsTheFirst) {
  const ImportSource source = i420(640, 480, 640);
  auto frame = frameOf(source, 768); // another layout than the buffer's
  frame.frame.pPitch[1] = reinterpret_cast<void *>(kBase + 768 * 480);
  frame.frame.pPitch[2] = reinterpret_cast<void *>(kBase + 768 * 480 + 384 * 240);
  auto plan = planEglFrame(frame, source, 768 * 480 * 3 / 2);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_TRUE(plan->in_place);
  EXPECT_EQ(plan->planes[0].pitch, 768u);
  EXPECT_EQ(plan->planes[2].pitch, 384u);
}

TEST(EglFrame, PlanesApartAreCopied) {
  const ImportSource source = nv12(1918, 1080, 1984, 1984 * 1080);
  auto before = frameOf(source, 1984), beyond = before;
  before.frame.pPitch[1] = reinterpret_cast<void *>(kBase - 4096 * 1024);
  beyond.frame.pPitch[1] = reinterpret_cast<void *>(kBase + (uint64_t{1} << 32));
  for (const CUeglFrame &frame : {before, beyond}) {
    auto plan = planEglFrame(frame, source, 1984 * 1080);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_FALSE(plan->in_place);
    EXPECT_EQ(plan->from[1], reinterpret_cast<CUdeviceptr>(frame.frame.pPitch[1]));
    EXPECT_EQ(plan->from_pitch[1], 1984u);
    EXPECT_EQ(plan->planes[0].pitch, 2048u);
    EXPECT_GE(plan->planes[1].offset, uint64_t{2048} * 1080);
    EXPECT_GE(plan->size, plan->planes[1].offset + uint64_t{plan->planes[1].pitch} * 540);
  }
}

TEST(EglFrame, ArraysAreCopied) {
  const ImportSource source = i420(62, 34, 64);
  auto frame = frameOf(source, 0);
  frame.frameType = CU_EGL_FRAME_TYPE_ARRAY;
  auto plan = planEglFrame(frame, source, 0);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_FALSE(plan->in_place);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(plan->planes[i].pitch, 256u);
    EXPECT_EQ(plan->planes[i].offset % 512, 0u);
    const uint64_t before = i == 0 ? 0 : plan->planes[i - 1].offset + 256 * plan->planes[i - 1].rows;
    EXPECT_GE(plan->planes[i].offset, before);
  }
}

TEST(EglFrame, AnotherPictureIsRefused) {
  const ImportSource source = nv12(640, 480, 640, 640 * 480);
  const CUeglFrame right = frameOf(source, 640);
  CUeglFrame converted = right, cropped = right, narrow = right;
  converted.planeCount = 1;
  cropped.height = 472;
  narrow.pitch = 512;
  for (const CUeglFrame &frame : {converted, cropped, narrow}) {
    auto plan = planEglFrame(frame, source, 0);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, EOPNOTSUPP);
  }
  EXPECT_NE(planEglFrame(converted, source, 0).error().what.find("640x480 in 1 plane"), std::string::npos)
      << planEglFrame(converted, source, 0).error().message();
}

} // namespace
