// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/fence_poller.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

// Soft limit of descriptors as long as the object lives
class DescriptorLimit {
public:
  explicit DescriptorLimit(rlim_t at_most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit = {std::min(at_most, before_.rlim_max), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit &) = delete;
  DescriptorLimit &operator=(const DescriptorLimit &) = delete;

private:
  rlimit before_ = {};
};

// Sum of a numeric line of /proc over the threads of all pollers of the process
uint64_t ofPollerThreads(const std::string &key, int base = 10) {
  uint64_t sum = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) name = line.substr(line.find_last_of('\t') + 1);
      if (name == "gstzc-fences" && line.starts_with(key + ":"))
        sum += std::stoull(line.substr(key.size() + 1), nullptr, base);
    }
  }
  return sum;
}

// ---- one fence ----

TEST(FencePoller, SignalledBeforeTheWait) {
  Record record;
  FencePoller poller; // its end may call back
  EventSource event;
  event.signal();
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(1)));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled);
  EXPECT_EQ(record.ended()[0].second.error, 0);
}

TEST(FencePoller, SignalledAfterTheWaitBegan) {
  Record record;
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(1)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 0u);
  const uint64_t before = nanoseconds(FencePoller::Clock::now());
  event.signal();
  ASSERT_TRUE(record.reaches(1));
  const FenceResult result = record.ended()[0].second;
  EXPECT_EQ(result.outcome, FenceOutcome::Signalled);
  EXPECT_GE(result.time_ns, before);
  EXPECT_LE(result.time_ns, nanoseconds(FencePoller::Clock::now()));
}

TEST(FencePoller, NeverSignalledEndsAtItsDeadline) {
  Record record;
  FencePoller poller;
  EventSource event;
  const auto deadline = in(30ms);
  ASSERT_TRUE(poller.watch(event.fence(), deadline, record.as(1)));
  ASSERT_TRUE(record.reaches(1));
  const FenceResult result = record.ended()[0].second;
  EXPECT_EQ(result.outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(result.error, ETIMEDOUT);
  EXPECT_GE(result.time_ns, nanoseconds(deadline));
  event.signal();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 1u) << "called once";
}

TEST(FencePoller, DeadlineInThePastGivesOneLook) {
  for (const auto deadline : {in(-1h), FencePoller::Clock::time_point(), FencePoller::Clock::time_point::min()}) {
    Record record;
    FencePoller poller;
    EventSource pending, over;
    over.signal();
    ASSERT_TRUE(poller.watch(pending.fence(), deadline, record.as(1)));
    ASSERT_TRUE(poller.watch(over.fence(), deadline, record.as(2)));
    ASSERT_TRUE(record.reaches(2));
    for (const auto &[name, result] : record.ended())
      EXPECT_EQ(result.outcome, name == 1 ? FenceOutcome::TimedOut : FenceOutcome::Signalled);
  }
}

TEST(FencePoller, TheLastTimePointIsNoDeadline) {
  Record record;
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), FencePoller::Clock::time_point::max(), record.as(1)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 0u);
  event.signal();
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled);
}

