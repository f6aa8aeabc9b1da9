// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink and fences of the kernel: what it waits for, for how long, and what it tells the display.
#include <cerrno>
#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/gstzcdeviceevent.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/lab/drm/feeder.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/lab/support/vgem_fence.h"
#include "tests/lab/support/writeback.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::lab;
using gstzc::test::openFds;
using namespace std::chrono_literals;

namespace {

constexpr auto kNotYet = 300ms; // long enough for a frame that does not wait to have been shown
constexpr uint64_t kFrame = 20 * GST_MSECOND;

class SinkFences : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
  }

  std::string pipeline(const std::string &settings) const {
    return Picture::source() + " ! drmmodifiersink name=sink message-flips=true max-lateness=-1 mode=64x48 fd=" +
           std::to_string(card_.get()) + " " + settings;
  }
  void addPictures(size_t n) {
    for (size_t i = 0; i < n; ++i) {
      auto made = Picture::create(0x102030 + static_cast<uint32_t>(pictures_.size()) * 0x1f0b07);
      ASSERT_TRUE(made) << made.error().message();
      pictures_.push_back(made.take());
    }
  }
  // A timeline of its own whose first point is a fence on the picture.
  void fence(const Picture &picture, Access access = Access::Write) {
    auto timeline = SwTimeline::create();
    ASSERT_TRUE(timeline) << timeline.error().message();
    auto point = timeline->fence(1);
    ASSERT_TRUE(point) << point.error().message();
    auto imported = importFence(picture.dmabuf(), *point, access);
    ASSERT_TRUE(imported) << imported.error().message();
    timelines_.push_back(timeline.take());
  }
  static bool waitFlips(const Player &player, size_t n, std::chrono::milliseconds limit = 20s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (player.flips().size() < n && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
    return player.flips().size() >= n;
  }
  static bool waitStat(const Player &player, const char *name, uint64_t n) {
    for (int i = 0; i < 4000 && player.stat(name) < n; ++i) std::this_thread::sleep_for(5ms);
    return player.stat(name) >= n;
  }
  static void flush(const Player &player) {
    GstPad *pad = gst_element_get_static_pad(player.sink(), "sink");
    GstPad *peer = gst_pad_get_peer(pad);
    gst_pad_push_event(peer, gst_event_new_flush_start());
    gst_pad_push_event(peer, gst_event_new_flush_stop(TRUE));
    gst_object_unref(peer);
    gst_object_unref(pad);
  }
  static std::vector<uint64_t> shown(const Player &player) {
    std::vector<uint64_t> frames;
    for (const Flip &flip : player.flips()) frames.push_back(flip.pts / kFrame);
    return frames;
  }

  UniqueFd card_;
  std::deque<Picture> pictures_;
  std::deque<SwTimeline> timelines_; // in the order of fence()
};

TEST_F(SinkFences, WhatIsReadyIsNotWaitedFor) {
  addPictures(2);
  fence(pictures_[0]);
  ASSERT_TRUE(timelines_[0].advance(1));
  Player player(pipeline(""));
  Feeder feeder(player);
  player.start();
  for (size_t i = 0; i < 2; ++i) feeder.push(pictures_[i].frame(i * kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(player.stat("fence-waits"), 0u);
  EXPECT_EQ(player.stat("fence-wait-ns"), 0u);
  EXPECT_EQ(player.stat("commits"), 2u);
  EXPECT_EQ(player.stat("in-fences"), 2u) << "each commit carries one that has signalled";
  EXPECT_EQ(player.stat("in-fence-refused"), 0u);
  auto screen = captureWriteback(card_.get());
  ASSERT_TRUE(screen) << screen.error().message();
  EXPECT_EQ(screen->at(10, 10), pictures_[1].rgb());
}

TEST_F(SinkFences, NothingIsShownBeforeTheFence) {
  addPictures(1);
  fence(pictures_[0]);
  Player player(pipeline(""));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  std::this_thread::sleep_for(kNotYet);
  EXPECT_EQ(player.stat("commits"), 0u);
  EXPECT_FALSE(player.wait(0s)) << "no EOS before the last frame";
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), std::vector<uint64_t>{0});
  EXPECT_EQ(player.stat("fence-waits"), 1u);
  EXPECT_GE(player.stat("fence-wait-ns"), 200'000'000u);
  EXPECT_EQ(player.stat("in-fences"), 1u);
  EXPECT_EQ(player.stat("dropped") + player.stat("fence-errors") + player.stat("fence-timeouts"), 0u);
}

