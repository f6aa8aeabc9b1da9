// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/retire_queue.h"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ext/cuda/sync/kept_for_good.h"
#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace std::chrono_literals;

namespace {

// Which releases were called, in their order.
class Released {
public:
  std::function<void()> as(int name) {
    return [this, name] {
      const std::lock_guard lock(mutex_);
      names_.push_back(name);
    };
  }
  std::vector<int> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }
  size_t size() const { return names().size(); }

private:
  mutable std::mutex mutex_;
  std::vector<int> names_;
};

class Retire : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (HasFatalFailure()) return;
    queue = need(RetireQueue::create(context));
    ASSERT_TRUE(queue);
  }

  Released released;
  std::unique_ptr<RetireQueue> queue;
};

TEST_F(Retire, ReleasesWhenTheDeviceIsDone) {
  Blocker blocker(context, stream.get());
  queue->retire(stream.get(), released.as(1));
  std::this_thread::sleep_for(kGlance);
  EXPECT_EQ(released.size(), 0u);
  EXPECT_EQ(queue->pending(), 1u);
  EXPECT_FALSE(queue->drain(1ms));
  blocker.release();
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released.names(), std::vector<int>{1});
  EXPECT_EQ(queue->pending(), 0u);
}

TEST_F(Retire, ReleasesInOrderAndOnce) {
  {
    const Blocker blocker(context, stream.get());
    for (int i = 0; i < 20; ++i) queue->retire(stream.get(), released.as(i));
  }
  EXPECT_TRUE(queue->drain(kPatience));
  std::this_thread::sleep_for(kGlance);
  ASSERT_EQ(released.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(released.names()[static_cast<size_t>(i)], i);
}

TEST_F(Retire, ReleasesOnAThreadWithoutAContextAndWithoutALock) {
  std::thread::id thread;
  CUcontext current = context->handle;
  size_t pending = 0;
  queue->retire(stream.get(), [&] {
    thread = std::this_thread::get_id();
    (*Driver::get())->cuCtxGetCurrent(&current);
    pending = queue->pending();
  });
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_NE(thread, std::thread::id());
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(pending, 1u);
}

TEST_F(Retire, AReleaseMayRetireAgain) {
  queue->retire(stream.get(), [&] {
    released.as(1)();
    queue->retire(other.get(), [&] {
      released.as(2)();
      queue->retire(stream.get(), released.as(3));
    });
  });
  ASSERT_TRUE(eventually([&] { return released.size() == 3; }));
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released.names(), (std::vector<int>{1, 2, 3}));
}

TEST_F(Retire, WhatAReleaseHoldsIsGoneWhenItCountsAsReleased) {
  const auto held = std::make_shared<int>(0);
  queue->retire(stream.get(), [held] {});
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Retire, AStreamThatIsDoneIsSeenBehindOneThatHangs) {
  const Blocker blocker(context, stream.get());
  queue->retire(stream.get(), released.as(1));
  queue->retire(other.get(), released.as(2));
  ASSERT_TRUE(eventually([&] { return released.size() == 1; })) << "the device is asked now and then";
  EXPECT_EQ(released.names(), std::vector<int>{2});
}

TEST_F(Retire, TheEndWaitsForTheDevice) {
  const size_t kept = KeptForGood::count();
  {
    const Blocker blocker(context, stream.get());
    queue->retire(stream.get(), released.as(1));
    std::thread later([&] {
      std::this_thread::sleep_for(kGlance);
      EXPECT_EQ(released.size(), 0u);
      blocker.release();
    });
    queue.reset();
    EXPECT_EQ(released.size(), 1u);
    later.join();
  }
  EXPECT_EQ(KeptForGood::count(), kept);
}

