// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink on vkms: what the display shows is read back through its writeback connector, on the sink's own open
// file, which the test lends it.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include <gst/allocators/allocators.h>
#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/writeback.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::lab;
using gstzc::test::openFds;
using namespace std::chrono_literals;

namespace {

// YUV to RGB in the kernel's fixed point against the formula in floating point
constexpr int kRounding = 2;

class Vkms : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
    // without labels: fonts are looked for by a thread that opens files, and tests count those
    sink_ = " ! drmmodifiersink name=sink message-flips=true max-lateness=-1 overlay-labels=false fd=" +
            std::to_string(card_.get()) + " ";
  }

  void expectPicture(Player &player, uint32_t x, uint32_t y, int tolerance) {
    ASSERT_TRUE(player.ended()) << player.errors();
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    auto frame = player.lastFrame();
    ASSERT_TRUE(frame) << frame.error().message();
    EXPECT_GE(std::set<uint32_t>(frame->pixels.begin(), frame->pixels.end()).size(), 6u)
        << "the source's picture is dull";
    EXPECT_LE(largestDistance(*shown, x, y, *frame), tolerance) << player.configuration();
  }

  UniqueFd card_;
  std::string sink_;
};

class VkmsCamera : public Vkms, public testing::WithParamInterface<std::pair<const char *, int>> {};

TEST_P(VkmsCamera, ShowsTheCamerasOwnMemory) {
  const auto [format, tolerance] = GetParam();
  Player player(
      std::string("v4l2src name=src io-mode=dmabuf num-buffers=12 ! video/x-raw(memory:DMABuf),format=DMA_DRM,"
                  "drm-format=") +
      format + ",width=320,height=180" + sink_ + "mode=320x180@60");
  ASSERT_TRUE(player.play());
  expectPicture(player, 0, 0, tolerance);
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_EQ(player.stat("bytes-copied"), 0u);
  EXPECT_LE(player.stat("imports"), 12u);

  const auto source = player.sourceBuffers(), sink = player.sinkBuffers();
  EXPECT_EQ(source.size(), 12u);
  EXPECT_EQ(sink, source) << "same device and inode at both ends";
  const auto flips = player.flips();
  ASSERT_FALSE(flips.empty());
  for (const Flip &flip : flips) {
    ASSERT_TRUE(source.contains(flip.pts));
    EXPECT_EQ(flip.buffer, source.at(flip.pts));
    EXPECT_NE(flip.buffer.inode, 0u);
  }
  for (size_t i = 1; i < flips.size(); ++i) EXPECT_GT(flips[i].time, flips[i - 1].time);
  EXPECT_EQ(flips.back().pts, source.rbegin()->first) << "EOS comes after the last frame";
}
INSTANTIATE_TEST_SUITE_P(Formats, VkmsCamera, testing::Values(std::pair{"NV12", kRounding}, std::pair{"XR24", 0}));

// What upstream writes into memory of the display is on the screen without a copy.
class VkmsPool : public Vkms, public testing::WithParamInterface<std::pair<const char *, int>> {};

TEST_P(VkmsPool, OfDumbBuffers) {
  const auto [format, tolerance] = GetParam();
  Player player(std::string("videotestsrc name=src num-buffers=5 ! video/x-raw,width=64,height=48,format=") + format +
                sink_ + "mode=64x48@60");
  ASSERT_TRUE(player.play());
  expectPicture(player, 0, 0, tolerance);
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_GT(player.stat("import-hits"), 0u);
  EXPECT_NE(player.configuration().find("64x48@60"), std::string::npos) << player.configuration();
}
INSTANTIATE_TEST_SUITE_P(Formats, VkmsPool,
                         testing::Values(std::pair{"BGRx", 0}, std::pair{"RGBx", 0}, std::pair{"NV12", kRounding},
                                         std::pair{"NV21", kRounding}, std::pair{"NV16", kRounding},
                                         std::pair{"I420", kRounding}, std::pair{"YV12", kRounding}));

class VkmsColor : public Vkms, public testing::WithParamInterface<const char *> {};