TEST_F(SinkFences, ReadersDoNotDelay) {
  addPictures(1);
  fence(pictures_[0], Access::Read);
  Player player(pipeline(""));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  EXPECT_EQ(shown(player), std::vector<uint64_t>{0});
  EXPECT_EQ(player.stat("fence-waits"), 0u);
}

TEST_F(SinkFences, OutOfOrderAcrossFourBuffers) {
  addPictures(4);
  Player player(pipeline("max-in-flight=4"));
  Feeder feeder(player);
  player.start();
  for (size_t i = 0; i < 4; ++i) {
    fence(pictures_[i]);
    feeder.push(pictures_[i].frame(i * kFrame));
  }
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 4)) << "the streaming thread does not sleep in one";
  for (const size_t i : {3u, 1u, 2u}) {
    ASSERT_TRUE(timelines_[i].advance(1));
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(player.flips().empty()) << i;
  }
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(player.stat("dropped"), 0u);
}

TEST_F(SinkFences, WithoutSyncTheNewestReadyFrameIsShown) {
  addPictures(3);
  Player player(pipeline("sync=false"));
  Feeder feeder(player);
  player.start();
  for (size_t i = 0; i < 3; ++i) {
    fence(pictures_[i]);
    feeder.push(pictures_[i].frame(i * kFrame));
  }
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 3));
  ASSERT_TRUE(timelines_[1].advance(1));
  ASSERT_TRUE(waitFlips(player, 1));
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(timelines_[2].advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(player.stat("dropped"), 1u);
}

