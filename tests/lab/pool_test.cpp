// SPDX-License-Identifier: LGPL-2.1-or-later
// GstZcPool with real dma-bufs and the kernel's fences: a buffer comes back when its devices are done.
#include "gst/zerocopy/gstzcpool.h"

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "tests/elements/upload/upload_pipeline.h"
#include "tests/lab/support/sw_sync.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr GstClockTime kShort = 100 * GST_MSECOND;

class LabPool : public testing::Test {
protected:
  void SetUp() override {
    GError *error = nullptr;
    GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_UDMABUF, nullptr, &error);
    ASSERT_NE(allocator, nullptr) << error->message;
    pool = gst_zc_pool_new(allocator, 0);
    gst_object_unref(allocator);
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, 0, 0, 0);
    ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
    gst_caps_unref(caps);
    ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    auto made = lab::SwTimeline::create();
    ASSERT_TRUE(made) << made.error().message();
    timeline = std::make_unique<lab::SwTimeline>(made.take());
  }
  void TearDown() override {
    if (pool != nullptr) {
      EXPECT_TRUE(gst_buffer_pool_set_active(pool, FALSE));
    }
    gst_clear_object(&pool);
  }
  GstZcPool *zc() { return GST_ZC_POOL(pool); }
  GstBuffer *acquire() {
    GstBuffer *buffer = nullptr;
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    return buffer;
  }
  static int fdOf(GstBuffer *buffer) { return gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0)); }
  static void addFence(GstBuffer *buffer, const lab::SwTimeline &from, uint32_t value, Access access) {
    auto fence = from.fence(value);
    ASSERT_TRUE(fence) << fence.error().message();
    auto added = importFence(fdOf(buffer), *fence, access);
    ASSERT_TRUE(added) << added.error().message();
  }
  static bool eventually(const std::function<bool()> &condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  bool noneHeld() {
    return eventually([&] { return gst_zc_pool_get_n_held(zc()) == 0; });
  }

  GstBufferPool *pool = nullptr;
  std::unique_ptr<lab::SwTimeline> timeline;
};

TEST_F(LabPool, WhatIsDoneComesBackAtOnce) {
  GstBuffer *buffer = acquire();
  addFence(buffer, *timeline, 1, Access::Read);
  ASSERT_TRUE(timeline->advance(1));
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  EXPECT_EQ(acquire(), buffer);
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_delayed(zc()), 0u);
}

TEST_F(LabPool, AReaderDelaysItUntilItsSignal) {
  for (const Access access : {Access::Read, Access::Write}) {
    GstBuffer *buffer = acquire();
    const BufferId id = idOf(buffer);
    addFence(buffer, *timeline, 1, access);
    gst_buffer_unref(buffer);
    EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u);
    GstBuffer *other = acquire();
    EXPECT_NE(idOf(other), id);
    ASSERT_TRUE(timeline->advance(1));
    ASSERT_TRUE(noneHeld());
    GstBuffer *again = acquire();
    EXPECT_EQ(idOf(again), id);
    gst_buffer_unref(again);
    gst_buffer_unref(other);
    // both come back in this order: the next turn starts with the same one
    timeline = std::make_unique<lab::SwTimeline>(lab::SwTimeline::create().take());
  }
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 2u);
  EXPECT_EQ(gst_zc_pool_get_n_delayed(zc()), 2u);
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 0u);
}

TEST_F(LabPool, TwoReadersAndAWriterAllHaveToBeDone) {
  auto second = lab::SwTimeline::create(), writer = lab::SwTimeline::create();
  ASSERT_TRUE(second && writer);
  GstBuffer *buffer = acquire();
  addFence(buffer, *timeline, 1, Access::Read);
  addFence(buffer, *second, 1, Access::Read);
  addFence(buffer, *writer, 1, Access::Write);
  gst_buffer_unref(buffer);
  for (lab::SwTimeline *done : {&*writer, &*second}) {
    ASSERT_TRUE(done->advance(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u) << "another still uses it";
  }
  ASSERT_TRUE(timeline->advance(1));
  EXPECT_TRUE(noneHeld());
  EXPECT_EQ(acquire(), buffer);
  gst_buffer_unref(buffer);
}

TEST_F(LabPool, OutOfOrderOverFourBuffers) {
  std::vector<GstBuffer *> buffers;
  std::vector<lab::SwTimeline> timelines;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(acquire());
    timelines.push_back(lab::SwTimeline::create().take());
    addFence(buffers.back(), timelines.back(), 1, Access::Read);
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 4u);
  guint held = 4;
  for (const size_t i : {2u, 0u, 3u, 1u}) {
    ASSERT_TRUE(timelines[i].advance(1));
    --held;
    ASSERT_TRUE(eventually([&] { return gst_zc_pool_get_n_held(zc()) == held; }));
    EXPECT_EQ(acquire(), buffers[i]);
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 4u);
}