TEST(FencePoller, StatusOfAnEventIsAskedWhenItIsReadable) {
  Record record;
  FencePoller poller;
  EventSource good, bad;
  std::atomic<int> asked = 0;
  const auto answer = [&](int code) {
    return [&asked, &poller, code] {
      ++asked;
      poller.counters(); // no lock is held
      return code;
    };
  };
  ASSERT_TRUE(poller.watch(good.fence(answer(0)), notSoon(), record.as(0)));
  ASSERT_TRUE(poller.watch(bad.fence(answer(EIO)), notSoon(), record.as(EIO)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(asked, 0);
  good.signal();
  bad.signal();
  ASSERT_TRUE(record.reaches(2));
  EXPECT_EQ(asked, 2);
  for (const auto &[code, result] : record.ended()) {
    EXPECT_EQ(result.outcome, code == 0 ? FenceOutcome::Signalled : FenceOutcome::Failed);
    EXPECT_EQ(result.error, code);
  }
}

TEST(FencePoller, StatusIsAskedWithoutALockAtTheDeadlineToo) {
  Record record;
  FencePoller poller;
  EventSource event;
  // the poller's thread is busy until both are true: signalled, and past the deadline
  Record blocker;
  EventSource first;
  std::promise<void> release;
  ASSERT_TRUE(poller.watch(first.fence(), notSoon(), [&](const FenceResult &result) {
    blocker.as(0)(result);
    release.get_future().wait();
  }));
  first.signal();
  ASSERT_TRUE(blocker.reaches(1));
  ASSERT_TRUE(
      poller.watch(event.fence([&] { return poller.counters().pending == 0 ? EIO : EBUSY; }), in(-1ms), record.as(0)));
  event.signal();
  release.set_value();
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.error, EIO) << "it came in time";
}

TEST(FencePoller, HangUpIsAFailureUnlessSomethingCameBefore) {
  Record record;
  FencePoller poller;
  Pipe silent, spoken;
  ASSERT_EQ(write(spoken.writer.get(), "x", 1), 1);
  ASSERT_TRUE(
      poller.watch({Fence::Kind::Event, UniqueFd::duplicate(silent.reader.get()), {}}, notSoon(), record.as(EPIPE)));
  spoken.writer.reset();
  silent.writer.reset();
  ASSERT_TRUE(record.reaches(1));
  ASSERT_TRUE(
      poller.watch({Fence::Kind::Event, UniqueFd::duplicate(spoken.reader.get()), {}}, notSoon(), record.as(0)));
  ASSERT_TRUE(record.reaches(2));
  for (const auto &[code, result] : record.ended()) {
    EXPECT_EQ(result.error, code);
    EXPECT_EQ(result.outcome, code ? FenceOutcome::Failed : FenceOutcome::Signalled);
  }
}

TEST(FencePoller, DmaBufKindsWaitForReadingAndForWriting) {
  Record record;
  FencePoller poller;
  Pipe pipe;
  pipe.fill();
  ASSERT_TRUE(
      poller.watch({Fence::Kind::DmaBufIdle, UniqueFd::duplicate(pipe.writer.get()), {}}, notSoon(), record.as(1)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 0u);
  pipe.drain();
  ASSERT_TRUE(record.reaches(1));
  ASSERT_TRUE(
      poller.watch({Fence::Kind::DmaBufReady, UniqueFd::duplicate(pipe.reader.get()), {}}, notSoon(), record.as(2)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 1u);
  ASSERT_EQ(write(pipe.writer.get(), "x", 1), 1);
  ASSERT_TRUE(record.reaches(2));
  for (const auto &[name, result] : record.ended()) EXPECT_EQ(result.outcome, FenceOutcome::Signalled) << name;
}

TEST(FencePoller, WhatIsNoSyncFileFailsWhenItIsReadable) {
  Record record;
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch({Fence::Kind::SyncFile, UniqueFd::duplicate(event.fd()), {}}, notSoon(), record.as(1)));
  event.signal();
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Failed);
  EXPECT_EQ(record.ended()[0].second.error, ENOTTY);
}

// ---- what cannot be waited for ----

TEST(FencePoller, BadDescriptorsAreRefusedWithTheirErrno) {
  Record record;
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(0))); // its thread and descriptors are there
  const size_t before = openFds();
  const auto refusal = [&](int fd) {
    auto id = poller.watch({Fence::Kind::Event, UniqueFd(fd), {}}, notSoon(), record.as(1));
    return id ? 0 : id.error().code;
  };
  EXPECT_EQ(refusal(-1), EBADF);
  EXPECT_EQ(refusal(100000), EBADF) << "nothing is open under that number";
  EXPECT_EQ(refusal(memfd_create("a", MFD_CLOEXEC)), EPERM);
  EXPECT_EQ(refusal(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), EPERM);
  EXPECT_EQ(refusal(open("/dev/null", O_RDWR | O_CLOEXEC)), EPERM);
  EXPECT_EQ(openFds(), before);
  EXPECT_EQ(record.size(), 0u);
  EXPECT_EQ(poller.counters().pending, 1u);
}

TEST(FencePoller, NoDescriptorsLeftIsAnErrorAndLaterThereAreSome) {
  Record record;
  FencePoller poller;
  EventSource event;
  Fence fence = event.fence(), again = event.fence();
  {
    const DescriptorLimit none(static_cast<rlim_t>(again.fd.get()) + 1);
    auto id = poller.watch(std::move(fence), notSoon(), record.as(1));
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().code, EMFILE);
  }
  ASSERT_TRUE(poller.watch(std::move(again), notSoon(), record.as(1)));
  event.signal();
  EXPECT_TRUE(record.reaches(1));
}