TEST_P(VkmsColor, MatrixAndRangeOfTheCaps) {
  Player player(
      std::string("videotestsrc name=src num-buffers=3 ! video/x-raw,width=64,height=48,format=NV12,colorimetry=") +
      GetParam() + sink_ + "mode=64x48");
  ASSERT_TRUE(player.play());
  expectPicture(player, 0, 0, kRounding);
}
// range:matrix:transfer:primaries; 1: full, 2: limited; 3: BT.709, 4: BT.601, 6: BT.2020
INSTANTIATE_TEST_SUITE_P(Colorimetries, VkmsColor, testing::Values("bt601", "bt709", "bt2020", "1:4:5:1", "1:3:5:1"));

TEST_F(Vkms, ASmallFrameStandsInTheMiddleOfBlack) {
  Player player("videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48,format=BGRx" + sink_ + "mode=100x80");
  ASSERT_TRUE(player.play());
  expectPicture(player, 18, 16, 0);
  auto shown = captureWriteback(card_.get());
  ASSERT_TRUE(shown);
  for (uint32_t x = 0; x < 100; ++x) {
    EXPECT_EQ(shown->at(x, 15), 0u);
    EXPECT_EQ(shown->at(x, 64), 0u);
  }
}

TEST_F(Vkms, ALargeFrameIsCroppedWhereNothingScales) {
  Player player("videotestsrc num-buffers=3 ! video/x-raw,width=128,height=96,format=NV12" + sink_ + "mode=64x48");
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  auto shown = captureWriteback(card_.get());
  ASSERT_TRUE(shown);
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame);
  for (uint32_t y = 0; y < 48; ++y)
    for (uint32_t x = 0; x < 64; ++x) EXPECT_LE(distance(shown->at(x, y), frame->at(x + 32, y + 24)), kRounding);
}

TEST_F(Vkms, OddSizeIsTheRightPicture) {
  Player player("videotestsrc num-buffers=2 ! video/x-raw,width=1921,height=1079,format=NV12" + sink_ +
                "mode=1921x1079");
  ASSERT_TRUE(player.play(120s));
  ASSERT_TRUE(player.ended()) << player.errors();
  auto shown = captureWriteback(card_.get(), 90s);
  ASSERT_TRUE(shown) << shown.error().message();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame);
  EXPECT_LE(largestDistance(*shown, 0, 0, *frame), kRounding) << player.configuration();
}

void addBox(GstBuffer *buffer, int x, int y, int w, int h) {
  GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsODMtd box;
  gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("face"), x, y, w, h, 0.9f, &box);
}

// Tells when a frame goes back to its pool: the pool takes off what was attached to it, and with it this parent.
struct Leash {
  std::function<void(uint64_t)> released;
  uint64_t pts;
};

void attachLeash(GstBuffer *buffer, std::function<void(uint64_t)> released) {
  GstBuffer *parent = gst_buffer_new();
  gst_mini_object_weak_ref(
      GST_MINI_OBJECT_CAST(parent),
      [](gpointer data, GstMiniObject *) {
        std::unique_ptr<Leash> leash(static_cast<Leash *>(data));
        leash->released(leash->pts);
      },
      new Leash{std::move(released), GST_BUFFER_PTS(buffer)});
  gst_buffer_add_parent_buffer_meta(buffer, parent);
  gst_buffer_unref(parent);
}

