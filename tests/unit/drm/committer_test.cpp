// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/committer.h"

#include "tests/unit/drm/committer_fixture.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

TEST_F(CommitterTest, FlipTimesAreTheKernels) {
  kernel.flip_time = static_cast<int64_t>(now() + 1000000000);
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(flip_times, std::vector<uint64_t>{static_cast<uint64_t>(kernel.flip_time)});
}

// as vkms answers the commit that switches it on
TEST_F(CommitterTest, AFlipTimeBeforeTheCommitIsNotBelieved) {
  kernel.flip_time = 1000;
  start();
  const uint64_t before = now();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  ASSERT_EQ(flip_times.size(), 1u);
  EXPECT_GE(flip_times[0], before);
  EXPECT_LE(flip_times[0], now());
}

TEST_F(CommitterTest, ShowsFramesInOrder) {
  start();
  for (uint64_t i = 0; i < 300; ++i) {
    auto submitted = committer->submit(frame(i), true);
    ASSERT_TRUE(submitted);
    ASSERT_EQ(*submitted, Committer::Submitted::Accepted);
  }
  ASSERT_TRUE(committer->drain());
  ASSERT_EQ(flipped.size(), 300u);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(flipped[i], i);
  EXPECT_EQ(committer->counters().shown, 300u);
  EXPECT_EQ(committer->counters().dropped, 0u);
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(CommitterTest, AFrameIsHeldUntilTheFlipThatReplacesIt) {
  kernel.flip_at_once = false;
  start();
  auto a = std::make_shared<int>(1), b = std::make_shared<int>(2);
  ASSERT_TRUE(committer->submit(frame(1, a), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 1; }));
  kernel.flip();
  ASSERT_TRUE(kernel.wait([&] { return flipped.size() == 1; }));
  ASSERT_TRUE(committer->submit(frame(2, b), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 2; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_GT(a.use_count(), 1) << "committed is not flipped";
  kernel.flip();
  ASSERT_TRUE(committer->drain());
  for (int i = 0; i < 500 && a.use_count() > 1; ++i) std::this_thread::sleep_for(2ms);
  EXPECT_EQ(a.use_count(), 1);
  EXPECT_GT(b.use_count(), 1);
  committer->stop();
  EXPECT_GT(b.use_count(), 1) << "still on screen";
  committer.reset();
  EXPECT_EQ(b.use_count(), 1);
}

TEST_F(CommitterTest, OnlyTheNewestWaits) {
  kernel.flip_at_once = false;
  start();
  ASSERT_TRUE(committer->submit(frame(1), false));
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 1; }));
  for (uint64_t i = 2; i <= 5; ++i) ASSERT_TRUE(committer->submit(frame(i), false));
  kernel.flip();
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 2; }));
  EXPECT_EQ(committedPts(1), 5);
  kernel.flip();
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(flipped, (std::vector<uint64_t>{1, 5}));
  EXPECT_EQ(committer->counters().dropped, 3u);
}

TEST_F(CommitterTest, ADroppedFrameLeavesItsModesetAndPlanesThatGoOff) {
  kernel.answers = {EBUSY, EBUSY, EBUSY, EBUSY, EBUSY, EBUSY, EBUSY, EBUSY, EBUSY, EBUSY};
  start();
  auto first = frame(1);
  first->state.planes.push_back({7, nullptr, {}, {}, {}});
  ASSERT_TRUE(committer->submit(first, false));
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 1; }));
  ASSERT_TRUE(committer->submit(frame(2), false));
  ASSERT_TRUE(committer->drain());
  ASSERT_EQ(kernel.commits.size(), 1u);
  ASSERT_EQ(kernel.commits[0].planes.size(), 2u);
  EXPECT_EQ(kernel.commits[0].planes[1].plane, 7u);
}

TEST_F(CommitterTest, EbusyIsTriedAgain) {
  kernel.answers.assign(50, EBUSY);
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(flipped, std::vector<uint64_t>{1});
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(committer->counters().busy_retries, 50u);
}

TEST_F(CommitterTest, EbusyWithoutEndIsOneError) {
  kernel.answers.assign(100000, EBUSY);
  start({.flip = 1s, .busy = 50ms, .retry = 1ms});
  ASSERT_TRUE(committer->submit(frame(1), true));
  EXPECT_FALSE(committer->drain());
  EXPECT_FALSE(committer->submit(frame(2), true));
  EXPECT_FALSE(committer->submit(frame(3), false));
  ASSERT_TRUE(kernel.wait([&] { return !failures.empty(); }));
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].code, EBUSY);
}