TEST(FencePoller, FenceNow) {
  EventSource event;
  EXPECT_FALSE(fenceNow(event.fence()));
  EXPECT_EQ(fenceNow(event.fence([] { return EIO; })), std::nullopt) << "not asked while pending";
  event.signal();
  EXPECT_EQ(fenceNow(event.fence())->outcome, FenceOutcome::Signalled);
  EXPECT_EQ(fenceNow(event.fence([] { return EIO; }))->error, EIO);
  EXPECT_EQ(fenceNow(Fence{})->error, EBADF);
  EXPECT_EQ(fenceNow(Fence::Kind::Event, 100000)->error, EBADF);
  EXPECT_EQ(fenceNow(Fence::Kind::SyncFile, event.fd())->error, ENOTTY);
  UniqueFd memory(memfd_create("a", MFD_CLOEXEC));
  EXPECT_EQ(fenceNow(Fence::Kind::DmaBufReady, memory.get())->outcome, FenceOutcome::Signalled);
  EXPECT_EQ(fenceNow(Fence::Kind::SyncFile, memory.get())->error, ENOTTY);
  Pipe pipe;
  EXPECT_FALSE(fenceNow(Fence::Kind::DmaBufReady, pipe.reader.get()));
  pipe.writer.reset();
  EXPECT_EQ(fenceNow(Fence::Kind::DmaBufReady, pipe.reader.get())->error, EPIPE);
}

// ---- order ----

TEST(FencePoller, CallbacksComeInTheOrderOfTheSignals) {
  Record record;
  FencePoller poller;
  EventSource events[4];
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(poller.watch(events[i].fence(), notSoon(), record.as(i)));
  const int order[] = {2, 0, 3, 1};
  for (size_t n = 0; n < 4; ++n) {
    events[order[n]].signal();
    ASSERT_TRUE(record.reaches(n + 1));
    EXPECT_EQ(record.ended()[n].first, order[n]);
  }
}

TEST(FencePoller, EachWaitHasItsDeadline) {
  Record record;
  FencePoller poller;
  EventSource event;
  std::vector<int> order(50);
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> added = order;
  std::shuffle(added.begin(), added.end(), std::mt19937(1));
  const auto start = in(20ms);
  for (const int i : added) ASSERT_TRUE(poller.watch(event.fence(), start + i * 1ms, record.as(i)));
  ASSERT_TRUE(record.reaches(50));
  const auto ended = record.ended();
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(ended[i].first, order[i]);
    EXPECT_EQ(ended[i].second.outcome, FenceOutcome::TimedOut);
    EXPECT_GE(ended[i].second.time_ns, nanoseconds(start + ended[i].first * 1ms));
  }
}

TEST(FencePoller, AnEarlierDeadlineDoesNotWaitForALaterOne) {
  Record record;
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(1)));
  ASSERT_TRUE(poller.watch(event.fence(), in(20ms), record.as(2)));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].first, 2);
  EXPECT_EQ(poller.counters().pending, 1u);
}

TEST(FencePoller, ADeadlineAfterACancelledOneIsKept) {
  Record record;
  FencePoller poller;
  EventSource event;
  auto first = poller.watch(event.fence(), in(10ms), record.as(1));
  ASSERT_TRUE(first);
  ASSERT_TRUE(poller.watch(event.fence(), in(40ms), record.as(2)));
  ASSERT_TRUE(poller.cancel(*first));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].first, 2);
}

TEST(FencePoller, WaitsAgainWithAPastDeadlineLeaveRoomForFences) {
  Record record;
  FencePoller poller;
  EventSource never, event;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> rounds = 0;
  FencePoller::Callback again = [&](const FenceResult &result) {
    ++rounds;
    if (stop)
      record.as(2)(result);
    else if (!poller.watch(never.fence(), in(-1s), again))
      ADD_FAILURE();
  };
  ASSERT_TRUE(poller.watch(never.fence(), in(-1s), again));
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(1)));
  while (rounds < 3) std::this_thread::yield();
  event.signal();
  EXPECT_TRUE(record.reaches(1));
  stop = true;
  EXPECT_TRUE(record.reaches(2));
}