TEST_F(SinkFences, NeverIsDroppedAndTheStreamGoesOn) {
  addPictures(3);
  fence(pictures_[0]);
  Player player(pipeline("fence-timeout=300"));
  Feeder feeder(player);
  player.start();
  for (size_t i = 0; i < 3; ++i) feeder.push(pictures_[i].frame(i * kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(player.stat("fence-timeouts"), 1u);
  EXPECT_EQ(player.stat("dropped"), 1u);
  auto screen = captureWriteback(card_.get());
  ASSERT_TRUE(screen) << screen.error().message();
  EXPECT_EQ(screen->at(10, 10), pictures_[2].rgb()) << "the mode that the dropped frame was to set is set";
}

TEST_F(SinkFences, EosComesWhenTheLastFrameIsGivenUp) {
  addPictures(1);
  fence(pictures_[0]);
  Player player(pipeline("fence-timeout=400"));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_TRUE(player.flips().empty());
  EXPECT_EQ(player.stat("fence-timeouts"), 1u);
  EXPECT_EQ(player.stat("dropped"), 1u);
}

TEST_F(SinkFences, AFenceThatFailsIsDropped) {
  addPictures(2);
  fence(pictures_[0]);
  Player player(pipeline(""));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  timelines_[0].close();
  feeder.push(pictures_[1].frame(kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), std::vector<uint64_t>{1});
  EXPECT_EQ(player.stat("fence-errors"), 1u);
  EXPECT_EQ(player.stat("fence-timeouts"), 0u);
}

// pass: also a frame whose fence never signals, for which the kernel by itself would wait
TEST_F(SinkFences, PassShowsThemNevertheless) {
  addPictures(2);
  Player player(pipeline("on-fence-error=pass fence-timeout=300"));
  Feeder feeder(player);
  player.start();
  fence(pictures_[0]);
  feeder.push(pictures_[0].frame(0));
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  timelines_[0].close();
  ASSERT_TRUE(waitFlips(player, 1));
  fence(pictures_[1]);
  feeder.push(pictures_[1].frame(kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(player.stat("fence-errors"), 1u);
  EXPECT_EQ(player.stat("fence-timeouts"), 1u);
  EXPECT_EQ(player.stat("dropped"), 0u);
  EXPECT_TRUE(player.stop());
}

TEST_F(SinkFences, ErrorEndsTheStream) {
  addPictures(1);
  fence(pictures_[0]);
  Player player(pipeline("on-fence-error=error fence-timeout=200"));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  feeder.end(); // which is no end that anybody should hear of
  ASSERT_TRUE(player.wait(20s));
  EXPECT_FALSE(player.ended());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  EXPECT_NE(player.errors().find("200 ms"), std::string::npos) << player.errors();
  EXPECT_TRUE(player.hasError(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ));
  EXPECT_TRUE(player.stop());
  EXPECT_FALSE(player.ended());
}

// vgem lets go of its fences after 10 s, as if they had signalled: ours comes first.
TEST_F(SinkFences, OurDeadlineComesBeforeTheDrivers) {
  auto buffer = VgemBuffer::create(Picture::kSize);
  ASSERT_TRUE(buffer) << buffer.error().message();
  auto attached = buffer->attach(Access::Write);
  ASSERT_TRUE(attached) << attached.error().message();
  Player player(pipeline("fence-timeout=500"));
  Feeder feeder(player);
  player.start();
  feeder.push(Picture::frameOf(buffer->dmabuf(), 0));
  feeder.end();
  ASSERT_TRUE(player.wait(8s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_TRUE(player.flips().empty());
  EXPECT_EQ(player.stat("fence-timeouts"), 1u);
  EXPECT_EQ(player.stat("fence-errors"), 0u);
}

TEST_F(SinkFences, OfADevice) {
  auto buffer = VgemBuffer::create(Picture::kSize);
  ASSERT_TRUE(buffer) << buffer.error().message();
  auto attached = buffer->attach(Access::Write);
  ASSERT_TRUE(attached) << attached.error().message();
  Player player(pipeline(""));
  Feeder feeder(player);
  player.start();
  feeder.push(Picture::frameOf(buffer->dmabuf(), 0));
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  std::this_thread::sleep_for(kNotYet);
  EXPECT_EQ(player.stat("commits"), 0u);
  ASSERT_TRUE(buffer->signal(*attached));
  ASSERT_TRUE(player.wait(20s));
  EXPECT_EQ(shown(player), std::vector<uint64_t>{0});
}

TEST_F(SinkFences, ThatTheBufferCarriesCountBesideThoseOfItsMemory) {
  addPictures(2);
  fence(pictures_[0]);
  auto timeline = SwTimeline::create();
  ASSERT_TRUE(timeline) << timeline.error().message();
  Player player(pipeline("fence-timeout=20000"));
  Feeder feeder(player);
  player.start();
  for (uint64_t i = 0; i < 2; ++i) {
    auto point = timeline->fence(static_cast<uint32_t>(i + 1));
    ASSERT_TRUE(point) << point.error().message();
    GstBuffer *buffer = pictures_[i].frame(i * kFrame);
    GError *error = nullptr;
    EXPECT_NE(gst_buffer_add_zc_fence_meta(buffer, point->release().release(), i, &error), nullptr);
    EXPECT_EQ(error, nullptr);
    feeder.push(buffer);
  }
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 2));
  ASSERT_TRUE(timelines_[0].advance(1));
  std::this_thread::sleep_for(kNotYet);
  EXPECT_EQ(player.stat("commits"), 0u) << "one of the two";
  ASSERT_TRUE(timeline->advance(1));
  ASSERT_TRUE(waitFlips(player, 1));
  std::this_thread::sleep_for(kNotYet);
  EXPECT_EQ(player.stat("commits"), 1u);
  ASSERT_TRUE(timeline->advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(player.stat("in-fences"), 2u);
}

TEST_F(SinkFences, ProducersAreToldThatTheyAreWaitedFor) {
  Player player(pipeline(""));
  gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
  GstCaps *caps = gst_caps_from_string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64,height=48,"
                                       "framerate=50/1");
  GstQuery *query = gst_query_new_allocation(caps, FALSE);
  GstPad *pad = gst_element_get_static_pad(player.sink(), "sink");
  EXPECT_TRUE(gst_pad_query(pad, query));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr));
  gst_object_unref(pad);
  gst_query_unref(query);
  gst_caps_unref(caps);
}

// IN_FENCE_FD says what the frame waits for: fences that come to its memory later do not count. Without it the kernel
// would wait for this one, for ever.
TEST_F(SinkFences, FencesThatComeLaterDoNotCount) {
  addPictures(2);
  Player player(pipeline("fence-timeout=20000"));
  Feeder feeder(player);
  player.start();
  fence(pictures_[0]);
  feeder.push(pictures_[0].frame(0));
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  fence(pictures_[0]); // never
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(waitFlips(player, 1, 4s)) << "the kernel waits for the second fence";
  feeder.push(pictures_[1].frame(kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 1}));
}

// NV12 of two dma-bufs: both have to be done
TEST_F(SinkFences, OfEveryPlanesMemory) {
  constexpr size_t kLuma = 64 * 48, kPage = 4096;
  auto luma = allocateUdmabuf(kPage), chroma = allocateUdmabuf(kPage);
  ASSERT_TRUE(luma && chroma);
  auto timeline = SwTimeline::create();
  ASSERT_TRUE(timeline) << timeline.error().message();
  auto point = timeline->fence(1);
  ASSERT_TRUE(point);
  ASSERT_TRUE(importFence(chroma->get(), *point, Access::Write));
  Player player("appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,"
                "height=48,framerate=50/1\" ! drmmodifiersink name=sink message-flips=true mode=64x48 fd=" +
                std::to_string(card_.get()));
  Feeder feeder(player);
  player.start();
  const Piece pieces[] = {{luma->get(), kPage, 0, kLuma}, {chroma->get(), kPage, 0, kLuma / 2}};
  feeder.push(makeFrame(pieces, {GST_VIDEO_FORMAT_NV12, 64, 48, {0, kLuma}, {64, 64}}, 0));
  feeder.end();
  ASSERT_TRUE(waitStat(player, "fence-waits", 1));
  std::this_thread::sleep_for(kNotYet);
  EXPECT_EQ(player.stat("commits"), 0u);
  ASSERT_TRUE(timeline->advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.flips().size(), 1u);
}

TEST_F(SinkFences, PrerollDoesNotWait) {
  addPictures(1);
  fence(pictures_[0]);
  Player player(pipeline("fence-timeout=60000"));
  Feeder feeder(player);
  gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
  feeder.push(pictures_[0].frame(0));
  EXPECT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  EXPECT_TRUE(player.flips().empty());
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(waitFlips(player, 1)) << "while paused";
  player.start();
  feeder.end();
  ASSERT_TRUE(player.wait(20s));
  EXPECT_EQ(player.flips().size(), 1u);
}

// Every way out while fences stay pending for a minute, with a streaming thread that waits for a place, or at EOS.
TEST_F(SinkFences, StatesAndFlushesDoNotWaitForFences) {
  constexpr auto kAtOnce = 5s; // in an emulated machine; the fences' deadline is at 60 s
  addPictures(5);
  size_t descriptors = 0;
  for (int round = 0; round < 3; ++round) {
    timelines_.clear();
    for (const Picture &picture : pictures_) fence(picture);
    {
      Player player(pipeline("fence-timeout=60000 max-in-flight=2"));
      Feeder feeder(player);
      player.start();
      const size_t n = round == 0 ? 2 : 4;
      for (size_t i = 0; i < n; ++i) feeder.push(pictures_[i].frame(i * kFrame));
      if (round == 0) feeder.end(); // drains
      ASSERT_TRUE(waitStat(player, "fence-waits", 2));
      std::this_thread::sleep_for(100ms);

      auto before = std::chrono::steady_clock::now();
      gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
      EXPECT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
      EXPECT_LT(std::chrono::steady_clock::now() - before, kAtOnce) << "pause";
      player.start();
      std::this_thread::sleep_for(50ms);
      EXPECT_FALSE(player.wait(0s)) << "a pause is no reason for EOS";

      before = std::chrono::steady_clock::now();
      if (round == 2) {
        flush(player);
        EXPECT_LT(std::chrono::steady_clock::now() - before, kAtOnce) << "flush";
        EXPECT_GE(player.stat("dropped"), 2u);
      }
      before = std::chrono::steady_clock::now();
      EXPECT_TRUE(player.stop());
      EXPECT_LT(std::chrono::steady_clock::now() - before, kAtOnce) << "stop";
      EXPECT_TRUE(player.flips().empty());
      EXPECT_EQ(player.errorCount(), 0u) << player.errors();
    }
    if (round == 0)
      descriptors = openFds();
    else
      EXPECT_EQ(openFds(), descriptors);
  }
}

// A display that takes no foreign memory: frames are copied, in the streaming thread.
class CopyFences : public SinkFences {
protected:
  void SetUp() override {
    auto opened = openCard("virtio_gpu");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
  }
};

TEST_F(CopyFences, AreWaitedForAndGivenUp) {
  addPictures(3);
  Player player(pipeline("allow-copy=true fence-timeout=500"));
  Feeder feeder(player);
  player.start();
  fence(pictures_[0]);
  fence(pictures_[1]);
  for (size_t i = 0; i < 3; ++i) feeder.push(pictures_[i].frame(i * kFrame));
  feeder.end();
  std::this_thread::sleep_for(100ms);
  ASSERT_TRUE(timelines_[0].advance(1));
  ASSERT_TRUE(player.wait(20s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(shown(player), (std::vector<uint64_t>{0, 2}));
  EXPECT_EQ(player.stat("copies"), 2u);
  EXPECT_EQ(player.stat("dropped"), 1u);
  EXPECT_EQ(player.stat("fence-waits"), 2u);
  EXPECT_EQ(player.stat("fence-timeouts"), 1u);
}

TEST_F(CopyFences, PauseFlushAndStopEndTheWait) {
  addPictures(2);
  fence(pictures_[1]);
  Player player(pipeline("allow-copy=true fence-timeout=60000"));
  Feeder feeder(player);
  player.start();
  feeder.push(pictures_[0].frame(0));
  ASSERT_TRUE(waitFlips(player, 1));
  feeder.push(pictures_[1].frame(kFrame));
  std::this_thread::sleep_for(kNotYet);
  auto before = std::chrono::steady_clock::now();
  gst_element_set_state(player.pipeline(), GST_STATE_PAUSED);
  EXPECT_EQ(gst_element_get_state(player.pipeline(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  player.start();
  std::this_thread::sleep_for(50ms);
  flush(player);
  EXPECT_EQ(player.stat("copies"), 1u);
  EXPECT_TRUE(player.stop());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);

  // the first frame of all: no state is reached, and none has to be to leave it
  player.start();
  feeder.push(pictures_[1].frame(0));
  std::this_thread::sleep_for(kNotYet);
  before = std::chrono::steady_clock::now();
  EXPECT_TRUE(player.stop());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  EXPECT_EQ(player.stat("copies"), 0u);
}

TEST_F(CopyFences, FailuresFollowThePolicy) {
  for (const char *policy : {"drop", "pass", "error"}) {
    timelines_.clear();
    pictures_.clear();
    addPictures(2);
    fence(pictures_[0]);
    Player player(pipeline(std::string("allow-copy=true on-fence-error=") + policy));
    Feeder feeder(player);
    player.start();
    feeder.push(pictures_[0].frame(0));
    std::this_thread::sleep_for(100ms);
    timelines_[0].close();
    feeder.push(pictures_[1].frame(kFrame));
    feeder.end();
    ASSERT_TRUE(player.wait(20s));
    EXPECT_EQ(player.stat("fence-errors"), 1u) << policy;
    const bool fatal = std::string(policy) == "error";
    EXPECT_EQ(player.ended(), !fatal) << policy << ": " << player.errors();
    EXPECT_EQ(player.stat("copies"), fatal ? 0u : 1u) << policy;
    EXPECT_EQ(shown(player), fatal ? std::vector<uint64_t>{} : std::vector<uint64_t>{1}) << policy;
  }
}

// A device that was reset says ECANCELED of what it had to do: that is no pause.
TEST_F(CopyFences, AProducerThatWasCancelledIsNoInterruption) {
  static constexpr GstZcDeviceEventFuncs kCancelled = {
      .kind = "test",
      .status = [](gpointer) { return -ECANCELED; },
      .make_fd = [](gpointer) { return eventfd(1, EFD_CLOEXEC); },
      .native = nullptr,
      .free = [](gpointer) {},
      ._gst_reserved = {},
  };
  addPictures(2);
  Player player(pipeline("allow-copy=true"));
  Feeder feeder(player);
  player.start();
  GstBuffer *frame = pictures_[0].frame(0);
  GstZcDeviceEvent *event = gst_zc_device_event_new(&kCancelled, nullptr);
  gst_buffer_add_zc_event_meta(frame, event, 0);
  gst_zc_device_event_unref(event);
  feeder.push(frame);
  feeder.push(pictures_[1].frame(kFrame));
  feeder.end();
  ASSERT_TRUE(player.wait(20s)) << "the streaming thread waits for the end of a pause";
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("fence-errors"), 1u);
  EXPECT_EQ(player.stat("copies"), 1u);
  EXPECT_EQ(shown(player), std::vector<uint64_t>{1});
}

} // namespace
