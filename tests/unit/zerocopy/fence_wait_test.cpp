// SPDX-License-Identifier: LGPL-2.1-or-later
// The fences of a frame, waited for together (FenceWait of fence_poller.h).
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

std::vector<Fence> fencesOf(std::initializer_list<const EventSource *> events) {
  std::vector<Fence> fences;
  for (const EventSource *event : events) fences.push_back(event->fence());
  return fences;
}

TEST(FenceWait, IsOverAtOnceWhereNothingIsPending) {
  FencePoller poller;
  EventSource a, b;
  a.signal();
  b.signal();
  std::atomic<int> resolved = 0;
  auto none = FenceWait::start({}, notSoon(), [&] { ++resolved; }, poller);
  auto both = FenceWait::start(fencesOf({&a, &b}), notSoon(), [&] { ++resolved; }, poller);
  ASSERT_TRUE(none && both);
  ASSERT_TRUE((*none)->result() && (*both)->result());
  EXPECT_EQ((*none)->result()->outcome, FenceOutcome::Signalled);
  EXPECT_EQ((*both)->result()->outcome, FenceOutcome::Signalled);
  EXPECT_NE((*both)->result()->time_ns, 0u);
  EXPECT_EQ(resolved, 0);
  EXPECT_EQ(poller.counters().watched, 0u);
}

TEST(FenceWait, EndsWithTheLastFence) {
  FencePoller poller;
  EventSource a, b, over;
  over.signal();
  std::promise<void> resolved;
  auto wait = FenceWait::start(fencesOf({&a, &over, &b}), notSoon(), [&] { resolved.set_value(); }, poller);
  ASSERT_TRUE(wait);
  b.signal();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE((*wait)->result());
  const uint64_t before = nanoseconds(FencePoller::Clock::now());
  a.signal();
  ASSERT_EQ(resolved.get_future().wait_for(30s), std::future_status::ready);
  ASSERT_TRUE((*wait)->result());
  EXPECT_EQ((*wait)->result()->outcome, FenceOutcome::Signalled);
  EXPECT_GE((*wait)->result()->time_ns, before) << "of the last";
}

TEST(FenceWait, AFailureDecidesWhenTheOthersAreOverToo) {
  FencePoller poller;
  EventSource bad, good;
  bad.signal();
  std::vector<Fence> fences = fencesOf({&good});
  fences.push_back(bad.fence([] { return EIO; }));
  std::promise<void> resolved;
  auto wait = FenceWait::start(std::move(fences), notSoon(), [&] { resolved.set_value(); }, poller);
  ASSERT_TRUE(wait);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE((*wait)->result()) << "its device may be writing";
  good.signal();
  ASSERT_EQ(resolved.get_future().wait_for(30s), std::future_status::ready);
  EXPECT_EQ((*wait)->result()->outcome, FenceOutcome::Failed);
  EXPECT_EQ((*wait)->result()->error, EIO);
}

TEST(FenceWait, ADeadlineIsWorseThanAFailure) {
  FencePoller poller;
  EventSource bad, never;
  bad.signal();
  std::vector<Fence> fences = fencesOf({&never});
  fences.push_back(bad.fence([] { return EIO; }));
  std::promise<void> resolved;
  auto wait = FenceWait::start(std::move(fences), in(20ms), [&] { resolved.set_value(); }, poller);
  ASSERT_TRUE(wait);
  ASSERT_EQ(resolved.get_future().wait_for(30s), std::future_status::ready);
  EXPECT_EQ((*wait)->result()->outcome, FenceOutcome::TimedOut);
  EXPECT_EQ((*wait)->result()->error, ETIMEDOUT);
}

TEST(FenceWait, BadDescriptorsAreResults) {
  FencePoller poller;
  std::vector<Fence> fences;
  fences.push_back(Fence{});
  auto wait = FenceWait::start(std::move(fences), notSoon(), {}, poller);
  ASSERT_TRUE(wait);
  ASSERT_TRUE((*wait)->result());
  EXPECT_EQ((*wait)->result()->error, EBADF);
}

TEST(FenceWait, AFenceThatCannotBeWaitedForEndsTheOthersWaits) {
  FencePoller poller;
  EventSource event;
  std::vector<UniqueFd> nest; // deeper than epoll may wait for
  nest.emplace_back(epoll_create1(EPOLL_CLOEXEC));
  for (;;) {
    UniqueFd outer(epoll_create1(EPOLL_CLOEXEC));
    epoll_event inner = {};
    inner.events = EPOLLIN;
    if (epoll_ctl(outer.get(), EPOLL_CTL_ADD, nest.back().get(), &inner) != 0) break;
    nest.push_back(std::move(outer));
  }
  std::vector<Fence> fences = fencesOf({&event});
  fences.push_back({Fence::Kind::Event, UniqueFd::duplicate(nest.back().get()), {}});
  std::atomic<int> resolved = 0;
  auto wait = FenceWait::start(std::move(fences), notSoon(), [&] { ++resolved; }, poller);
  EXPECT_FALSE(wait);
  EXPECT_EQ(poller.counters().pending, 0u);
  event.signal();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(resolved, 0);
}

TEST(FenceWait, DestroyedWhilePendingItCallsNobody) {
  FencePoller poller;
  EventSource a, b;
  std::atomic<int> resolved = 0;
  auto held = std::make_shared<int>(0);
  {
    auto wait = FenceWait::start(fencesOf({&a, &b}), notSoon(), [&resolved, held] { ++resolved; }, poller);
    ASSERT_TRUE(wait);
    a.signal();
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(held.use_count(), 1) << "what its callback held is gone";
  b.signal();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(resolved, 0);
  EXPECT_EQ(poller.counters().pending, 0u);
}

TEST(FenceWait, DestroyedWhileItResolvesItWaitsForTheEnd) {
  FencePoller poller;
  for (int i = 0; i < 300; ++i) {
    EventSource a, b;
    std::atomic<int> begun = 0, ended = 0;
    auto wait = FenceWait::start(
        fencesOf({&a, &b}), notSoon(),
        [&] {
          ++begun;
          std::this_thread::yield();
          ++ended;
        },
        poller);
    ASSERT_TRUE(wait);
    a.signal();
    b.signal();
    if (i % 3) std::this_thread::sleep_for(10us * i);
    wait->reset();
    EXPECT_EQ(begun, ended);
  }
}

TEST(FenceWait, MayBeDestroyedByItsOwnCallback) {
  FencePoller poller;
  EventSource event;
  std::unique_ptr<FenceWait> wait;
  std::promise<void> stored, over;
  auto held = std::make_shared<int>(7);
  auto started = FenceWait::start(
      fencesOf({&event}), notSoon(),
      [&, held] {
        stored.get_future().wait();
        wait.reset();
        EXPECT_EQ(*held, 7) << "the callback outlives its wait";
        over.set_value();
      },
      poller);
  ASSERT_TRUE(started);
  wait = started.take();
  stored.set_value();
  event.signal();
  ASSERT_EQ(over.get_future().wait_for(30s), std::future_status::ready);
}

} // namespace
