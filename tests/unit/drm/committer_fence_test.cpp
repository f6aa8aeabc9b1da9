// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that wait for their fences in the committer. The fences are eventfds; FrameFate and order are what counts.
#include "gst/drm/committer.h"

#include <atomic>

#include "tests/support/open_fds.h"
#include "tests/unit/drm/committer_fixture.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

// Ends when the test says so, with an errno or without.
class FakeFence {
public:
  Fence fence() const {
    return {Fence::Kind::Event, UniqueFd::duplicate(event_.get()), [error = error_] { return error->load(); }};
  }
  void signal(int error = 0) {
    *error_ = error;
    const uint64_t one = 1;
    ASSERT_EQ(write(event_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

private:
  UniqueFd event_{eventfd(0, EFD_CLOEXEC)};
  std::shared_ptr<std::atomic<int>> error_ = std::make_shared<std::atomic<int>>(0);
};

struct Fences : CommitterTest {
  std::shared_ptr<DisplayFrame> fenced(uint64_t pts, const FakeFence &fence, std::shared_ptr<void> keep = nullptr,
                                       GstZcOnFenceError policy = GST_ZC_ON_FENCE_ERROR_DROP) {
    auto f = frame(pts, std::move(keep));
    f->fences.push_back(fence.fence());
    f->fence_timeout = 20s;
    f->on_fence_error = policy;
    return f;
  }
  // by a test that waits for something that must not happen
  void settle() { std::this_thread::sleep_for(30ms); }
  std::vector<uint64_t> shown() {
    const std::lock_guard lock(kernel.mutex);
    return flipped;
  }
  bool waitShown(size_t n) {
    return kernel.wait([&] { return flipped.size() >= n; });
  }
  void pastDeadlines(DisplayFrame &frame) { frame.fence_timeout = 30ms; }
};

TEST_F(Fences, SignalledBeforeIsNoWait) {
  start();
  FakeFence fence;
  fence.signal();
  ASSERT_TRUE(committer->submit(fenced(1, fence), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{1});
  const auto c = committer->counters();
  EXPECT_EQ(c.fence_waits, 0u);
  EXPECT_EQ(c.fence_wait_ns, 0u);
}

TEST_F(Fences, NothingIsCommittedBeforeTheFence) {
  start();
  FakeFence fence;
  ASSERT_TRUE(committer->submit(fenced(1, fence), true));
  settle();
  EXPECT_EQ(kernel.attempts, 0);
  fence.signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{1});
  const auto c = committer->counters();
  EXPECT_EQ(c.fence_waits, 1u);
  EXPECT_GE(c.fence_wait_ns, 20'000'000u);
  EXPECT_EQ(c.fence_timeouts + c.fence_errors + c.dropped, 0u);
}

TEST_F(Fences, AFrameOfSeveralFencesWaitsForAll) {
  start();
  FakeFence a, b;
  auto f = fenced(1, a);
  f->fences.push_back(b.fence());
  ASSERT_TRUE(committer->submit(f, true));
  b.signal();
  settle();
  EXPECT_EQ(kernel.attempts, 0);
  a.signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(committer->counters().fence_waits, 1u);
}

TEST_F(Fences, OutOfOrderSignalsKeepTheOrderOfFrames) {
  start({.queue = 4});
  FakeFence fences[4];
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(committer->submit(fenced(i, fences[i]), true));
  for (const size_t i : {3u, 1u, 2u}) {
    fences[i].signal();
    settle();
    EXPECT_TRUE(shown().empty());
  }
  fences[0].signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(committer->counters().dropped, 0u);
}

TEST_F(Fences, NeverIsDroppedAndTheNextAreShown) {
  start();
  FakeFence never, good;
  auto keep = std::make_shared<int>(1);
  auto f = fenced(1, never, keep);
  pastDeadlines(*f);
  ASSERT_TRUE(committer->submit(std::move(f), true));
  ASSERT_TRUE(committer->submit(fenced(2, good), true));
  good.signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{2});
  EXPECT_EQ(keep.use_count(), 1);
  const auto c = committer->counters();
  EXPECT_EQ(c.fence_timeouts, 1u);
  EXPECT_EQ(c.dropped, 1u);
  EXPECT_EQ(c.fence_errors, 0u);
  EXPECT_EQ(bad_fences, (std::vector<std::pair<uint64_t, FrameFate>>{{1, FrameFate::Drop}}));
}

TEST_F(Fences, AnErrorIsDropped) {
  start();
  FakeFence broken;
  ASSERT_TRUE(committer->submit(fenced(1, broken), true));
  broken.signal(ENOENT);
  ASSERT_TRUE(committer->drain());
  ASSERT_TRUE(committer->submit(frame(2), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{2});
  EXPECT_EQ(committer->counters().fence_errors, 1u);
  EXPECT_EQ(committer->counters().dropped, 1u);
}

TEST_F(Fences, WhatCannotBeAskedForIsAnErrorOfTheFence) {
  start();
  auto f = frame(1);
  f->fence_error = Error{"ask for fences", EBADF, ""};
  ASSERT_TRUE(committer->submit(f, true));
  auto closed = frame(2);
  closed->fences.push_back({Fence::Kind::Event, UniqueFd(), {}});
  ASSERT_TRUE(committer->submit(closed, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_TRUE(shown().empty());
  EXPECT_EQ(committer->counters().fence_errors, 2u);
}

TEST_F(Fences, AnErrorIsPassed) {
  start();
  FakeFence broken, never;
  ASSERT_TRUE(committer->submit(fenced(1, broken, nullptr, GST_ZC_ON_FENCE_ERROR_PASS), true));
  broken.signal(ENOENT);
  auto f = fenced(2, never, nullptr, GST_ZC_ON_FENCE_ERROR_PASS);
  pastDeadlines(*f);
  f->in_fence = UniqueFd(eventfd(0, EFD_CLOEXEC));
  const int pending = f->in_fence.get();
  ASSERT_TRUE(committer->submit(f, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(committer->counters().fence_errors, 1u);
  EXPECT_EQ(committer->counters().fence_timeouts, 1u);
  EXPECT_EQ(committer->counters().dropped, 0u);
  EXPECT_NE(kernel.in_fences[1], pending) << "a pending fence must not come to the kernel";
  EXPECT_EQ(kernel.in_fences[1], kernel.signalled.get());
}

TEST_F(Fences, WhereTheKernelWouldWaitPassIsDrop) {
  kernel.takes_in_fence = false;
  start();
  FakeFence never;
  auto f = fenced(1, never, nullptr, GST_ZC_ON_FENCE_ERROR_PASS);
  pastDeadlines(*f);
  ASSERT_TRUE(committer->submit(f, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(kernel.attempts, 0);
  EXPECT_EQ(committer->counters().dropped, 1u);
  EXPECT_EQ(bad_fences, (std::vector<std::pair<uint64_t, FrameFate>>{{1, FrameFate::Drop}}));

  // the same where nobody knows whether something is pending
  auto unknown = frame(2);
  unknown->fence_error = Error{"ask for fences", EMFILE, ""};
  unknown->on_fence_error = GST_ZC_ON_FENCE_ERROR_PASS;
  ASSERT_TRUE(committer->submit(unknown, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(kernel.attempts, 0);
  EXPECT_EQ(committer->counters().dropped, 2u);
  EXPECT_EQ(committer->counters().fence_errors, 1u);
}

TEST_F(Fences, AnErrorIsOneErrorOfTheStream) {
  start();
  FakeFence broken[2];
  for (uint64_t i = 0; i < 2; ++i)
    ASSERT_TRUE(committer->submit(fenced(i, broken[i], nullptr, GST_ZC_ON_FENCE_ERROR_ERROR), true));
  for (FakeFence &f : broken) f.signal(EIO);
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EIO);
  EXPECT_FALSE(committer->submit(frame(3), true));
  committer.reset();
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_EQ(bad_fences, (std::vector<std::pair<uint64_t, FrameFate>>{{0, FrameFate::Fail}}));
  EXPECT_TRUE(shown().empty());
}

TEST_F(Fences, OnlyAFullQueueBlocks) {
  start({.queue = 3});
  FakeFence fences[4];
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(committer->submit(fenced(i, fences[i]), true));
  std::atomic<bool> taken = false;
  std::thread fourth([&] {
    EXPECT_TRUE(committer->submit(fenced(3, fences[3]), true));
    taken = true;
  });
  settle();
  EXPECT_FALSE(taken);
  fences[0].signal();
  fourth.join();
  EXPECT_TRUE(taken);
  for (int i = 1; i < 4; ++i) fences[i].signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{0, 1, 2, 3}));
}

// as before there were fences: one frame waits for the display, not three
TEST_F(Fences, ReadyFramesDoNotPileUp) {
  kernel.flip_at_once = false;
  start({.queue = 3});
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 1; }));
  ASSERT_TRUE(committer->submit(frame(2), true));
  std::atomic<bool> taken = false;
  std::thread third([&] {
    EXPECT_TRUE(committer->submit(frame(3), true));
    taken = true;
  });
  settle();
  EXPECT_FALSE(taken);
  kernel.flip();
  third.join();
  for (size_t n = 2; n <= 3; ++n) {
    ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == n; }));
    kernel.flip();
  }
  ASSERT_TRUE(committer->drain());
}

TEST_F(Fences, TheNewestReadyFrameWins) {
  start({.queue = 4});
  FakeFence fences[4];
  auto keep = std::make_shared<int>(0);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(committer->submit(fenced(i, fences[i], keep), false));
  fences[2].signal();
  ASSERT_TRUE(waitShown(1));
  EXPECT_EQ(shown(), std::vector<uint64_t>{2});
  EXPECT_EQ(committer->counters().dropped, 2u);
  fences[3].signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{2, 3}));
  for (int i = 0; i < 500 && keep.use_count() > 2; ++i) std::this_thread::sleep_for(2ms);
  EXPECT_EQ(keep.use_count(), 2) << "the one on screen";
  EXPECT_EQ(committer->counters().dropped, 2u);
}

