// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames of Mesa's libgbm on vkms, which has no GPU behind it: linear ones, and that others are refused.
#include <cstring>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "gst/drm/device/libdrm_device.h"
#include "gst/drm/gbm/gbm_frames.h"
#include "tests/lab/drm/feeder.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/writeback.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::lab;
using gstzc::test::openFds;

namespace {

FrameCaps capsOf(const std::string &drm_format, int width, int height) {
  GstCaps *caps =
      gst_caps_from_string(("video/x-raw(memory:DMABuf),format=DMA_DRM,framerate=30/1,drm-format=" + drm_format +
                            ",width=" + std::to_string(width) + ",height=" + std::to_string(height))
                               .c_str());
  auto parsed = parseFrameCaps(caps);
  EXPECT_TRUE(parsed) << parsed.error().message();
  gst_caps_unref(caps);
  return *parsed;
}

class Gbm : public testing::Test {
protected:
  void SetUp() override {
    auto card = openCard("vkms");
    ASSERT_TRUE(card) << card.error().message();
    card_ = card.take();
    auto opened = LibdrmDevice::fromFd(card_.get());
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = opened.take();
    auto made = gbmFrames(*device_, GbmLibrary::get());
    ASSERT_TRUE(made) << made.error().message();
    frames_ = made.take();
  }
  void TearDown() override {
    frames_.reset();
    if (device_) device_->leave();
  }

  UniqueFd card_;
  std::shared_ptr<KmsDevice> device_;
  std::shared_ptr<FrameSource> frames_;
};

TEST_F(Gbm, LinearFramesAreTheDisplays) {
  const auto caps = capsOf("XR24", 64, 48);
  const size_t before = openFds();
  {
    auto frame = frames_->make(caps);
    ASSERT_TRUE(frame) << frame.error().message();
    ASSERT_EQ(frame->n_planes, 1u);
    EXPECT_GE(frame->strides[0], 64 * 4);
    EXPECT_EQ(frame->format, GST_VIDEO_FORMAT_BGRx);
    EXPECT_GE(frame->size(), static_cast<uint64_t>(frame->strides[0]) * 48);
    const auto takes = takesFrame(*device_, *frame, caps);
    EXPECT_TRUE(takes) << takes.error().message();
  }
  EXPECT_EQ(openFds(), before);
}

TEST_F(Gbm, TiledFramesAreRefused) {
  for (const char *format : {"XR24:0x0100000000000002", "NV12:0x0100000000000002", "XR24:0x0800000000000041"}) {
    auto frame = frames_->make(capsOf(format, 64, 48));
    ASSERT_FALSE(frame) << format;
    EXPECT_NE(frame.error().message().find("64x48"), std::string::npos) << frame.error().message();
    std::fputs((frame.error().message() + "\n").c_str(), stderr);
  }
}

// Frames of the pool come on screen as they are. They are written through the device: what Mesa's software driver
// exports may not be mapped for writing.
TEST_F(Gbm, FramesOfThePoolAreShown) {
  GstBufferPool *pool = newDisplayPool(frames_);
  GstStructure *config = gst_buffer_pool_get_config(pool);
  GstCaps *caps = gst_caps_from_string(
      "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64,height=48,framerate=30/1");
  gst_buffer_pool_config_set_params(config, caps, 0, 3, 0);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  gst_caps_unref(caps);
  {
    Player player(Picture::source() +
                  " ! drmmodifiersink name=sink max-lateness=-1 mode=64x48 fd=" + std::to_string(card_.get()));
    player.start();
    Feeder feeder(player);
    for (uint64_t n = 0; n < 5; ++n) {
      GstBuffer *buffer = nullptr;
      ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
      const auto stride = static_cast<size_t>(gst_buffer_get_video_meta(buffer)->stride[0]);
      GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
      ASSERT_TRUE(gst_is_dmabuf_memory(memory));
      DumbMemory own;
      own.size = memory->size;
      ASSERT_EQ(device_->importHandle(gst_dmabuf_memory_get_fd(memory), &own.handle), 0);
      void *data = nullptr;
      ASSERT_EQ(device_->mapDumb(own, &data), 0);
      for (uint32_t y = 0; y < 48; ++y)
        for (uint32_t x = 0; x < 64; ++x) {
          const uint32_t pixel = static_cast<uint32_t>(n << 16) | x << 8 | y;
          memcpy(static_cast<char *>(data) + y * stride + x * 4, &pixel, 4);
        }
      munmap(data, own.size);
      if (n < 3) device_->closeHandle(own.handle); // later it is the sink's, too: the buffers come round
      GST_BUFFER_PTS(buffer) = n * GST_SECOND / 30;
      EXPECT_EQ(feeder.push(buffer), GST_FLOW_OK);
    }
    feeder.end();
    ASSERT_TRUE(player.wait(std::chrono::seconds(60)));
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_EQ(player.stat("copies"), 0u);
    EXPECT_EQ(player.stat("frames"), 5u);
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    unsigned wrong = 0;
    for (uint32_t y = 0; y < 48; ++y)
      for (uint32_t x = 0; x < 64; ++x) wrong += shown->at(x, y) != (4u << 16 | x << 8 | y);
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE(player.stop());
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

} // namespace
