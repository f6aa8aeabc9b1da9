// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cerrno>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <linux/udmabuf.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "ext/cuda/sync/stream_gate.h"
#include "gst/zerocopy/core/sync_file.h"
#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/signal.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

template <typename... E> std::vector<Fence> fencesOf(const E &...events) {
  std::vector<Fence> fences;
  (fences.push_back(events.fence()), ...);
  return fences;
}

class WordGate : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (HasFatalFailure()) return;
    gate = need(makeWordGate(context, poller));
    ASSERT_TRUE(gate);
    work = std::make_unique<Work>(context);
    TestedDriver::reset();
  }
  void hold(CUstream on, std::vector<Fence> fences, int name, StreamGate::Clock::time_point deadline = notSoon()) {
    const auto status = gate->hold(on, std::move(fences), deadline, record.as(name));
    EXPECT_TRUE(status) << (status ? "" : status.error().message());
  }
  FenceResult endOf(int name) const {
    for (const auto &[who, result] : record.ended())
      if (who == name) return result;
    ADD_FAILURE() << "nobody told how the fences of " << name << " ended";
    return {};
  }

  FencePoller poller;
  Record record;
  std::unique_ptr<Work> work; // after the gate: to free memory waits for what is held
  std::unique_ptr<StreamGate> gate;
};

TEST_F(WordGate, WorkRunsAfterTheFence) {
  Signal fence;
  work->setSource(1);
  hold(stream.get(), fencesOf(fence), 1);
  work->enqueue(stream.get());
  EXPECT_EQ(gate->pending(), 1u);
  std::this_thread::sleep_for(kGlance);
  EXPECT_FALSE(idle(context, stream.get()));
  EXPECT_EQ(record.size(), 0u);
  work->setSource(2);
  fence.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work->result(), 2u);
  ASSERT_EQ(record.size(), 1u) << "told before the device went on";
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Signalled);
  EXPECT_EQ(gate->pending(), 0u);
}

TEST_F(WordGate, FencesThatAreOverCostNoCallOfTheDevice) {
  Signal a, b;
  a.signal();
  b.signal();
  hold(stream.get(), fencesOf(a, b), 1);
  hold(stream.get(), {}, 2);
  EXPECT_EQ(TestedDriver::calls(), 0);
  EXPECT_EQ(poller.counters().watched, 0u);
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Signalled);
  EXPECT_EQ(endOf(2).outcome, FenceOutcome::Signalled);
  EXPECT_TRUE(idle(context, stream.get()));
}

TEST_F(WordGate, AllFencesOfAFrameCount) {
  Signal a, b;
  hold(stream.get(), fencesOf(a, b), 1);
  work->enqueue(stream.get());
  b.signal();
  std::this_thread::sleep_for(kGlance);
  EXPECT_FALSE(idle(context, stream.get()));
  work->setSource(5);
  a.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work->result(), 5u);
}

TEST_F(WordGate, AFenceThatSignalsEarlyReleasesNoFrameBeforeIt) {
  Signal first, second;
  Work later(context);
  hold(stream.get(), fencesOf(first), 1);
  work->enqueue(stream.get());
  hold(other.get(), fencesOf(second), 2);
  later.enqueue(other.get());
  later.setSource(20);
  second.signal();
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].first, 2);
  std::this_thread::sleep_for(kGlance);
  EXPECT_FALSE(idle(context, stream.get()));
  work->setSource(10);
  first.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()) && becomesIdle(context, other.get()));
  EXPECT_EQ(work->result(), 10u);
  EXPECT_EQ(later.result(), 20u);
}

TEST_F(WordGate, TheDeadlinePassesAndIsTold) {
  Signal never;
  hold(stream.get(), fencesOf(never), 1, in(20ms));
  work->enqueue(stream.get());
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(endOf(1).error, ETIMEDOUT);
}

TEST_F(WordGate, AFrameWhoseFencesFailedPassesAndItIsTold) {
  Signal bad, good;
  Pipe gone;
  std::vector<Fence> fences;
  fences.push_back(bad.fence([] { return EIO; }));
  fences.push_back(good.fence());
  hold(stream.get(), std::move(fences), 1);
  std::vector<Fence> hangs;
  hangs.push_back({Fence::Kind::Event, std::move(gone.reader), {}});
  hold(stream.get(), std::move(hangs), 2);
  work->enqueue(stream.get());
  bad.signal();
  gone.writer.reset();
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(endOf(2).outcome, FenceOutcome::Failed);
  EXPECT_EQ(endOf(2).error, EPIPE);
  EXPECT_FALSE(idle(context, stream.get())) << "the good fence's device may be writing";
  good.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Failed);
  EXPECT_EQ(endOf(1).error, EIO);
}

