// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

class HostGate : public testing::Test {
protected:
  std::vector<Fence> fences() {
    std::vector<Fence> one;
    one.push_back(fence.fence());
    return one;
  }
  // hold() in a thread of its own
  std::future<bool> held(StreamGate::Clock::time_point deadline, int name = 1) {
    return std::async(std::launch::async,
                      [this, deadline, name] { return gate->hold(nullptr, fences(), deadline, record.as(name)).ok(); });
  }
  FenceOutcome outcome(size_t i = 0) const { return record.ended().at(i).second.outcome; }

  FencePoller poller;
  Record record;
  EventSource fence;
  std::unique_ptr<StreamGate> gate = makeHostGate(poller);
};

TEST_F(HostGate, SleepsUntilTheFenceIsOver) {
  EXPECT_STREQ(gate->name(), "host");
  auto hold = held(notSoon());
  ASSERT_TRUE(eventually([&] { return gate->pending() == 1; }));
  EXPECT_EQ(hold.wait_for(kGlance), std::future_status::timeout);
  fence.signal();
  ASSERT_EQ(hold.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(hold.get());
  EXPECT_EQ(outcome(), FenceOutcome::Signalled);
  EXPECT_EQ(gate->pending(), 0u);
}

TEST_F(HostGate, ReturnsAtOnceWhereTheFenceIsOver) {
  fence.signal();
  EXPECT_TRUE(gate->hold(nullptr, fences(), notSoon(), record.as(1)));
  EXPECT_EQ(outcome(), FenceOutcome::Signalled);
  EXPECT_EQ(poller.counters().watched, 0u);
}

TEST_F(HostGate, SleepsNoLongerThanTheDeadline) {
  EXPECT_TRUE(gate->hold(nullptr, fences(), in(20ms), record.as(1)));
  EXPECT_EQ(outcome(), FenceOutcome::TimedOut);
}

TEST_F(HostGate, OpenEndsTheSleepAndOnlyThat) {
  auto hold = held(notSoon());
  ASSERT_TRUE(eventually([&] { return gate->pending() == 1; }));
  gate->open();
  ASSERT_EQ(hold.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(outcome(), FenceOutcome::Cancelled);
  EXPECT_EQ(record.ended()[0].second.error, ECANCELED);
  EXPECT_EQ(poller.counters().pending, 0u);
  auto next = held(notSoon(), 2);
  ASSERT_TRUE(eventually([&] { return gate->pending() == 1; }));
  fence.signal();
  ASSERT_EQ(next.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(outcome(1), FenceOutcome::Signalled);
}

TEST_F(HostGate, KeptOpenItDoesNotSleep) {
  auto hold = held(notSoon());
  ASSERT_TRUE(eventually([&] { return gate->pending() == 1; }));
  gate->keepOpen(true);
  ASSERT_EQ(hold.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(gate->hold(nullptr, fences(), notSoon(), record.as(2)));
  EXPECT_EQ(outcome(1), FenceOutcome::Cancelled);
}

TEST_F(HostGate, TellsOfAFailure) {
  fence.signal();
  std::vector<Fence> failed;
  failed.push_back(fence.fence([] { return EIO; }));
  EXPECT_TRUE(gate->hold(nullptr, std::move(failed), notSoon(), record.as(1)));
  EXPECT_EQ(outcome(), FenceOutcome::Failed);
  EXPECT_EQ(record.ended()[0].second.error, EIO);
}

} // namespace
