// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading back what vkms shows: the pixels are those of the framebuffer, and whoever shows them is not disturbed.
#include "tests/lab/support/writeback.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <thread>

#include <drm_fourcc.h>

#include <gtest/gtest.h>

#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/screen.h"

using namespace gstzc;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48;

class Writeback : public testing::Test {
protected:
  void SetUp() override {
    auto opened = lab::openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
    auto found = lab::Screen::find(card_.get());
    ASSERT_TRUE(found) << found.error().message();
    screen_.emplace(found.take());
  }
  void TearDown() override {
    if (!screen_) return;
    const Status off = screen_->off();
    EXPECT_TRUE(off) << off.error().message();
  }

  UniqueFd card_;
  std::optional<lab::Screen> screen_;
  const drmModeModeInfo mode_ = lab::makeMode(kWidth, kHeight);
};

lab::DumbFramebuffer filled(int card, uint32_t colour) {
  auto framebuffer = lab::DumbFramebuffer::create(card, kWidth, kHeight, DRM_FORMAT_XRGB8888).take();
  std::fill_n(framebuffer.pixels(), framebuffer.stride() / 4 * kHeight, colour);
  return framebuffer;
}

uint32_t pattern(uint32_t x, uint32_t y) { return x * 4 << 16 | y * 5 << 8 | (x ^ y) * 4; }

TEST_F(Writeback, GivesThePixelsOfAnRgbFramebuffer) {
  auto framebuffer = filled(card_.get(), 0);
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) framebuffer.pixels()[y * framebuffer.stride() / 4 + x] = pattern(x, y);
  auto shown = screen_->show(framebuffer.id(), mode_);
  ASSERT_TRUE(shown) << shown.error().message();
  for (int round = 0; round < 2; ++round) {
    auto image = lab::captureWriteback(card_.get());
    ASSERT_TRUE(image) << image.error().message();
    ASSERT_EQ(image->width, kWidth);
    ASSERT_EQ(image->height, kHeight);
    for (uint32_t y = 0; y < kHeight; ++y)
      for (uint32_t x = 0; x < kWidth; ++x) ASSERT_EQ(image->at(x, y), pattern(x, y)) << x << "," << y;
  }
}

// BT.601, limited range; the chroma sample of a block of 2x2 is taken as it is
uint32_t rgbOf(double y, double u, double v) {
  const double l = 255.0 / 219 * (y - 16), b = 255.0 / 224 * (u - 128), r = 255.0 / 224 * (v - 128);
  const auto level = [](double value) { return static_cast<uint32_t>(std::clamp(std::lround(value), 0L, 255L)); };
  return level(l + 1.402 * r) << 16 | level(l - 0.344136 * b - 0.714136 * r) << 8 | level(l + 1.772 * b);
}

TEST_F(Writeback, GivesTheConvertedPixelsOfAnNv12DmaBuf) {
  const auto luma = [](uint32_t x, uint32_t y) { return static_cast<uint8_t>(16 + (x * 2 + y) % 220); };
  const auto chroma = [](uint32_t x, uint32_t y, int c) { return static_cast<uint8_t>(c ? 40 + y * 8 : 60 + x * 4); };
  constexpr uint32_t kStride = 128, kSize = kStride * kHeight * 3 / 2; // a pitch that is not the width
  auto memory = lab::allocateUdmabuf(kSize);
  ASSERT_TRUE(memory) << memory.error().message();
  auto mapping = lab::Mapping::create(memory->get(), kSize);
  ASSERT_TRUE(mapping) << mapping.error().message();
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) mapping->data()[y * kStride + x] = luma(x, y);
  for (uint32_t y = 0; y < kHeight / 2; ++y)
    for (uint32_t x = 0; x < kWidth / 2; ++x)
      for (int c : {0, 1}) mapping->data()[(kHeight + y) * kStride + x * 2 + c] = chroma(x, y, c);

  uint32_t handle = 0, framebuffer = 0;
  ASSERT_EQ(drmPrimeFDToHandle(card_.get(), memory->get(), &handle), 0) << errno;
  const uint32_t handles[4] = {handle, handle}, pitches[4] = {kStride, kStride}, offsets[4] = {0, kStride * kHeight};
  ASSERT_EQ(drmModeAddFB2(card_.get(), kWidth, kHeight, DRM_FORMAT_NV12, handles, pitches, offsets, &framebuffer, 0),
            0);
  auto encoding = screen_->enumValue("COLOR_ENCODING", "ITU-R BT.601 YCbCr");
  auto range = screen_->enumValue("COLOR_RANGE", "YCbCr limited range");
  ASSERT_TRUE(encoding && range);
  auto shown = screen_->show(framebuffer, mode_, {{"COLOR_ENCODING", *encoding}, {"COLOR_RANGE", *range}});
  ASSERT_TRUE(shown) << shown.error().message();
  auto image = lab::captureWriteback(card_.get());
  ASSERT_TRUE(image) << image.error().message();
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) {
      const uint32_t expected = rgbOf(luma(x, y), chroma(x / 2, y / 2, 0), chroma(x / 2, y / 2, 1));
      ASSERT_LE(lab::distance(image->at(x, y), expected), 2)
          << x << "," << y << std::hex << " " << image->at(x, y) << " " << expected;
    }
  drmModeRmFB(card_.get(), framebuffer);
  drmCloseBufferHandle(card_.get(), handle);
}

TEST_F(Writeback, WorksWhileAnotherThreadFlipsOnTheSameFile) {
  const auto red = filled(card_.get(), 0xff0000), blue = filled(card_.get(), 0x0000ff);
  auto shown = screen_->show(red.id(), mode_);
  ASSERT_TRUE(shown) << shown.error().message();
  std::atomic<bool> stop = false;
  std::atomic<int> flips = 0, odd = 0;
  std::thread flipper([&] {
    for (int i = 0; !stop; ++i) {
      const int rc = screen_->flip(i % 2 ? red.id() : blue.id());
      rc == 0 ? ++flips : rc == EBUSY ? 0 : ++odd;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
  int reds = 0, blues = 0;
  for (int round = 0; round < 20; ++round) {
    auto image = lab::captureWriteback(card_.get());
    if (!image) {
      ADD_FAILURE() << "round " << round << ": " << image.error().message();
      break;
    }
    EXPECT_EQ(std::count(image->pixels.begin(), image->pixels.end(), image->at(0, 0)), kWidth * kHeight);
    (image->at(0, 0) == 0xff0000 ? reds : blues) += 1;
    EXPECT_TRUE(image->at(0, 0) == 0xff0000 || image->at(0, 0) == 0x0000ff) << std::hex << image->at(0, 0);
  }
  stop = true;
  flipper.join();
  EXPECT_EQ(odd, 0) << "flips failed with something else than EBUSY";
  EXPECT_GE(flips, 20);
  RecordProperty("reds", reds);
  RecordProperty("blues", blues);
}

TEST_F(Writeback, SaysWhenTheCardShowsNothing) {
  (void)screen_->off();
  auto image = lab::captureWriteback(card_.get());
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().message().find("no CRTC is active"), std::string::npos) << image.error().message();
}

} // namespace
