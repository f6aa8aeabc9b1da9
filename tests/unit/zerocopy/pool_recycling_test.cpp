// SPDX-License-Identifier: LGPL-2.1-or-later
// When GstZcPool hands a released buffer out again: not before the devices are done with it.
#include "gst/zerocopy/gstzcpool.h"

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "tests/support/event_memory.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr auto kPatience = std::chrono::seconds(10);

bool eventually(const std::function<bool()> &condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Recycling : public testing::Test {
protected:
  void SetUp() override {
    allocator = newEventAllocator();
    pool = gst_zc_pool_new(allocator, 0);
    g_object_weak_ref(G_OBJECT(pool), [](gpointer gone, GObject *) { *static_cast<bool *>(gone) = true; }, &pool_gone);
    configure(0, 0);
  }
  void TearDown() override {
    if (pool != nullptr) gst_buffer_pool_set_active(pool, FALSE);
    gst_clear_object(&pool);
    gst_clear_object(&allocator);
    EXPECT_TRUE(pool_gone);
    EXPECT_EQ(alive, 0);
  }
  GstZcPool *zc() { return GST_ZC_POOL(pool); }
  void configure(guint min, guint max) {
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=48");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, 0, min, max);
    gst_buffer_pool_config_set_allocator(config, allocator, nullptr);
    ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
    gst_caps_unref(caps);
  }
  GstBuffer *acquire() {
    GstBuffer *buffer = nullptr;
    gst_buffer_pool_set_active(pool, TRUE);
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    return watched(buffer);
  }
  GstBuffer *watched(GstBuffer *buffer) {
    if (buffer == nullptr) return nullptr;
    GstMiniObject *memory = GST_MINI_OBJECT_CAST(gst_buffer_peek_memory(buffer, 0));
    static GQuark seen = g_quark_from_static_string("test-seen");
    if (gst_mini_object_get_qdata(memory, seen) == nullptr) {
      ++alive;
      gst_mini_object_set_qdata(memory, seen, &alive, [](gpointer n) { --*static_cast<std::atomic<int> *>(n); });
    }
    return buffer;
  }
  // releases it while a device uses it; a descriptor of the test's own, to end that
  UniqueFd releaseBusy(GstBuffer *buffer) {
    UniqueFd event = UniqueFd::duplicate(eventOf(buffer));
    setBusy(event.get());
    gst_buffer_unref(buffer);
    return event;
  }

  GstAllocator *allocator = nullptr;
  GstBufferPool *pool = nullptr;
  bool pool_gone = false;
  std::atomic<int> alive{0}; // memories that were handed out
};

TEST_F(Recycling, IdleBuffersComeBackAtOnce) {
  GstBuffer *buffer = acquire();
  gst_buffer_unref(buffer);
  EXPECT_EQ(acquire(), buffer);
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 1u);
  EXPECT_EQ(gst_zc_pool_get_n_delayed(zc()), 0u);
}

TEST_F(Recycling, BusyBuffersComeBackWhenTheirReadersAreDone) {
  GstBuffer *first = acquire();
  const UniqueFd event = releaseBusy(first);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u);
  GstBuffer *second = acquire();
  EXPECT_NE(second, first);
  setIdle(event.get());
  ASSERT_TRUE(eventually([&] { return gst_zc_pool_get_n_held(zc()) == 0; }));
  GstBuffer *third = acquire();
  EXPECT_EQ(third, first) << "recycled";
  EXPECT_NE(gst_buffer_get_video_meta(third), nullptr);
  gst_buffer_unref(second);
  gst_buffer_unref(third);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 2u);
  EXPECT_EQ(gst_zc_pool_get_n_delayed(zc()), 1u);
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 0u);
}

TEST_F(Recycling, OutOfOrder) {
  configure(0, 4);
  std::vector<GstBuffer *> buffers;
  std::vector<UniqueFd> events;
  for (int i = 0; i < 4; ++i) buffers.push_back(acquire());
  for (GstBuffer *buffer : buffers) events.push_back(releaseBusy(buffer));
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 4u);
  for (const size_t i : {2u, 0u, 3u, 1u}) {
    setIdle(events[i].get());
    EXPECT_EQ(acquire(), buffers[i]) << "waits for this one, the others are held";
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 4u);
}

TEST_F(Recycling, NeverDoneIsGivenUpAtTheDeadlineAndThePoolGoesOn) {
  gst_zc_pool_set_fence_timeout(zc(), 30 * GST_MSECOND);
  configure(0, 1);
  const UniqueFd event = releaseBusy(acquire());
  GstBuffer *next = acquire(); // the maximum is one: waits for the other to go
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 1u);
  EXPECT_EQ(alive, 1) << "freed, not recycled";
  gst_buffer_unref(next);
  EXPECT_EQ(acquire(), next);
  gst_buffer_unref(next);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 2u);
}

