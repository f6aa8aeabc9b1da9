// SPDX-License-Identifier: LGPL-2.1-or-later
// The laboratory has the devices that it promises, and each does the one thing that tests rely on.
#include <algorithm>
#include <cerrno>
#include <set>

#include <drm_fourcc.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/lab/support/vgem_fence.h"

using namespace gstzc;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48, kStride = kWidth * 4;

// Imports the dma-buf into the card and makes an XRGB8888 framebuffer of it: 0 or the errno of the step that refused.
int importAndFramebuffer(int card, int dmabuf) {
  uint32_t handle = 0, framebuffer = 0;
  if (int rc = drmPrimeFDToHandle(card, dmabuf, &handle)) return rc < 0 ? errno : rc;
  const uint32_t handles[4] = {handle}, pitches[4] = {kStride}, offsets[4] = {};
  const int rc = drmModeAddFB2(card, kWidth, kHeight, DRM_FORMAT_XRGB8888, handles, pitches, offsets, &framebuffer, 0);
  if (rc == 0) drmModeRmFB(card, framebuffer);
  drmCloseBufferHandle(card, handle);
  return -rc;
}

TEST(Devices, CardsOfAllDriversAreThere) {
  std::multiset<std::string> drivers;
  for (const lab::CardInfo &card : lab::listCards()) drivers.insert(card.driver);
  EXPECT_EQ(drivers, (std::multiset<std::string>{"bochs-drm", "vgem", "virtio_gpu", "vkms"}));
}

TEST(Devices, UdmabufAndHeapGiveSharedZeroedMemory) {
  for (auto &&allocated : {lab::allocateUdmabuf(kStride * kHeight), lab::allocateHeap(kStride * kHeight)}) {
    ASSERT_TRUE(allocated) << allocated.error().message();
    EXPECT_TRUE(isDmaBuf(allocated->get()));
    auto first = lab::Mapping::create(allocated->get(), kStride * kHeight);
    auto second = lab::Mapping::create(allocated->get(), kStride * kHeight);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(std::count(first->data(), first->data() + first->size(), 0), static_cast<ptrdiff_t>(first->size()));
    first->data()[7] = 42;
    EXPECT_EQ(second->data()[7], 42);
  }
}

class Import : public testing::TestWithParam<std::pair<const char *, int>> {};

// Which displays take memory of others decides which path of the sink a test on them goes.
TEST_P(Import, OfForeignDmaBuf) {
  const auto [driver, expected] = GetParam();
  auto card = lab::openCard(driver);
  ASSERT_TRUE(card) << card.error().message();
  for (auto &&memory : {lab::allocateUdmabuf(kStride * kHeight), lab::allocateHeap(kStride * kHeight)}) {
    ASSERT_TRUE(memory) << memory.error().message();
    EXPECT_EQ(importAndFramebuffer(card->get(), memory->get()), expected) << driver;
  }
}
INSTANTIATE_TEST_SUITE_P(Displays, Import,
                         testing::Values(std::pair{"vkms", 0}, std::pair{"bochs-drm", 0},
                                         std::pair{"virtio_gpu", ENODEV}));

TEST(Devices, VkmsHasOverlaysAndNv12) {
  auto card = lab::openCard("vkms");
  ASSERT_TRUE(card) << card.error().message();
  int overlays = 0;
  for (const lab::PlaneInfo &plane : lab::planes(card->get())) {
    if (plane.type == DRM_PLANE_TYPE_CURSOR) continue;
    overlays += plane.type == DRM_PLANE_TYPE_OVERLAY;
    for (uint32_t fourcc : {DRM_FORMAT_NV12, DRM_FORMAT_XRGB8888, DRM_FORMAT_ARGB8888})
      EXPECT_EQ(std::count(plane.formats.begin(), plane.formats.end(), fourcc), 1) << plane.id;
    EXPECT_NE(lab::property(card->get(), plane.id, DRM_MODE_OBJECT_PLANE, "IN_FORMATS").id, 0u);
  }
  EXPECT_GE(overlays, 1);
}