// Each frame has the time for itself: a flush takes the one away that the kernel was busy for.
TEST_F(CommitterTest, AfterAFlushTheTimeForEbusyBeginsAnew) {
  kernel.answers.assign(100000, EBUSY);
  start({.busy = 2s, .retry = 1ms});
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 2; }));
  committer->flush();
  ASSERT_TRUE(committer->drain());
  std::this_thread::sleep_for(2100ms);
  {
    const std::lock_guard lock(kernel.mutex);
    kernel.answers = {EBUSY};
  }
  ASSERT_TRUE(committer->submit(frame(2), true));
  EXPECT_TRUE(committer->drain());
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(flipped, std::vector<uint64_t>{2});
}

TEST_F(CommitterTest, AFlipThatNeverComesIsOneError) {
  kernel.flip_at_once = false;
  start({.flip = 50ms, .busy = 50ms, .retry = 1ms});
  auto keep = std::make_shared<int>(1);
  ASSERT_TRUE(committer->submit(frame(1, keep), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, ETIMEDOUT);
  ASSERT_TRUE(kernel.wait([&] { return !failures.empty(); }));
  EXPECT_GT(keep.use_count(), 1) << "it may still come on screen";
  committer.reset();
  EXPECT_EQ(failures.size(), 1u);
}

TEST_F(CommitterTest, ACommitThatFailsIsOneError) {
  kernel.answers = {EACCES};
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EACCES);
  EXPECT_FALSE(drained.error().remedy.empty());
}

TEST_F(CommitterTest, AFlipThatEndsInAnErrorIsOne) {
  kernel.flip_time = -EIO;
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EIO);
  EXPECT_TRUE(flipped.empty());
}

TEST_F(CommitterTest, InterruptEndsEveryWait) {
  kernel.flip_at_once = false;
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 1; }));
  ASSERT_TRUE(committer->submit(frame(2), true));
  std::thread later([&] {
    std::this_thread::sleep_for(30ms);
    committer->interrupt(true);
  });
  auto third = committer->submit(frame(3), true); // the place is taken
  later.join();
  ASSERT_TRUE(third);
  EXPECT_EQ(*third, Committer::Submitted::Interrupted);
  EXPECT_EQ(*committer->drain(), Committer::Submitted::Interrupted);
  committer->interrupt(false);
  kernel.flip();
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 2; }));
  kernel.flip();
  EXPECT_EQ(*committer->drain(), Committer::Submitted::Accepted);
}

// A stream that wants no reports of its flips.
class Quiet : public CommitterTest {
protected:
  void begin(std::chrono::milliseconds look) {
    prompt = false;
    kernel.flip_at_once = false;
    Committer::Limits limits;
    limits.look = look;
    start(limits);
  }
  void next(uint64_t pts, std::shared_ptr<void> keep = nullptr) {
    ASSERT_TRUE(committer->submit(frame(pts, std::move(keep)), true));
    ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() >= pts; }));
  }
  bool told(size_t n) {
    return kernel.wait([&] { return flipped.size() >= n; });
  }
};

TEST_F(Quiet, AFlipIsNoticedWithTheNextFrame) {
  begin(60s);
  auto first = std::make_shared<int>(1);
  next(1, first);
  kernel.flip();
  next(2);
  ASSERT_TRUE(told(1));
  kernel.flip();
  std::this_thread::sleep_for(30ms);
  {
    const std::lock_guard lock(kernel.mutex);
    EXPECT_EQ(flipped.size(), 1u) << "nobody looks";
  }
  EXPECT_GT(first.use_count(), 1);
  next(3);
  ASSERT_TRUE(told(2));
  EXPECT_EQ(first.use_count(), 1) << "what it replaced goes with it";
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Quiet, AFrameThatIsReadyBeforeTheFlipIsCommittedByIt) {
  begin(60s);
  next(1);
  ASSERT_TRUE(committer->submit(frame(2), true));
  kernel.flip();
  ASSERT_TRUE(kernel.wait([&] { return kernel.commits.size() == 2; }));
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Quiet, TheEndIsWaitedFor) {
  begin(60s);
  next(1);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    kernel.flip();
  });
  ASSERT_TRUE(committer->drain());
  later.join();
  EXPECT_EQ(flipped, std::vector<uint64_t>{1});
}