TEST_F(Recycling, WhoWaitsAtTheMaximumGetsTheBufferThatComesBack) {
  configure(0, 1);
  GstBuffer *buffer = acquire();
  const UniqueFd event = releaseBusy(buffer);
  GstBufferPoolAcquireParams params = {};
  params.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  GstBuffer *none = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &none, &params), GST_FLOW_EOS);
  GstBuffer *got = nullptr;
  std::thread waiter([&] { gst_buffer_pool_acquire_buffer(pool, &got, nullptr); });
  setIdle(event.get());
  waiter.join();
  EXPECT_EQ(got, buffer);
  gst_buffer_unref(got);
}

TEST_F(Recycling, FlushingLetsTheWaiterGo) {
  configure(0, 1);
  const UniqueFd event = releaseBusy(acquire());
  GstFlowReturn flow = GST_FLOW_OK;
  std::thread waiter([&] {
    GstBuffer *got = nullptr;
    flow = gst_buffer_pool_acquire_buffer(pool, &got, nullptr);
  });
  gst_buffer_pool_set_flushing(pool, TRUE);
  waiter.join();
  EXPECT_EQ(flow, GST_FLOW_FLUSHING);
  gst_buffer_pool_set_flushing(pool, FALSE);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u) << "a flush does not end a device's work";
}

TEST_F(Recycling, StopTakesAllBackAtOnce) {
  const UniqueFd a = releaseBusy(acquire()), b = releaseBusy(acquire());
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 2u);
  EXPECT_TRUE(gst_buffer_pool_set_active(pool, FALSE));
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  EXPECT_EQ(alive, 0);
  setIdle(a.get()); // nobody waits for it any more
  GstBuffer *again = acquire();
  ASSERT_NE(again, nullptr) << "it can be started again";
  gst_buffer_unref(again);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 3u);
}

TEST_F(Recycling, APoolThatIsGivenUpGoesWithItsHeldBuffers) {
  const UniqueFd event = releaseBusy(acquire());
  gst_clear_object(&pool); // active
  EXPECT_TRUE(pool_gone) << "a pending fence does not keep it";
  EXPECT_EQ(alive, 0);
  setIdle(event.get());
}

TEST_F(Recycling, TheLastBufferOfAStoppedPoolIsNotHeld) {
  GstBuffer *outstanding = acquire();
  const UniqueFd held = releaseBusy(acquire());
  EXPECT_TRUE(gst_buffer_pool_set_active(pool, FALSE)) << "stops for good with its last buffer";
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 1u);
  const UniqueFd last = releaseBusy(outstanding);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  EXPECT_EQ(alive, 0);
}

TEST_F(Recycling, BuffersWithOtherMemoryAreFreedAsEver) {
  GstBuffer *buffer = acquire();
  setBusy(eventOf(buffer));
  gst_buffer_replace_all_memory(buffer, gst_allocator_alloc(nullptr, 64 * 48, nullptr));
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  EXPECT_EQ(alive, 0);

  buffer = acquire();
  GstBuffer *other = gst_buffer_new(); // which somebody keeps
  gst_buffer_append_memory(other, gst_buffer_get_memory(buffer, 0));
  gst_buffer_unref(buffer);
  buffer = acquire();
  EXPECT_NE(gst_buffer_peek_memory(buffer, 0), gst_buffer_peek_memory(other, 0));
  gst_buffer_unref(buffer);
  gst_buffer_unref(other);
}

TEST_F(Recycling, ABufferThatCannotBeAskedIsNotRecycled) {
  GstBuffer *buffer = acquire();
  close(eventOf(buffer)); // as if somebody else had
  gst_buffer_unref(buffer);
  EXPECT_EQ(gst_zc_pool_get_n_discarded(zc()), 1u);
  EXPECT_EQ(alive, 0);
}

TEST_F(Recycling, PreallocatedBuffersAreNotHeld) {
  configure(3, 3);
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  EXPECT_EQ(gst_zc_pool_get_n_allocated(zc()), 3u);
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
}

// Everything at once: users, devices that come to an end early, late or never, and a pool that is switched off and on.
TEST_F(Recycling, UsersDevicesAndStopsTogether) {
  gst_zc_pool_set_fence_timeout(zc(), 5 * GST_MSECOND);
  gst_buffer_pool_set_active(pool, TRUE);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed)
    threads.emplace_back([&, seed] {
      std::minstd_rand random(seed + 1);
      for (int i = 0; i < 3000; ++i) {
        GstBuffer *buffer = nullptr;
        if (gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr) != GST_FLOW_OK) {
          std::this_thread::yield();
          continue;
        }
        const UniqueFd event = UniqueFd::duplicate(eventOf(buffer));
        if (random() % 2 != 0) setBusy(event.get());
        gst_buffer_unref(buffer);
        if (random() % 8 != 0) setIdle(event.get());
      }
    });
  std::thread switcher([&] {
    while (!done) {
      gst_buffer_pool_set_active(pool, FALSE);
      gst_buffer_pool_set_active(pool, TRUE);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread &thread : threads) thread.join();
  done = true;
  switcher.join();
  EXPECT_TRUE(gst_buffer_pool_set_active(pool, FALSE));
  EXPECT_EQ(gst_zc_pool_get_n_held(zc()), 0u);
  EXPECT_GT(gst_zc_pool_get_n_delayed(zc()), 0u);
}

} // namespace