// ---- cancelling ----

TEST(FencePoller, CancelledBeforeItsSignalIsNeverCalled) {
  Record record;
  FencePoller poller;
  EventSource event;
  auto id = poller.watch(event.fence(), in(20ms), record.as(1));
  ASSERT_TRUE(id);
  EXPECT_TRUE(poller.cancel(*id));
  EXPECT_FALSE(poller.cancel(*id)) << "it is over";
  event.signal();
  std::this_thread::sleep_for(40ms);
  EXPECT_EQ(record.size(), 0u);
  EXPECT_EQ(poller.counters().cancelled, 1u);
  EXPECT_EQ(poller.counters().pending, 0u);
}

TEST(FencePoller, CancelAfterTheCallbackSaysSo) {
  Record record;
  FencePoller poller;
  EventSource event;
  event.signal();
  auto id = poller.watch(event.fence(), notSoon(), record.as(1));
  ASSERT_TRUE(id && record.reaches(1));
  EXPECT_FALSE(poller.cancel(*id));
}

TEST(FencePoller, CancelOfNoWaitReturnsAtOnce) {
  FencePoller poller;
  for (const FencePoller::WaitId id : {0u, 1u, 2u, 12345u}) EXPECT_FALSE(poller.cancel(id)) << id;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), [](const FenceResult &) {}));
  for (const FencePoller::WaitId id : {0u, 1u, 12345u}) EXPECT_FALSE(poller.cancel(id)) << id;
}

TEST(FencePoller, CancelDuringTheCallbackWaitsForItsEnd) {
  FencePoller poller;
  EventSource event;
  std::promise<void> begun, release;
  std::atomic<bool> ended = false;
  auto id = poller.watch(event.fence(), notSoon(), [&](const FenceResult &) {
    begun.set_value();
    release.get_future().wait();
    std::this_thread::sleep_for(20ms);
    ended = true;
  });
  ASSERT_TRUE(id);
  event.signal();
  begun.get_future().wait();
  auto cancelled = std::async(std::launch::async, [&] {
    const bool in_time = poller.cancel(*id);
    EXPECT_TRUE(ended);
    return in_time;
  });
  EXPECT_EQ(cancelled.wait_for(20ms), std::future_status::timeout);
  release.set_value();
  EXPECT_FALSE(cancelled.get());
}

TEST(FencePoller, CancelFromCallbacks) {
  Record record;
  FencePoller poller;
  EventSource first, second;
  std::promise<FencePoller::WaitId> own;
  auto other = poller.watch(second.fence(), notSoon(), record.as(2));
  ASSERT_TRUE(other);
  bool own_cancelled = true, other_cancelled = false;
  auto id = poller.watch(first.fence(), notSoon(), [&](const FenceResult &result) {
    own_cancelled = poller.cancel(own.get_future().get());
    other_cancelled = poller.cancel(*other);
    record.as(1)(result);
  });
  ASSERT_TRUE(id);
  own.set_value(*id);
  second.signal(); // may be seen in the same call of epoll_wait()
  first.signal();
  ASSERT_TRUE(record.reaches(1));
  std::this_thread::sleep_for(20ms);
  if (record.ended()[0].first == 1) {
    EXPECT_TRUE(other_cancelled);
    EXPECT_EQ(record.size(), 1u);
  } else {
    ASSERT_TRUE(record.reaches(2));
    EXPECT_FALSE(other_cancelled);
  }
  EXPECT_FALSE(own_cancelled) << "it is being called";
}

TEST(FencePoller, WhatACallbackHoldsIsGoneWhenCancelReturns) {
  FencePoller poller;
  EventSource event;
  auto held = std::make_shared<int>(0);
  auto id = poller.watch(event.fence(), notSoon(), [held](const FenceResult &) {});
  ASSERT_TRUE(id);
  EXPECT_EQ(held.use_count(), 2);
  EXPECT_TRUE(poller.cancel(*id));
  EXPECT_EQ(held.use_count(), 1);
  for (int i = 0; i < 200; ++i) {
    auto raced = poller.watch(event.fence(), notSoon(), [held](const FenceResult &) {});
    event.signal();
    poller.cancel(*raced);
    EXPECT_EQ(held.use_count(), 1);
    uint64_t count;
    ASSERT_EQ(read(event.fd(), &count, sizeof count), ssize_t{sizeof count});
  }
}