TEST_F(Fences, AReadyFrameOvertakesPendingOnesAtOnce) {
  kernel.flip_at_once = false;
  start();
  FakeFence never;
  auto keep = std::make_shared<int>(0);
  ASSERT_TRUE(committer->submit(fenced(1, never, keep), false));
  ASSERT_TRUE(committer->submit(frame(2), false));
  EXPECT_EQ(keep.use_count(), 1);
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 1; }));
  kernel.flip();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{2});
}

// A source that is faster than its fences: were the oldest frame dropped each time, none would ever be shown.
TEST_F(Fences, AFullQueueKeepsTheOldestPendingFrame) {
  start({.queue = 2});
  FakeFence first, others[8];
  ASSERT_TRUE(committer->submit(fenced(0, first), false));
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(committer->submit(fenced(i + 1, others[i]), false));
  EXPECT_EQ(committer->counters().dropped, 7u);
  first.signal();
  ASSERT_TRUE(waitShown(1));
  others[7].signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{0, 8}));
}

TEST_F(Fences, AQueueOfOneKeepsWhatIsThere) {
  start({.queue = 1});
  FakeFence first, second;
  ASSERT_TRUE(committer->submit(fenced(1, first), false));
  ASSERT_TRUE(committer->submit(fenced(2, second), false));
  EXPECT_EQ(committer->counters().dropped, 1u);
  first.signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{1});
  ASSERT_TRUE(committer->submit(frame(3), false));
  ASSERT_TRUE(committer->drain());
}