TEST_F(LabPool, WhatNeverSignalsIsGivenUpAndThePoolGoesOn) {
  gst_zc_pool_set_fence_timeout(zc(), kShort);
  GstBuffer *buffer = acquire();
  const BufferId id = idOf(buffer);
  addFence(buffer, *timeline, 1, Access::Read);
  gst_buffer_unref(buffer);
  ASSERT_TRUE(noneHeld());
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 1u);
  for (int i = 0; i < 10; ++i) {
    GstBuffer *next = acquire();
    EXPECT_NE(idOf(next), id) << "the device may still read it";
    gst_buffer_unref(next);
  }
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 2u);
}

TEST_F(LabPool, AFailedDevicesBufferIsNotRecycled) {
  GstBuffer *buffer = acquire();
  addFence(buffer, *timeline, 1, Access::Read);
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u);
  timeline->close(); // its fences fail
  ASSERT_TRUE(noneHeld());
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 1u);
}

TEST_F(LabPool, StopAndFinalizeDoNotWait) {
  for (int i = 0; i < 3; ++i) {
    GstBuffer *buffer = acquire();
    addFence(buffer, *timeline, 1, Access::Read);
    gst_buffer_unref(buffer);
  }
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 3u);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(gst_buffer_pool_set_active(pool, FALSE));
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  GstBuffer *buffer = acquire();
  addFence(buffer, *timeline, 1, Access::Read);
  gst_buffer_unref(buffer);
  bool gone = false;
  g_object_weak_ref(G_OBJECT(pool), [](gpointer flag, GObject *) { *static_cast<bool *>(flag) = true; }, &gone);
  gst_clear_object(&pool);
  EXPECT_TRUE(gone);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::nanoseconds(GST_ZC_POOL_DEFAULT_FENCE_TIMEOUT))
      << "none of it waits for the fences";
}

// The static-pool rule with readers that lag behind: after the first frames nothing is allocated any more
TEST(LabPoolPipeline, LaggingReadersCostBuffersOnceNotPerFrame) {
  constexpr unsigned kFrames = 120, kLag = 3;
  Pipeline p("videotestsrc num-buffers=120 ! video/x-raw,format=NV12,width=64,height=48 ! "
             "dmabufupload name=up memory=udmabuf ! appsink name=sink sync=false max-buffers=1");
  auto made = lab::SwTimeline::create();
  ASSERT_TRUE(made) << made.error().message();
  lab::SwTimeline timeline = made.take();
  p.setState(GST_STATE_PLAYING);
  std::set<BufferId> buffers;
  for (uint32_t n = 1; n <= kFrames; ++n) {
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    ASSERT_TRUE(GST_IS_ZC_POOL(buffer->pool));
    auto *pool = GST_ZC_POOL(gst_object_ref(buffer->pool));
    buffers.insert(idOf(buffer));
    auto fence = timeline.fence(n); // a device that reads this frame, and is three frames behind
    ASSERT_TRUE(fence) << fence.error().message();
    ASSERT_TRUE(importFence(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0)), *fence, Access::Read));
    gst_sample_unref(sample);
    if (n > kLag) {
      ASSERT_TRUE(timeline.advance(1));
    }
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (gst_zc_pool_get_n_held(pool) > kLag && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(gst_zc_pool_get_n_held(pool), kLag) << n;
    gst_object_unref(pool);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_GE(p.stat("delayed"), kFrames - kLag);
  EXPECT_EQ(p.stat("discarded"), 0u);
  EXPECT_EQ(p.stat("copies"), 0u);
  EXPECT_LE(p.stat("pool-buffers"), kLag + 5u) << "the reader's, one more in its hands, the queue's, the producer's";
  EXPECT_EQ(buffers.size(), p.stat("pool-buffers"));
}

} // namespace
