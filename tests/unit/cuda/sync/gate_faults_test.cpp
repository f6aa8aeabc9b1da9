// SPDX-License-Identifier: LGPL-2.1-or-later
// The gate on a device that refuses: whichever call fails, nothing waits for ever and nobody is told twice.
#include <cerrno>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;

namespace {

std::vector<Fence> one(const EventSource &event) {
  std::vector<Fence> fences;
  fences.push_back(event.fence());
  return fences;
}

class GateFaults : public DeviceTest {
protected:
  FencePoller poller;
};

TEST_F(GateFaults, EachCallOnceFromTheBeginning) {
  long nth = 1;
  int refused = 0;
  for (; nth < 100; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " fails");
    const Work first(context), second(context);
    TestedDriver::reset();
    TestedDriver::failCall(nth);
    auto made = makeWordGate(context, poller);
    if (!made) {
      ++refused;
      EXPECT_NE(made.error().what, "");
      continue;
    }
    auto gate = made.take();
    EventSource a, b;
    Record record;
    const bool held_a = gate->hold(stream.get(), one(a), notSoon(), record.as(1)).ok();
    first.enqueue(stream.get());
    const bool held_b = gate->hold(other.get(), one(b), notSoon(), record.as(2)).ok();
    second.enqueue(other.get());
    const bool failed = TestedDriver::hasFailed();
    if (!held_a || !held_b) ++refused;
    EXPECT_TRUE(held_a || held_b) << "one call fails";
    if (held_a) a.signal();
    ASSERT_TRUE(becomesIdle(context, stream.get())) << "without a hold it does not wait, with one the fence is over";
    if (held_b) b.signal();
    ASSERT_TRUE(becomesIdle(context, other.get())) << "whatever became of the hold before";
    ASSERT_TRUE(record.reaches(size_t{held_a} + size_t{held_b}));
    for (const auto &[name, result] : record.ended()) EXPECT_EQ(result.outcome, FenceOutcome::Signalled) << name;
    EXPECT_EQ(gate->pending(), 0u);
    gate.reset();
    EXPECT_EQ(record.size(), size_t{held_a} + size_t{held_b}) << "once each, and never of a hold that failed";
    if (!failed && !TestedDriver::hasFailed()) break; // there are no more calls
  }
  EXPECT_EQ(KeptForGood::clear(), 0u);
  EXPECT_LT(nth, 100);
  EXPECT_GE(refused, 9) << "the calls of creation and of two holds";
}

TEST_F(GateFaults, ALostDeviceRefusesAndTheGateEnds) {
  auto gate = need(makeWordGate(context, poller));
  EventSource a, b;
  Record record;
  ASSERT_TRUE(gate->hold(stream.get(), one(a), notSoon(), record.as(1)));
  TestedDriver::loseDevice();
  const auto status = gate->hold(stream.get(), one(b), notSoon(), record.as(2));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EIO) << status.error().message();
  gate.reset();
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Cancelled);
  EXPECT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(KeptForGood::clear(), 1u) << "who knows whether the device still looks at the word";
}

// On a machine that has other things to do: its word stays until the device has seen that everything has passed, and
// nobody waits for that.
TEST_F(GateFaults, ADeviceThatIsSlowToNoticeGetsItsTimeBehindTheBack) {
  auto gate = need(makeWordGate(context, poller));
  EventSource a;
  Record record;
  ASSERT_TRUE(gate->hold(stream.get(), one(a), notSoon(), record.as(1)));
  a.signal();
  ASSERT_TRUE(record.reaches(1));
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  TestedDriver::failFunction(Fn::cuStreamQuery, CUDA_ERROR_NOT_READY);
  gate.reset();
  const long asked = TestedDriver::calls(Fn::cuStreamDestroy);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(TestedDriver::calls(Fn::cuStreamDestroy), asked) << "the device may still look at the word";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  TestedDriver::failFunction(Fn::kCount, CUDA_SUCCESS);
  for (int i = 0; i < 1000 && TestedDriver::calls(Fn::cuStreamDestroy) == asked; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(TestedDriver::calls(Fn::cuStreamDestroy), asked + 1);
  EXPECT_EQ(KeptForGood::clear(), 0u);
}

} // namespace