// What a dropped frame would have done with mode and planes is done by the next one, whenever that comes.
TEST_F(Fences, ADroppedFrameOwesItsPlanes) {
  start();
  FakeFence broken;
  auto f = fenced(1, broken);
  f->state.planes.push_back({7, nullptr, {}, {}, {}});
  ASSERT_TRUE(committer->submit(f, true));
  broken.signal(EIO);
  ASSERT_TRUE(committer->drain());
  FakeFence never;
  auto g = fenced(2, never);
  g->state.planes.push_back({8, nullptr, {}, {}, {}});
  ASSERT_TRUE(committer->submit(g, true));
  committer->flush();
  EXPECT_EQ(committer->counters().dropped, 2u);
  ASSERT_TRUE(committer->submit(frame(3), true));
  ASSERT_TRUE(committer->drain());
  ASSERT_EQ(kernel.commits.size(), 1u);
  std::vector<size_t> planes;
  for (const PlaneUse &use : kernel.commits[0].planes) planes.push_back(use.plane);
  std::sort(planes.begin(), planes.end());
  EXPECT_EQ(planes, (std::vector<size_t>{0, 7, 8}));
  ASSERT_TRUE(committer->submit(frame(4), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(kernel.commits[1].planes.size(), 1u) << "once is enough";
}

TEST_F(Fences, AFrameIsHeldUntilTheFlipThatReplacedIt) {
  kernel.flip_at_once = false;
  start();
  FakeFence fences[3];
  std::shared_ptr<int> keeps[3];
  for (uint64_t i = 0; i < 3; ++i) {
    keeps[i] = std::make_shared<int>(0);
    ASSERT_TRUE(committer->submit(fenced(i, fences[i], keeps[i]), true));
  }
  for (size_t i = 0; i < 3; ++i) {
    fences[i].signal();
    ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == i + 1; }));
    settle();
    for (size_t k = i == 0 ? 0 : i - 1; k < 3; ++k) EXPECT_GT(keeps[k].use_count(), 1) << k << " at commit " << i;
    kernel.flip();
    ASSERT_TRUE(waitShown(i + 1));
    if (i > 0) {
      for (int n = 0; n < 500 && keeps[i - 1].use_count() > 1; ++n) std::this_thread::sleep_for(2ms);
      EXPECT_EQ(keeps[i - 1].use_count(), 1) << "flip " << i << " replaced it";
    }
  }
}