// A buffer that the camera may write into again must not be the one on the screen.
TEST_F(Vkms, NoBufferGoesBackBeforeTheFlipThatReplacedIt) {
  std::mutex mutex;
  uint64_t on_screen = GST_CLOCK_TIME_NONE;
  unsigned early = 0, released = 0;
  bool stopping = false;
  Player player(
      "v4l2src name=src io-mode=dmabuf num-buffers=330 ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,"
      "width=320,height=180" +
      sink_ + "mode=320x180 sync=false enable-last-sample=false");
  player.on_flip = [&](const Flip &flip) {
    const std::lock_guard lock(mutex);
    on_screen = flip.pts;
  };
  player.at_sink = [&](GstBuffer *buffer) {
    attachLeash(buffer, [&](uint64_t pts) {
      const std::lock_guard lock(mutex);
      if (stopping) return;
      ++released;
      early += pts == on_screen;
    });
  };
  ASSERT_TRUE(player.play(120s));
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_GE(released, 327u) << "one on screen, the one before it on its way back";
  EXPECT_LT(released, 330u);
  EXPECT_EQ(early, 0u);
  EXPECT_EQ(player.stat("frames"), 330u);
  EXPECT_EQ(player.stat("shown") + player.stat("dropped"), 330u);
  EXPECT_EQ(player.stat("commits"), player.stat("shown"));
  EXPECT_GT(player.stat("shown"), 100u);
  EXPECT_LE(player.stat("imports"), 32u) << "one for each buffer of the camera";
}

TEST_F(Vkms, ReadBackOnTheSameFileWhilePlaying) {
  Player player("v4l2src name=src io-mode=dmabuf ! "
                "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=320,height=180" +
                sink_ + "mode=320x180");
  player.start();
  for (int i = 0; i < 500 && player.flips().size() < 3; ++i) std::this_thread::sleep_for(20ms);
  ASSERT_GE(player.flips().size(), 3u);
  for (int i = 0; i < 8; ++i) {
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    EXPECT_EQ(shown->width, 320u);
  }
  const size_t before = player.flips().size();
  for (int i = 0; i < 500 && player.flips().size() < before + 3; ++i) std::this_thread::sleep_for(20ms);
  EXPECT_GE(player.flips().size(), before + 3) << "it goes on";
  EXPECT_FALSE(player.wait(0s)) << player.errors();
  EXPECT_EQ(player.errorCount(), 0u) << player.errors();
  EXPECT_TRUE(player.stop());
}

TEST_F(Vkms, WhatWasShownComesBack) {
  auto screen = Screen::find(card_.get());
  ASSERT_TRUE(screen) << screen.error().message();
  auto fb = DumbFramebuffer::create(card_.get(), 96, 64, 0x34325258 /* XR24 */);
  ASSERT_TRUE(fb) << fb.error().message();
  for (uint32_t i = 0; i < 96 * 64; ++i)
    fb->pixels()[i / 96 * (fb->stride() / 4) + i % 96] = i * 2654435761u & 0xffffff;
  ASSERT_TRUE(screen->show(fb->id(), makeMode(96, 64)));
  auto before = captureWriteback(card_.get());
  ASSERT_TRUE(before) << before.error().message();
  {
    Player player("videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48,format=NV12" + sink_ + "mode=64x48");
    player.at_sink = [&](GstBuffer *buffer) { addBox(buffer, 20, 10, 30, 20); };
    ASSERT_TRUE(player.play());
    ASSERT_TRUE(player.ended()) << player.errors();
    auto during = captureWriteback(card_.get());
    ASSERT_TRUE(during);
    EXPECT_EQ(during->width, 64u);
  }
  auto after = captureWriteback(card_.get());
  ASSERT_TRUE(after) << after.error().message();
  EXPECT_EQ(after->width, 96u);
  EXPECT_EQ(after->pixels, before->pixels);
  for (const PlaneInfo &plane : planes(card_.get()))
    EXPECT_EQ(property(card_.get(), plane.id, DRM_MODE_OBJECT_PLANE, "FB_ID").value != 0, plane.id == screen->plane());
  ASSERT_TRUE(screen->off());
}

TEST_F(Vkms, AnOutputThatWasOffIsOffAgain) {
  auto screen = Screen::find(card_.get());
  ASSERT_TRUE(screen);
  ASSERT_TRUE(screen->off());
  {
    Player player("videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48,format=NV12" + sink_ + "mode=64x48");
    ASSERT_TRUE(player.play());
    EXPECT_EQ(property(card_.get(), screen->crtc(), DRM_MODE_OBJECT_CRTC, "ACTIVE").value, 1u);
  }
  EXPECT_EQ(property(card_.get(), screen->crtc(), DRM_MODE_OBJECT_CRTC, "ACTIVE").value, 0u);
  EXPECT_EQ(property(card_.get(), screen->crtc(), DRM_MODE_OBJECT_CRTC, "MODE_ID").value, 0u);
  EXPECT_EQ(property(card_.get(), screen->connector(), DRM_MODE_OBJECT_CONNECTOR, "CRTC_ID").value, 0u);
  for (const PlaneInfo &plane : planes(card_.get()))
    EXPECT_EQ(property(card_.get(), plane.id, DRM_MODE_OBJECT_PLANE, "FB_ID").value, 0u) << plane.id;
}