// What has no sync_file of its own fails as one; what is over as one is over for all kinds.
TEST_F(WordGate, TakesFencesOfSeveralKinds) {
  EventSource event, none;
  std::vector<Fence> fences = fencesOf(event);
  fences.push_back({Fence::Kind::SyncFile, UniqueFd::duplicate(none.fd()), {}}); // pending until it is readable
  fences.push_back({Fence::Kind::DmaBufReady, UniqueFd::duplicate(event.fd()), {}});
  hold(stream.get(), std::move(fences), 1);
  work->enqueue(stream.get());
  event.signal();
  std::this_thread::sleep_for(kGlance);
  EXPECT_FALSE(idle(context, stream.get()));
  none.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Failed);
  EXPECT_EQ(endOf(1).error, ENOTTY) << "an eventfd is no sync_file";
}

TEST_F(WordGate, TakesASyncFileOfTheKernel) {
  const UniqueFd device(open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!device.isValid()) GTEST_SKIP() << "no /dev/udmabuf: there is no dma-buf to export a sync_file from";
  const UniqueFd memfd(memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(memfd.get(), 4096), 0);
  ASSERT_EQ(fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  udmabuf_create request = {static_cast<uint32_t>(memfd.get()), UDMABUF_FLAGS_CLOEXEC, 0, 4096};
  const UniqueFd dmabuf(ioctl(device.get(), UDMABUF_CREATE, &request));
  ASSERT_TRUE(dmabuf.isValid());
  auto idle_fence = exportFence(dmabuf.get(), Access::Read);
  if (!idle_fence) GTEST_SKIP() << idle_fence.error().message();
  EventSource event;
  std::vector<Fence> fences = fencesOf(event);
  fences.push_back({Fence::Kind::SyncFile, UniqueFd(idle_fence->release()), {}});
  hold(stream.get(), std::move(fences), 1);
  work->enqueue(stream.get());
  event.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Signalled);
}

TEST_F(WordGate, OpenPassesEverythingAndHoldsWhatComesLater) {
  Signal never, later;
  hold(stream.get(), fencesOf(never), 1);
  hold(other.get(), fencesOf(never), 2);
  work->enqueue(stream.get());
  gate->open();
  ASSERT_TRUE(becomesIdle(context, stream.get()) && becomesIdle(context, other.get()));
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Cancelled);
  EXPECT_EQ(endOf(2).outcome, FenceOutcome::Cancelled);
  hold(stream.get(), fencesOf(later), 3);
  work->enqueue(stream.get());
  std::this_thread::sleep_for(kGlance);
  EXPECT_FALSE(idle(context, stream.get()));
  work->setSource(9);
  later.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work->result(), 9u);
}

TEST_F(WordGate, KeptOpenItHoldsNothing) {
  Signal never;
  gate->keepOpen(true);
  hold(stream.get(), fencesOf(never), 1);
  EXPECT_EQ(endOf(1).outcome, FenceOutcome::Cancelled);
  EXPECT_EQ(TestedDriver::calls(), 0);
  gate->keepOpen(false);
  hold(stream.get(), fencesOf(never), 2);
  EXPECT_EQ(gate->pending(), 1u);
}

// Deadlines are far away: a teardown that waited for one would not end in time.
TEST_F(WordGate, ItsEndPassesWhateverIsPending) {
  const size_t before = openFds();
  Signal never;
  for (int i = 0; i < 8; ++i) hold(i % 2 == 0 ? stream.get() : other.get(), fencesOf(never), i);
  work->enqueue(stream.get());
  const auto begin = std::chrono::steady_clock::now();
  gate.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "200 ms are promised; a busy machine gets more";
  ASSERT_TRUE(becomesIdle(context, stream.get()) && becomesIdle(context, other.get()));
  ASSERT_EQ(record.size(), 8u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(endOf(i).outcome, FenceOutcome::Cancelled) << i;
  EXPECT_EQ(poller.counters().pending, 0u);
  EXPECT_LE(openFds(), before + 4) << "the poller's three, and the fence's";
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), 1) << "the word's page was given back";
}

