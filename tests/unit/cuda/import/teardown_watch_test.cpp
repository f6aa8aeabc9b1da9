// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/teardown_watch.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

using namespace gstzc;
using namespace gstzc::cuda;

namespace {

constexpr auto kLong = std::chrono::seconds(30);

class Teardown : public testing::Test {
protected:
  Teardown() : pipeline(gst_pipeline_new(nullptr)), bin(gst_bin_new(nullptr)) {
    gst_object_ref_sink(pipeline);
    element = gst_element_factory_make("identity", nullptr);
    gst_bin_add(GST_BIN(bin), element);
    gst_bin_add(GST_BIN(pipeline), bin);
  }
  ~Teardown() override {
    gst_element_set_locked_state(element, FALSE);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
  }
  // As the pipeline is while its sinks are being stopped.
  static void aim(GstElement *e, GstState current, GstState target) {
    GST_OBJECT_LOCK(e);
    GST_STATE(e) = current;
    GST_STATE_TARGET(e) = target;
    GST_OBJECT_UNLOCK(e);
  }
  GstElement *pipeline, *bin, *element;
};

TEST_F(Teardown, IsSeenFromInside) {
  EXPECT_FALSE(goesDown(element));
  aim(element, GST_STATE_PLAYING, GST_STATE_PLAYING);
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_PLAYING);
  EXPECT_FALSE(goesDown(element));
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_PAUSED);
  EXPECT_FALSE(goesDown(element)) << "frames stay in a pause";
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_NULL);
  EXPECT_TRUE(goesDown(element));
  aim(pipeline, GST_STATE_PAUSED, GST_STATE_READY);
  EXPECT_TRUE(goesDown(element));
  aim(pipeline, GST_STATE_READY, GST_STATE_READY);
  EXPECT_FALSE(goesDown(element)) << "what somebody else set to playing inside of it";
}

TEST_F(Teardown, OfAPipelineIsNotThatOfAnElementWithAStateOfItsOwn) {
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_NULL);
  gst_element_set_locked_state(element, TRUE);
  EXPECT_FALSE(goesDown(element));
}

TEST_F(Teardown, IsToldWhileSomethingIsPending) {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> pending{true};
  std::atomic<int> looks{0};
  bool told = false;
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_PLAYING);
  TeardownWatch watch(
      element,
      [&] {
        ++looks;
        changed.notify_all();
        return pending.load();
      },
      [&] {
        const std::lock_guard lock(mutex);
        told = true;
        pending = false;
        changed.notify_all();
      });
  watch.arm();
  watch.arm(); // once is enough
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, kLong, [&] { return looks > 2; }));
  EXPECT_FALSE(told);
  aim(pipeline, GST_STATE_PLAYING, GST_STATE_NULL);
  EXPECT_TRUE(changed.wait_for(lock, kLong, [&] { return told; }));
}

TEST_F(Teardown, IsNotLookedForWhenNothingIsPending) {
  std::atomic<int> looks{0};
  TeardownWatch watch(
      element,
      [&] {
        ++looks;
        return false;
      },
      [] { ADD_FAILURE(); });
  for (int i = 1; i <= 2; ++i) { // and can be armed again
    watch.arm();
    for (int ms = 0; looks < i && ms < 30'000; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(looks, i);
    for (int ms = 0; FencePoller::process().counters().pending > 0 && ms < 30'000; ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
}

TEST_F(Teardown, WatchEndsWithItsObject) {
  for (int i = 0; i < 50; ++i) {
    auto watch = std::make_unique<TeardownWatch>(element, [] { return true; }, [] {});
    watch->arm();
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
}

} // namespace