TEST(FencePoller, CancelWaitsForTheEndOfWhatTheCallbackHolds) {
  struct Slow {
    std::atomic<bool> &gone;
    explicit Slow(std::atomic<bool> &flag) : gone(flag) {}
    ~Slow() {
      std::this_thread::sleep_for(50ms);
      gone = true;
    }
  };
  FencePoller poller;
  EventSource event;
  std::atomic<bool> gone = false;
  std::promise<void> called;
  auto id = poller.watch(event.fence(), notSoon(),
                         [&called, held = std::make_shared<Slow>(gone)](const FenceResult &) { called.set_value(); });
  ASSERT_TRUE(id);
  event.signal();
  called.get_future().wait();
  EXPECT_FALSE(poller.cancel(*id));
  EXPECT_TRUE(gone);
}

TEST(FencePoller, WatchFromCallbacks) {
  Record record;
  FencePoller poller;
  EventSource event;
  event.signal();
  int left = 100;
  FencePoller::Callback next = [&](const FenceResult &result) {
    if (--left == 0)
      record.as(1)(result);
    else if (!poller.watch(event.fence(), notSoon(), next))
      ADD_FAILURE();
  };
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), next));
  EXPECT_TRUE(record.reaches(1));
  EXPECT_EQ(poller.counters().signalled, 100u);
}

// ---- the end ----

TEST(FencePoller, ShutdownEndsWhatIsPendingAndCallsNobodyLater) {
  Record record;
  EventSource events[100];
  {
    FencePoller poller;
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(poller.watch(events[i].fence(), in(50ms), record.as(i)));
  }
  EXPECT_EQ(record.size(), 100u);
  for (const auto &[name, result] : record.ended()) {
    EXPECT_EQ(result.outcome, FenceOutcome::Cancelled) << name;
    EXPECT_EQ(result.error, ECANCELED);
  }
  for (const EventSource &event : events) event.signal();
  std::this_thread::sleep_for(70ms);
  EXPECT_EQ(record.size(), 100u);
}

TEST(FencePoller, ShutdownRefusesFurtherWaits) {
  EventSource event;
  Record record;
  {
    FencePoller poller;
    ASSERT_TRUE(poller.watch(event.fence(), notSoon(), [&](const FenceResult &result) {
      auto id = poller.watch(event.fence(), notSoon(), record.as(2));
      EXPECT_EQ(id ? 0 : id.error().code, ECANCELED);
      record.as(1)(result);
    }));
  }
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].first, 1);
}

TEST(FencePoller, ShutdownWithoutAWaitOrAThread) {
  const size_t before = openFds();
  {
    FencePoller poller;
  }
  EXPECT_EQ(openFds(), before);
}

// ---- many ----

TEST(FencePoller, ThousandsOfFencesAreCalledOnceEach) {
  const DescriptorLimit many(20000);
  constexpr size_t kFences = 4000;
  std::vector<EventSource> events(kFences);
  if (events.back().fd() < 0) GTEST_SKIP() << "this process may not have " << kFences << " descriptors";
  Record record;
  FencePoller poller;
  for (size_t i = 0; i < kFences; ++i) {
    Fence fence = events[i].fence();
    if (!fence.fd.isValid()) GTEST_SKIP() << "this process may not have " << 2 * kFences << " descriptors";
    ASSERT_TRUE(poller.watch(std::move(fence), notSoon(), record.as(static_cast<int>(i))));
  }
  std::vector<size_t> order(kFences);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  const auto half = [&](size_t parity) {
    for (size_t i = parity; i < kFences; i += 2) events[order[i]].signal();
  };
  std::thread other(half, 1);
  half(0);
  other.join();
  ASSERT_TRUE(record.reaches(kFences));
  std::vector<int> names;
  for (const auto &[name, result] : record.ended()) {
    names.push_back(name);
    EXPECT_EQ(result.outcome, FenceOutcome::Signalled);
  }
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i < kFences; ++i) EXPECT_EQ(names[i], static_cast<int>(i));
}