TEST(Devices, VirtioHasOnePlaneAndNoFormatList) {
  auto card = lab::openCard("virtio_gpu");
  ASSERT_TRUE(card) << card.error().message();
  const auto planes = lab::planes(card->get());
  const auto primaries =
      std::count_if(planes.begin(), planes.end(), [](const auto &p) { return p.type == DRM_PLANE_TYPE_PRIMARY; });
  EXPECT_EQ(primaries, 1);
  for (const lab::PlaneInfo &plane : planes)
    EXPECT_EQ(lab::property(card->get(), plane.id, DRM_MODE_OBJECT_PLANE, "IN_FORMATS").id, 0u);
}

TEST(Devices, VividStreamsIntoDmaBufs) {
  const UniqueFd camera(::open("/dev/video0", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ASSERT_TRUE(camera.isValid());
  v4l2_format format = {};
  format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  format.fmt.pix.width = 640;
  format.fmt.pix.height = 480;
  format.fmt.pix.pixelformat = V4L2_PIX_FMT_NV12;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_S_FMT, &format), 0) << errno;
  ASSERT_EQ(format.fmt.pix.pixelformat, static_cast<uint32_t>(V4L2_PIX_FMT_NV12));
  ASSERT_EQ(format.fmt.pix.width, 640u);
  ASSERT_EQ(format.fmt.pix.height, 480u);

  v4l2_requestbuffers request = {};
  request.count = 2;
  request.type = format.type;
  request.memory = V4L2_MEMORY_MMAP;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_REQBUFS, &request), 0) << errno;
  std::vector<UniqueFd> exported;
  for (uint32_t i = 0; i < request.count; ++i) {
    v4l2_exportbuffer expbuf = {};
    expbuf.type = format.type;
    expbuf.index = i;
    expbuf.flags = O_RDWR | O_CLOEXEC;
    ASSERT_EQ(ioctl(camera.get(), VIDIOC_EXPBUF, &expbuf), 0) << errno;
    exported.emplace_back(expbuf.fd);
    EXPECT_TRUE(isDmaBuf(expbuf.fd));
    v4l2_buffer buffer = {};
    buffer.type = format.type;
    buffer.memory = request.memory;
    buffer.index = i;
    ASSERT_EQ(ioctl(camera.get(), VIDIOC_QBUF, &buffer), 0) << errno;
  }
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_STREAMON, &type), 0) << errno;
  pollfd ready = {camera.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 10000), 1) << "no frame within 10 s";
  v4l2_buffer buffer = {};
  buffer.type = format.type;
  buffer.memory = request.memory;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_DQBUF, &buffer), 0) << errno;
  ASSERT_LT(buffer.index, exported.size());
  auto frame = lab::Mapping::create(exported[buffer.index].get(), format.fmt.pix.sizeimage);
  ASSERT_TRUE(frame) << frame.error().message();
  EXPECT_GE(std::set<uint8_t>(frame->data(), frame->data() + 640).size(), 4u) << "the picture has colour bars";
  EXPECT_EQ(ioctl(camera.get(), VIDIOC_STREAMOFF, &type), 0);
}

TEST(Devices, SwSyncFenceSignalsWhenItsTimelineGetsThere) {
  auto timeline = lab::SwTimeline::create();
  ASSERT_TRUE(timeline) << timeline.error().message();
  auto fence = timeline->fence(2);
  ASSERT_TRUE(fence) << fence.error().message();
  pollfd waiting = {fence->fd(), POLLIN, 0};
  ASSERT_TRUE(timeline->advance(1));
  EXPECT_EQ(poll(&waiting, 1, 50), 0) << "signalled one step early";
  ASSERT_TRUE(timeline->advance(1));
  EXPECT_EQ(poll(&waiting, 1, 5000), 1);
  EXPECT_TRUE(fence->status().signalled());
}

TEST(Devices, VgemBufferIsBusyUntilItsFenceIsSignalled) {
  auto buffer = lab::VgemBuffer::create(kStride * kHeight);
  ASSERT_TRUE(buffer) << buffer.error().message();
  pollfd readable = {buffer->dmabuf(), POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 0), 1) << "idle";
  auto fence = buffer->attach(Access::Write);
  ASSERT_TRUE(fence) << fence.error().message();
  EXPECT_EQ(poll(&readable, 1, 50), 0);
  const Status signalled = buffer->signal(*fence);
  ASSERT_TRUE(signalled) << signalled.error().message();
  EXPECT_EQ(poll(&readable, 1, 5000), 1);
}

} // namespace