TEST_F(Retire, TheEndDoesNotWaitForEver) {
  const size_t kept = KeptForGood::count();
  queue = need(RetireQueue::create(context, 50ms));
  {
    const Blocker blocker(context, stream.get());
    for (int i = 0; i < 3; ++i) queue->retire(stream.get(), released.as(i));
    queue->retire(stream.get(), [&, ending = queue.get()] { ending->retire(stream.get(), released.as(3)); });
    queue.reset();
    EXPECT_EQ(released.names(), (std::vector<int>{0, 1, 2, 3})) << "released all the same";
  }
  std::this_thread::sleep_for(kGlance); // the device's calls come after all
  EXPECT_EQ(released.size(), 4u);
  EXPECT_EQ(KeptForGood::count(), kept + 1) << "what they count in outlived the queue";
}

TEST_F(Retire, OnALostDeviceEverythingIsReleasedOnce) {
  {
    const Blocker blocker(context, stream.get()); // nobody is called
    queue->retire(stream.get(), released.as(1));
    queue->retire(stream.get(), released.as(2));
    TestedDriver::loseDevice();
    ASSERT_TRUE(eventually([&] { return released.size() == 2; })) << "without anybody who asks";
    queue->retire(stream.get(), released.as(3));
    EXPECT_TRUE(queue->drain(kPatience));
  }
  ASSERT_TRUE(becomesIdle(context, stream.get())); // late calls
  std::this_thread::sleep_for(kGlance);
  queue.reset();
  EXPECT_EQ(released.names(), (std::vector<int>{1, 2, 3}));
}

TEST_F(Retire, WhicheverCallFailsOnceEverythingIsReleasedOnceAndNotEarly) {
  const size_t kept = KeptForGood::count();
  long nth = 1;
  for (; nth < 100; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " fails");
    Released seen;
    TestedDriver::reset();
    TestedDriver::failCall(nth);
    auto made = RetireQueue::create(context);
    if (!made) continue;
    {
      const Blocker blocker(context, stream.get());
      (*made)->retire(stream.get(), seen.as(1));
      (*made)->retire(stream.get(), seen.as(2));
      std::this_thread::sleep_for(kGlance);
      EXPECT_EQ(seen.size(), 0u) << "the device has the buffers";
    }
    EXPECT_TRUE((*made)->drain(kPatience));
    made->reset();
    EXPECT_EQ(seen.size(), 2u);
    if (!TestedDriver::hasFailed()) break;
  }
  EXPECT_LT(nth, 100);
  EXPECT_GE(nth, 9) << "the calls of creation and of two buffers";
  EXPECT_EQ(KeptForGood::count(), kept);
}

TEST_F(Retire, ADeviceThatGivesNoEventsIsWaitedFor) {
  for (const Fn function : {Fn::cuEventRecord, Fn::cuEventCreate, Fn::cuStreamWaitEvent, Fn::cuLaunchHostFunc}) {
    SCOPED_TRACE(static_cast<size_t>(function));
    Released seen;
    queue = need(RetireQueue::create(context));
    TestedDriver::failFunction(function, CUDA_ERROR_OUT_OF_MEMORY);
    {
      const Blocker blocker(context, stream.get());
      queue->retire(stream.get(), seen.as(1));
      std::this_thread::sleep_for(kGlance);
      EXPECT_EQ(seen.size(), 0u);
    }
    EXPECT_TRUE(queue->drain(kPatience));
    EXPECT_EQ(seen.size(), 1u);
    TestedDriver::reset();
  }
}

TEST_F(Retire, EventsAreUsedAgain) {
  for (int i = 0; i < 50; ++i) {
    queue->retire(stream.get(), released.as(i));
    EXPECT_TRUE(queue->drain(kPatience));
  }
  EXPECT_LE(TestedDriver::calls(Fn::cuEventCreate), 2);
}

TEST_F(Retire, ManyThreadsMayRetire) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Stream own = need(newStream(context));
      for (int i = 0; i < 100; ++i) queue->retire(own.get(), released.as(t));
      ASSERT_TRUE(becomesIdle(context, own.get()));
    });
  for (auto &thread : threads) thread.join();
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released.size(), 400u);
}

} // namespace