TEST_F(Vkms, CyclesOfStatesLeakNothing) {
  auto path = cardPath("vkms");
  ASSERT_TRUE(path);
  size_t descriptors = 0;
  int framebuffers = 0;
  Player player("videotestsrc is-live=true ! video/x-raw,width=64,height=48,format=NV12,framerate=30/1" + sink_ +
                "mode=64x48");
  player.at_sink = [&](GstBuffer *buffer) { addBox(buffer, 20, 10, 30, 20); };
  for (int i = 0; i < 22; ++i) {
    gst_element_set_state(player.pipeline(), GST_STATE_PLAYING);
    const size_t before = player.flips().size();
    for (int k = 0; k < 500 && player.flips().size() < before + 2; ++k) std::this_thread::sleep_for(10ms);
    ASSERT_GE(player.flips().size(), before + 2) << "cycle " << i;
    gst_element_set_state(player.pipeline(), i % 2 == 0 ? GST_STATE_NULL : GST_STATE_READY);
    if (i % 2 != 0) continue;
    if (i == 2) {
      descriptors = openFds();
      framebuffers = framebuffersOf(*path);
      ASSERT_GE(framebuffers, 0);
    }
  }
  gst_element_set_state(player.pipeline(), GST_STATE_NULL);
  EXPECT_EQ(openFds(), descriptors);
  EXPECT_EQ(framebuffersOf(*path), framebuffers);
}

// A format DRM knows and GStreamer does not: layout from the buffer's meta, in a dma-buf of another device.
TEST_F(Vkms, AFormatWithoutAGStreamerName) {
  constexpr uint32_t kWidth = 64, kHeight = 48, kPitch = 64 * 8 + 256;
  auto memory = allocateUdmabuf(kPitch * kHeight);
  ASSERT_TRUE(memory) << memory.error().message();
  auto mapped = Mapping::create(memory->get(), kPitch * kHeight);
  ASSERT_TRUE(mapped);
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) { // XR48: blue, green, red, unused; 16 bits each
      const uint16_t pixel[4] = {static_cast<uint16_t>(x * 1024), static_cast<uint16_t>(y * 1024), 0x8080, 0};
      std::memcpy(mapped->data() + size_t{y} * kPitch + x * 8, pixel, 8);
    }
  Player player(
      "appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR48,width=64,height=48,"
      "framerate=30/1\"" +
      sink_ + "mode=64x48");
  GstElement *source = gst_bin_get_by_name(GST_BIN(player.pipeline()), "src");
  player.start();
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_append_memory(
      buffer, gst_dmabuf_allocator_alloc(allocator, UniqueFd::duplicate(memory->get()).release(), kPitch * kHeight));
  const gsize offset[4] = {};
  const gint stride[4] = {kPitch};
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_DMA_DRM, kWidth, kHeight, 1,
                                 offset, stride);
  GST_BUFFER_PTS(buffer) = 0;
  GstFlowReturn flow;
  g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
  g_signal_emit_by_name(source, "end-of-stream", &flow);
  gst_buffer_unref(buffer);
  gst_object_unref(allocator);
  gst_object_unref(source);
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  auto shown = captureWriteback(card_.get());
  ASSERT_TRUE(shown);
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x)
      EXPECT_LE(distance(shown->at(x, y), 0x800000 | (y * 4) << 8 | (x * 4)), 1) << x << "," << y;
}