// Its producer may need the buffer that the flip gives back.
TEST_F(Quiet, WhoseFramesDoNotComeIsLookedAtAndThenWatched) {
  begin(20ms);
  for (uint64_t pts = 1; pts <= 2; ++pts) {
    next(pts);
    kernel.flip();
    ASSERT_TRUE(told(pts));
  }
  next(3);
  std::this_thread::sleep_for(5ms);
  const uint64_t before = now();
  kernel.flip();
  ASSERT_TRUE(told(3));
  EXPECT_GT(now(), before);
}

TEST_F(Quiet, AFlipThatNeverComesIsOneError) {
  prompt = false;
  kernel.flip_at_once = false;
  start({.flip = 100ms, .look = 20ms, .busy = 50ms, .retry = 1ms});
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(kernel.wait([&] { return !failures.empty(); }));
  EXPECT_EQ(failures[0].code, ETIMEDOUT);
}

// Whose frames come before the flips that make room for them.
class Crowded : public Quiet {
protected:
  std::chrono::nanoseconds refresh{10s};
  bool untimed = false;

  Result<Committer::Submitted> bring(uint64_t pts) {
    auto f = frame(pts);
    f->refresh = static_cast<uint64_t>(refresh.count());
    f->untimed = untimed;
    return committer->submit(std::move(f), true);
  }
  // One is on screen, the second in flight, the third waits.
  void crowd() {
    begin(60s);
    ASSERT_TRUE(bring(1));
    ASSERT_TRUE(committed(1));
    kernel.flip();
    ASSERT_TRUE(bring(2));
    ASSERT_TRUE(committed(2));
    ASSERT_TRUE(bring(3));
  }
  size_t commits() {
    const std::lock_guard lock(kernel.mutex);
    return kernel.commits.size();
  }
  // and what was to be done after it
  bool committed(size_t n) {
    for (int i = 0; i < 2500 && committer->counters().commits < n; ++i) std::this_thread::sleep_for(2ms);
    return commits() == n;
  }
};

// Sooner it would not be on screen sooner.
TEST_F(Crowded, AFrameThatCameBeforeTheFlipGoesWithTheNext) {
  crowd();
  kernel.flip();
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(commits(), 2u) << "somebody woke up for it";
  ASSERT_TRUE(bring(4));
  ASSERT_TRUE(committed(3));
  EXPECT_EQ(committedPts(2), 3);
  kernel.flip();
  ASSERT_TRUE(bring(5));
  ASSERT_TRUE(committed(4));
  EXPECT_EQ(committedPts(3), 4);
  EXPECT_EQ(committer->counters().dropped, 0u);
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Crowded, WithoutANextItIsInTimeForItsRefresh) {
  refresh = 40ms;
  crowd();
  kernel.flip();
  ASSERT_TRUE(committed(3));
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Crowded, WhereFlipsComeAtOnceNothingIsPutOff) {
  untimed = true;
  crowd();
  kernel.flip();
  ASSERT_TRUE(committed(3));
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Crowded, WhoWaitsForTheFlipDoesTheWork) {
  crowd();
  bool led = false;
  for (uint64_t pts = 4; pts < 50 && !led; ++pts) { // the queue's thread may be awake, for whatever reason
    std::thread::id submitter;
    std::thread late([&] {
      submitter = std::this_thread::get_id();
      EXPECT_TRUE(bring(pts));
    });
    std::this_thread::sleep_for(10ms);
    kernel.flip();
    late.join();
    ASSERT_TRUE(committed(pts - 1));
    const std::lock_guard lock(kernel.mutex);
    led = kernel.threads.back() == submitter;
  }
  EXPECT_TRUE(led);
  EXPECT_EQ(committer->counters().dropped, 0u);
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Crowded, AnInterruptEndsTheWaitForTheFlip) {
  crowd();
  std::thread late([&] {
    const auto submitted = bring(4);
    ASSERT_TRUE(submitted);
    EXPECT_EQ(*submitted, Committer::Submitted::Interrupted);
  });
  std::this_thread::sleep_for(20ms);
  committer->interrupt(true);
  late.join(); // else after the 5 s that a flip has
  EXPECT_TRUE(failures.empty());
  committer->interrupt(false);
  kernel.flip();
  ASSERT_TRUE(bring(4));
  ASSERT_TRUE(committed(3));
  EXPECT_EQ(committedPts(2), 3);
}

TEST_F(CommitterTest, StopDoesNotWaitForFlips) {
  kernel.flip_at_once = false;
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  const auto before = std::chrono::steady_clock::now();
  committer->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1s);
  EXPECT_EQ(*committer->submit(frame(2), true), Committer::Submitted::Interrupted);
}

} // namespace
