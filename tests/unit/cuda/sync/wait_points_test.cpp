// SPDX-License-Identifier: LGPL-2.1-or-later
// Each wait of ext/cuda/sync is needed: left out, something runs too early, and that shows.
#include "ext/cuda/sync/wait_points.h"

#include <atomic>
#include <cstdlib>
#include <future>

#include <gtest/gtest.h>
#include <poll.h>

#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/signal.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;
using std::chrono::milliseconds;

namespace {

TEST(WaitPoints, AreLeftOutByNameAndCounted) {
  const size_t before = timesReached("of-nothing");
  EXPECT_TRUE(waitPoint("of-nothing"));
  {
    const WithoutWait without("of-nothing");
    EXPECT_FALSE(waitPoint("of-nothing"));
    EXPECT_TRUE(waitPoint("of-something"));
  }
  EXPECT_TRUE(waitPoint("of-nothing"));
  setenv("GSTZC_SKIP_WAIT", "of-nothing", 1);
  EXPECT_FALSE(waitPoint("of-nothing"));
  EXPECT_TRUE(waitPoint("of-something"));
  unsetenv("GSTZC_SKIP_WAIT");
  EXPECT_TRUE(waitPoint("of-nothing"));
  EXPECT_EQ(timesReached("of-nothing"), before + 5);
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