// The application may hold a handle of the very memory that it hands to the sink: it stays valid.
TEST_F(Vkms, HandlesOfTheApplicationAreLeftAlone) {
  auto fb = DumbFramebuffer::create(card_.get(), 64, 48, 0x34325258 /* XR24 */);
  ASSERT_TRUE(fb);
  uint32_t handle = 0, pitch = 0;
  uint64_t size = 0;
  ASSERT_EQ(drmModeCreateDumbBuffer(card_.get(), 64, 48, 32, 0, &handle, &pitch, &size), 0);
  int exported = -1;
  ASSERT_EQ(drmPrimeHandleToFD(card_.get(), handle, DRM_CLOEXEC | DRM_RDWR, &exported), 0);
  {
    Player player("appsrc name=src format=time "
                  "caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64,height=48,"
                  "framerate=30/1\"" +
                  sink_ + "mode=64x48");
    GstElement *source = gst_bin_get_by_name(GST_BIN(player.pipeline()), "src");
    player.start();
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, exported, size));
    GST_BUFFER_PTS(buffer) = 0;
    GstFlowReturn flow;
    g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
    g_signal_emit_by_name(source, "end-of-stream", &flow);
    gst_buffer_unref(buffer);
    gst_object_unref(allocator);
    gst_object_unref(source);
    ASSERT_TRUE(player.wait(20s));
    ASSERT_TRUE(player.ended()) << player.errors();
  }
  uint64_t offset = 0;
  EXPECT_EQ(drmModeMapDumbBuffer(card_.get(), handle, &offset), 0) << "the handle is gone";
  EXPECT_EQ(drmModeDestroyDumbBuffer(card_.get(), handle), 0);
}

TEST_F(Vkms, FlushSeeksAndPauses) {
  Player player("videotestsrc name=src ! video/x-raw,width=64,height=48,format=NV12,framerate=30/1" + sink_ +
                "mode=64x48");
  gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
  ASSERT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  for (int k = 0; k < 500 && player.flips().empty(); ++k) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(player.flips().size(), 1u) << "the first frame is on screen while paused";
  player.start();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(gst_element_seek_simple(player.pipeline(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, (i + 1) * GST_SECOND));
    ASSERT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  }
  const size_t before = player.flips().size();
  for (int k = 0; k < 500 && player.flips().size() < before + 3; ++k) std::this_thread::sleep_for(10ms);
  EXPECT_GE(player.flips().size(), before + 3);
  EXPECT_EQ(player.errorCount(), 0u);
  EXPECT_TRUE(player.stop());
}

// The sink waits for the display all the time: a pause interrupts that wait, and the stream goes on afterwards.
TEST_F(Vkms, PausesWhileTheDisplayIsTheBottleneck) {
  Player player("videotestsrc ! video/x-raw,width=64,height=48,format=NV12,framerate=240/1" + sink_ + "mode=64x48@5");
  const auto more = [&](size_t n) {
    const size_t before = player.flips().size();
    for (int k = 0; k < 1000 && player.flips().size() < before + n; ++k) std::this_thread::sleep_for(10ms);
    return player.flips().size() >= before + n;
  };
  player.start();
  ASSERT_TRUE(more(3));
  for (int i = 0; i < 3; ++i) {
    gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
    ASSERT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
    std::this_thread::sleep_for(500ms); // what was on its way is on screen
    player.start();
    ASSERT_TRUE(more(4)) << "after pause " << i << ": " << player.stat("frames") << " frames";
  }
  EXPECT_EQ(player.stat("dropped"), 0u);
  EXPECT_TRUE(player.stop());
}

TEST_F(Vkms, CapsThatChangeWhilePlaying) {
  // the first source ends, the second goes on in another format and size
  Player player(
      "concat name=c" + sink_ +
      "mode=128x96 videotestsrc num-buffers=4 ! video/x-raw,width=64,height=48,format=NV12,"
      "framerate=30/1 ! c. videotestsrc num-buffers=4 pattern=smpte100 ! video/x-raw,width=128,height=96,format=BGRx,"
      "framerate=30/1 ! c.");
  ASSERT_TRUE(player.play());
  expectPicture(player, 0, 0, 0);
  EXPECT_EQ(player.stat("copies"), 0u);
}

} // namespace