TEST_F(Fences, DrainWaitsForWhatIsGivenUp) {
  start();
  FakeFence never;
  auto f = fenced(1, never);
  pastDeadlines(*f);
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(committer->submit(f, true));
  auto drained = committer->drain();
  ASSERT_TRUE(drained);
  EXPECT_EQ(*drained, Committer::Submitted::Accepted);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 30ms);
  EXPECT_EQ(committer->counters().dropped, 1u);
}

TEST_F(Fences, InterruptEndsWaitsForFences) {
  start({.queue = 1});
  FakeFence fence;
  ASSERT_TRUE(committer->submit(fenced(1, fence), true));
  std::thread later([&] {
    std::this_thread::sleep_for(30ms);
    committer->interrupt(true);
  });
  FakeFence other;
  auto second = committer->submit(fenced(2, other), true);
  later.join();
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, Committer::Submitted::Interrupted);
  EXPECT_EQ(*committer->drain(), Committer::Submitted::Interrupted);
  committer->interrupt(false);
  fence.signal();
  EXPECT_EQ(*committer->drain(), Committer::Submitted::Accepted);
  EXPECT_EQ(shown(), std::vector<uint64_t>{1});
}

TEST_F(Fences, FlushDropsWhatWaits) {
  start();
  FakeFence fences[2];
  auto keep = std::make_shared<int>(0);
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(committer->submit(fenced(i, fences[i], keep), true));
  committer->flush();
  EXPECT_EQ(keep.use_count(), 1);
  EXPECT_EQ(*committer->drain(), Committer::Submitted::Accepted);
  for (FakeFence &f : fences) f.signal();
  ASSERT_TRUE(committer->submit(frame(5), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{5});
  EXPECT_EQ(committer->counters().dropped, 2u);
}

TEST_F(Fences, StopWithPendingFencesIsAtOnceAndLeaksNothing) {
  const auto pending = FencePoller::process().counters().pending;
  std::optional<size_t> before;
  for (int i = 0; i < 3; ++i) {
    start();
    FakeFence fences[3];
    auto keep = std::make_shared<int>(0);
    for (uint64_t k = 0; k < 3; ++k) {
      auto f = fenced(k, fences[k], keep);
      f->in_fence = UniqueFd(eventfd(0, EFD_CLOEXEC));
      ASSERT_TRUE(committer->submit(f, true));
    }
    std::thread blocked([&] {
      auto fourth = committer->submit(fenced(4, fences[0], keep), true);
      ASSERT_TRUE(fourth);
      EXPECT_EQ(*fourth, Committer::Submitted::Interrupted);
    });
    std::this_thread::sleep_for(10ms);
    const auto started = std::chrono::steady_clock::now();
    committer->stop();
    EXPECT_LT(std::chrono::steady_clock::now() - started, 10s) << "the fences' deadline is at 20 s";
    blocked.join();
    EXPECT_EQ(keep.use_count(), 1);
    EXPECT_EQ(FencePoller::process().counters().pending, pending);
    committer.reset();
    if (!before)
      before = test::openFds(); // from the second round on: the poller's own are open
    else
      EXPECT_EQ(test::openFds(), *before);
  }
}

TEST_F(Fences, EveryCommitCarriesAFenceThatSignalled) {
  start();
  FakeFence fence;
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto f = fenced(2, fence);
  f->in_fence = UniqueFd(eventfd(1, EFD_CLOEXEC));
  const int own = f->in_fence.get();
  ASSERT_TRUE(committer->submit(f, true));
  fence.signal();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(kernel.in_fences, (std::vector<int>{kernel.signalled.get(), own}));
  EXPECT_EQ(committer->counters().in_fences, 2u);
  EXPECT_EQ(committer->counters().in_fence_refused, 0u);
}

TEST_F(Fences, APlaneWithoutThePropertyGetsNone) {
  kernel.takes_in_fence = false;
  start();
  auto f = frame(1);
  f->in_fence = UniqueFd(eventfd(1, EFD_CLOEXEC));
  ASSERT_TRUE(committer->submit(f, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(kernel.in_fences, std::vector<int>{-1});
  EXPECT_EQ(committer->counters().in_fences, 0u);
}

class Refusal : public Fences, public testing::WithParamInterface<int> {};

TEST_P(Refusal, IsTakenOnce) {
  kernel.refuses_in_fence = GetParam();
  start();
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(committer->submit(frame(i), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(kernel.attempts, 6) << "one with a fence";
  EXPECT_EQ(kernel.in_fences, (std::vector<int>(5, -1)));
  const auto c = committer->counters();
  EXPECT_EQ(c.in_fences, 0u);
  EXPECT_EQ(c.in_fence_refused, 1u);
  EXPECT_EQ(c.commits, 5u);
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(notes.size(), 1u);
}

TEST_P(Refusal, OfAFrameThatIsPassedDropsIt) {
  kernel.refuses_in_fence = GetParam();
  start();
  FakeFence never;
  auto f = fenced(1, never, nullptr, GST_ZC_ON_FENCE_ERROR_PASS);
  pastDeadlines(*f);
  ASSERT_TRUE(committer->submit(f, true));
  ASSERT_TRUE(committer->drain());
  EXPECT_TRUE(kernel.commits.empty()) << "it would wait for the fence";
  ASSERT_TRUE(committer->submit(frame(2), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(shown(), std::vector<uint64_t>{2});
  EXPECT_EQ(committer->counters().dropped, 1u);
  EXPECT_TRUE(failures.empty());
}
INSTANTIATE_TEST_SUITE_P(Errno, Refusal, testing::Values(EPERM, EINVAL));

TEST_F(Fences, EinvalThatIsNotTheFencesIsAnError) {
  kernel.answers = {EINVAL, EINVAL};
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EINVAL);
  EXPECT_EQ(committer->counters().in_fence_refused, 0u);
  EXPECT_TRUE(notes.empty());
}

TEST_F(Fences, AThousandFencesWhileFramesAreTakenAndDropped) {
  start({.queue = 8});
  std::vector<FakeFence> fences(1000);
  std::thread producer([&] {
    for (size_t i = 0; i < fences.size(); ++i) {
      if (i % 3 == 0) std::this_thread::yield();
      fences[i].signal(i % 10 == 9 ? EIO : 0);
    }
  });
  for (size_t i = 0; i < fences.size(); ++i) ASSERT_TRUE(committer->submit(fenced(i, fences[i]), i % 2 == 0));
  producer.join();
  ASSERT_TRUE(committer->drain());
  const auto c = committer->counters();
  EXPECT_EQ(c.shown + c.dropped, 1000u);
  EXPECT_TRUE(std::is_sorted(flipped.begin(), flipped.end()));
}

} // namespace