// To free pinned memory may wait for all that the context does.
TEST_F(WordGate, ItsEndDoesNotWaitForAnotherGate) {
  Signal never;
  auto second = need(makeWordGate(context, poller));
  EXPECT_TRUE(second->hold(other.get(), fencesOf(never), notSoon(), record.as(1)));
  gate.reset();
  EXPECT_EQ(record.size(), 0u);
  EXPECT_FALSE(idle(context, other.get()));
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), 0) << "both have their word in one page";
  second.reset();
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), 1);
  ASSERT_TRUE(becomesIdle(context, other.get()));
}

TEST_F(WordGate, TheWordWrapsAround) {
  gate = need(makeWordGate(context, poller, std::numeric_limits<uint32_t>::max() - 4));
  ASSERT_TRUE(gate);
  std::vector<Signal> fences(10);
  std::vector<std::unique_ptr<Work>> works;
  for (size_t i = 0; i < fences.size(); ++i) {
    works.push_back(std::make_unique<Work>(context));
    hold(stream.get(), fencesOf(fences[i]), static_cast<int>(i));
    works[i]->enqueue(stream.get());
  }
  std::vector<size_t> order = {4, 2, 0, 1, 9, 3, 5, 7, 8, 6}; // passes the end of the numbers in both ways
  for (const size_t i : order) {
    works[i]->setSource(static_cast<uint32_t>(100 + i));
    fences[i].signal();
    std::this_thread::sleep_for(2ms);
  }
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  for (size_t i = 0; i < works.size(); ++i) EXPECT_EQ(works[i]->result(), 100 + i);
}

TEST_F(WordGate, IsToldBeforeTheDeviceGoesOn) {
  Signal fence;
  work->setSource(3);
  std::atomic<bool> early = false;
  ASSERT_TRUE(gate->hold(stream.get(), fencesOf(fence), notSoon(), [&](const FenceResult &) {
    std::this_thread::sleep_for(20ms);
    early = work->result() == 3;
  }));
  work->enqueue(stream.get());
  fence.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work->result(), 3u);
  EXPECT_FALSE(early);
}

TEST_F(WordGate, AFenceThatCannotBeWatchedIsAnError) {
  std::vector<UniqueFd> nest; // deeper than epoll may wait for
  nest.emplace_back(epoll_create1(EPOLL_CLOEXEC));
  for (;;) {
    UniqueFd outer(epoll_create1(EPOLL_CLOEXEC));
    epoll_event inner = {};
    inner.events = EPOLLIN;
    if (epoll_ctl(outer.get(), EPOLL_CTL_ADD, nest.back().get(), &inner) != 0) break;
    nest.push_back(std::move(outer));
  }
  Signal good;
  std::vector<Fence> fences = fencesOf(good);
  fences.push_back({Fence::Kind::Event, UniqueFd::duplicate(nest.back().get()), {}});
  EXPECT_FALSE(gate->hold(stream.get(), std::move(fences), notSoon(), record.as(1)));
  EXPECT_EQ(TestedDriver::calls(), 0);
  EXPECT_EQ(poller.counters().pending, 0u);
  hold(stream.get(), fencesOf(good), 2);
  good.signal();
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(record.size(), 1u);
}

TEST_F(WordGate, NeedsStreamMemoryOperations) {
  EXPECT_STREQ(gate->name(), "stream-wait-value");
  EXPECT_STREQ(makeStreamGate(context, poller)->name(), "stream-wait-value");

  Driver without = TestedDriver::driver();
  without.cuStreamWaitValue32 = nullptr;
  const ContextPtr old = testContext(without);
  const auto none = makeWordGate(old, poller);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOSYS);
  EXPECT_STREQ(makeStreamGate(old, poller)->name(), "host");

  TestedDriver::failFunction(Fn::cuStreamWaitValue32, CUDA_ERROR_NOT_SUPPORTED);
  const auto refused = makeWordGate(context, poller);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSYS);
  EXPECT_FALSE(refused.error().remedy.empty());
  EXPECT_STREQ(makeStreamGate(context, poller)->name(), "host");
}

} // namespace