TEST(FencePoller, DescriptorsStayFlatOverAHundredThousandWaits) {
  FencePoller poller;
  EventSource event;
  std::atomic<size_t> ended = 0;
  size_t before = 0;
  constexpr size_t kBatch = 100, kBatches = 1000;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    std::vector<FencePoller::WaitId> ids;
    if (batch % 4 == 0) event.signal();
    for (size_t i = 0; i < kBatch; ++i) {
      // the four ways to end: signalled before, cancelled, timed out, and either of the first two
      const auto deadline = batch % 4 == 2 ? in(-1ms) : notSoon();
      auto id = poller.watch(event.fence(), deadline, [&](const FenceResult &) { ++ended; });
      ASSERT_TRUE(id);
      ids.push_back(*id);
    }
    if (batch % 4 == 3) event.signal();
    if (batch % 4 == 1 || batch % 4 == 3)
      for (const FencePoller::WaitId id : ids) ended += poller.cancel(id);
    while (ended < kBatch * (batch + 1)) std::this_thread::yield();
    if (batch % 4 == 0 || batch % 4 == 3) {
      uint64_t count;
      ASSERT_EQ(read(event.fd(), &count, sizeof count), ssize_t{sizeof count});
    }
    if (batch == 0) before = openFds();
  }
  EXPECT_EQ(ended, kBatch * kBatches);
  const FencePoller::Counters counters = poller.counters();
  EXPECT_EQ(counters.watched, kBatch * kBatches);
  EXPECT_EQ(counters.signalled + counters.cancelled + counters.timed_out, kBatch * kBatches);
  EXPECT_EQ(counters.timed_out, kBatch * kBatches / 4);
  EXPECT_EQ(counters.failed, 0u);
  EXPECT_EQ(counters.pending, 0u);
  EXPECT_LE(openFds(), before + 1) << "the last wait's own may still be closing";
}

TEST(FencePoller, ManyThreadsWatchSignalAndCancelAtOnce) {
  FencePoller poller;
  std::atomic<size_t> called = 0, cancelled = 0;
  constexpr size_t kThreads = 4, kRounds = 2000;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (size_t i = 0; i < kRounds; ++i) {
        EventSource event;
        auto state = std::make_shared<std::atomic<int>>(0);
        const bool early = random() % 2;
        if (early) event.signal();
        auto id = poller.watch(event.fence(), random() % 3 == 0 ? in(1us * (random() % 100)) : notSoon(),
                               [state, &called](const FenceResult &) {
                                 EXPECT_EQ((*state)++, 0);
                                 ++called;
                               });
        ASSERT_TRUE(id);
        if (!early) event.signal();
        const bool in_time = poller.cancel(*id);
        cancelled += in_time;
        EXPECT_EQ(*state, in_time ? 0 : 1) << "called, or cancelled: one of both, for good";
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(called + cancelled, kThreads * kRounds);
  EXPECT_EQ(poller.counters().pending, 0u);
}

TEST(FencePoller, SleepsWhileNothingSignals) {
  EventSource events[64];
  Record record;
  FencePoller poller;
  for (const EventSource &event : events) ASSERT_TRUE(poller.watch(event.fence(), notSoon(), record.as(1)));
  std::this_thread::sleep_for(100ms); // it has gone to sleep
  const uint64_t before = ofPollerThreads("voluntary_ctxt_switches");
  ASSERT_GT(before, 0u);
  const uint64_t forced = ofPollerThreads("nonvoluntary_ctxt_switches");
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(ofPollerThreads("voluntary_ctxt_switches"), before);
  EXPECT_EQ(ofPollerThreads("nonvoluntary_ctxt_switches"), forced);
  events[0].signal();
  ASSERT_TRUE(record.reaches(1));
  std::this_thread::sleep_for(100ms);
  EXPECT_GT(ofPollerThreads("voluntary_ctxt_switches"), before) << "this is how a wake-up looks";
}

TEST(FencePoller, LeavesSignalsToTheApplication) {
  FencePoller poller;
  EventSource event;
  ASSERT_TRUE(poller.watch(event.fence(), notSoon(), [](const FenceResult &) {}));
  const uint64_t blocked = ofPollerThreads("SigBlk", 16);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
    EXPECT_NE(blocked & (1ull << (signal - 1)), 0u) << signal;
  sigset_t own;
  pthread_sigmask(SIG_BLOCK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1)) << "only its thread";
}

TEST(FencePoller, OfTheProcessIsOne) { EXPECT_EQ(&FencePoller::process(), &FencePoller::process()); }

} // namespace
