// SPDX-License-Identifier: LGPL-2.1-or-later
// Each wait of ext/cuda/sync is needed: left out, something runs too early, and that shows.
#include "ext/cuda/sync/wait_points.h"

#include <atomic>
#include <cstdlib>
#include <future>

#include <gtest/gtest.h>
#include <poll.h>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/pinned_words.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/routes/pictures.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/signal.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;
using std::chrono::milliseconds;

namespace {

TEST(WaitPoints, AreLeftOutByNameAndCounted) {
  const size_t before = timesReached("export-host");
  EXPECT_TRUE(waitPoint("export-host"));
  {
    const WithoutWait without("export-host");
    EXPECT_FALSE(waitPoint("export-host"));
    EXPECT_TRUE(waitPoint("export-copy"));
  }
  EXPECT_TRUE(waitPoint("export-host"));
  setenv("GSTZC_SKIP_WAIT", "export-host", 1);
  EXPECT_FALSE(waitPoint("export-host"));
  EXPECT_TRUE(waitPoint("export-copy"));
  unsetenv("GSTZC_SKIP_WAIT");
  EXPECT_TRUE(waitPoint("export-host"));
  EXPECT_EQ(timesReached("export-host"), before + 5);
  EXPECT_EQ(timesReached("of-nobody"), 0u);
}

class SyncMutations : public DeviceTest {
protected:
  // A frame of which the fence signals when its pixels are there: does the device's copy have them?
  bool framesAreRight(milliseconds patience) {
    FencePoller poller;
    auto gate = need(makeWordGate(context, poller));
    Work work(context);
    Signal fence;
    std::vector<Fence> fences;
    fences.push_back(fence.fence());
    work.setSource(1);
    EXPECT_TRUE(gate->hold(stream.get(), std::move(fences), notSoon(), {}));
    work.enqueue(stream.get());
    becomesIdle(context, stream.get(), patience);
    work.setSource(2);
    fence.signal();
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    return work.result() == 2;
  }
};

TEST_F(SyncMutations, TheWaitForTheWord) {
  expectNoticed("word-gate-wait", [this](milliseconds patience) { return framesAreRight(patience); });
}

TEST_F(SyncMutations, TheWayFromTheGateToTheWork) {
  expectNoticed("gate-to-work", [this](milliseconds patience) { return framesAreRight(patience); });
}

TEST_F(SyncMutations, TheSleepOfTheHostGate) {
  expectNoticed("host-gate-wait", [](milliseconds patience) {
    FencePoller poller;
    const auto gate = makeHostGate(poller);
    Signal fence;
    auto hold = std::async(std::launch::async, [&] {
      std::vector<Fence> fences;
      fences.push_back(fence.fence());
      return gate->hold(nullptr, std::move(fences), notSoon(), {}).ok();
    });
    const bool early = hold.wait_for(patience) == std::future_status::ready;
    fence.signal();
    EXPECT_TRUE(hold.get());
    return !early;
  });
}

TEST_F(SyncMutations, TheRetireQueuesWaitForTheWork) {
  expectNoticed("retire-event", [this](milliseconds patience) {
    std::atomic<bool> released = false;
    auto queue = need(RetireQueue::create(context));
    bool early = false;
    {
      const Blocker blocker(context, stream.get());
      queue->retire(stream.get(), [&] { released = true; });
      early = eventually([&] { return released.load(); }, patience);
    }
    EXPECT_TRUE(queue->drain(kPatience));
    EXPECT_TRUE(released);
    return !early;
  });
}

TEST_F(SyncMutations, TheRetireQueuesEndWaitsForTheDevice) {
  expectNoticed("retire-drain", [this](milliseconds patience) {
    std::atomic<bool> released = false;
    auto queue = need(RetireQueue::create(context, kPatience));
    std::future<void> ended;
    bool early = false;
    {
      const Blocker blocker(context, stream.get());
      queue->retire(stream.get(), [&] { released = true; });
      ended = std::async(std::launch::async, [&] { queue.reset(); });
      early = eventually([&] { return released.load(); }, patience);
    }
    ended.get();
    EXPECT_TRUE(released);
    return !early;
  });
}

// The word that the device still looks at is not given to the next gate.
TEST_F(SyncMutations, TheEndOfAGateWaitsForTheDevice) {
  constexpr uint32_t kFirst = 100;
  const auto page = need(PinnedWord::take(context, 0)); // of which the gate has another word
  expectNoticed("word-drained", [this](milliseconds) {
    FencePoller poller;
    auto gate = need(makeWordGate(context, poller, kFirst));
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    SOFTCUDA(softcuda_set_delay_us)(20'000);
    Signal fence;
    std::vector<Fence> fences;
    fences.push_back(fence.fence());
    EXPECT_TRUE(gate->hold(stream.get(), std::move(fences), notSoon(), {}));
    gate.reset(); // lets pass
    auto word = need(PinnedWord::take(context, 0));
    const bool passed = becomesIdle(context, stream.get(), milliseconds(3000));
    word.store(kFirst + 1);
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    SOFTCUDA(softcuda_reset)();
    return passed;
  });
}

// A driver that waits before it frees, so that what is left out is the one wait.
const Driver &waitingDriver() {
  static const Driver driver = [] {
    Driver made = TestedDriver::driver();
    made.cuMemFreeHost = [](void *memory) {
      (*Driver::get())->cuCtxSynchronize();
      return (*Driver::get())->cuMemFreeHost(memory);
    };
    return made;
  }();
  return driver;
}

TEST_F(SyncMutations, WhatIsReadBackIsComparedWhenItIsThere) {
  const Picture picture(nv12(1920, 1080, 1920));
  const ContextPtr waiting = testContext(waitingDriver());
  const auto import = need(makeHostRegisterRoute(waiting)->import(picture.source));
  ASSERT_NE(import, nullptr);
  expectNoticed("content-read", [&](milliseconds) {
    SOFTCUDA(softcuda_set_delay_us)(20'000);
    const auto check = checkContent(*waiting, picture.source, *import);
    SOFTCUDA(softcuda_reset)();
    EXPECT_TRUE(check.ok());
    return check.ok() && check->verdict == ContentVerdict::Same;
  });
}

TEST_F(SyncMutations, WhatIsReadBackWasBroughtToTheDevice) {
  const Picture picture(nv12(1920, 1080, 1920));
  expectNoticed("content-refresh", [&](milliseconds) {
    const auto import = need(makeStagedCopyRoute(context)->import(picture.source));
    const auto check = checkContent(*context, picture.source, *import);
    EXPECT_TRUE(check.ok());
    return check.ok() && check->verdict == ContentVerdict::Same;
  });
}

TEST_F(SyncMutations, TheWaitForAnEventsDescriptor) {
  expectNoticed("event-fd", [this](milliseconds patience) {
    auto source = need(cuda::EventSource::create(context));
    const Blocker blocker(context, stream.get());
    GstZcDeviceEvent *event = need(source->record(stream.get(), nullptr));
    const UniqueFd fd(gst_zc_device_event_make_fd(event));
    gst_zc_device_event_unref(event);
    pollfd request = {fd.get(), POLLIN, 0};
    return poll(&request, 1, static_cast<int>(patience.count())) == 0;
  });
}

TEST_F(SyncMutations, TheWaitOfAConsumersStreamForTheProducersEvent) {
  expectNoticed("event-to-stream", [this](milliseconds patience) {
    auto source = need(cuda::EventSource::create(context));
    Work work(context);
    work.setSource(1);
    {
      const Blocker producer(context, stream.get());
      GstZcDeviceEvent *event = need(source->record(stream.get(), nullptr));
      Status status = Nothing{};
      EXPECT_TRUE(waitForCudaEvent(*context, other.get(), event, &status));
      EXPECT_TRUE(status);
      gst_zc_device_event_unref(event);
      work.enqueue(other.get());
      becomesIdle(context, other.get(), patience);
      work.setSource(2);
    }
    EXPECT_TRUE(becomesIdle(context, other.get()));
    return work.result() == 2;
  });
}

} // namespace
