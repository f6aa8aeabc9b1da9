// SPDX-License-Identifier: LGPL-2.1-or-later
// The committer against a kernel that does what the test says. Flips are eventfds, as pollable as out-fences.
#include "gst/drm/committer.h"

#include <cerrno>
#include <deque>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

using namespace gstzc;
using namespace std::chrono_literals;

namespace {

// What happened, seen from several threads.
struct Kernel {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> answers; // errno for the next commits; then 0
  bool flip_at_once = true;
  int64_t flip_time = 1000;
  std::vector<UniqueFd> waiting; // duplicates of the flips not yet signalled
  std::vector<ScreenState> commits;
  int attempts = 0;
  bool overlapping = false;

  void signal(const UniqueFd &fd) {
    const uint64_t one = 1;
    ASSERT_EQ(write(fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void flip() {
    const std::lock_guard lock(mutex);
    ASSERT_FALSE(waiting.empty());
    signal(waiting.front());
    waiting.erase(waiting.begin());
  }
  template <typename F> bool wait(F done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 5s, done);
  }
};

class Port : public CommitPort {
public:
  explicit Port(Kernel &kernel) : kernel_(kernel) {}
  int commit(const ScreenState &state, UniqueFd *flipped) override {
    const std::lock_guard lock(kernel_.mutex);
    ++kernel_.attempts;
    int rc = 0;
    if (!kernel_.answers.empty()) {
      rc = kernel_.answers.front();
      kernel_.answers.pop_front();
    }
    if (rc == 0) {
      kernel_.overlapping |= !kernel_.waiting.empty();
      kernel_.commits.push_back(state);
      *flipped = UniqueFd(eventfd(0, EFD_CLOEXEC));
      if (kernel_.flip_at_once)
        kernel_.signal(*flipped);
      else
        kernel_.waiting.push_back(UniqueFd::duplicate(flipped->get()));
    }
    kernel_.changed.notify_all();
    return rc;
  }
  int64_t flipTime(int) override { return kernel_.flip_time; }

private:
  Kernel &kernel_;
};

struct Fixture : testing::Test {
  Kernel kernel;
  std::vector<uint64_t> flipped, flip_times;
  std::vector<Error> failures;
  std::unique_ptr<Committer> committer;

  void start(Committer::Limits limits = {}) {
    Committer::Events events;
    events.flipped = [this](const DisplayFrame &frame, uint64_t time) {
      const std::lock_guard lock(kernel.mutex);
      flipped.push_back(frame.pts);
      flip_times.push_back(time);
      kernel.changed.notify_all();
    };
    events.failed = [this](const Error &error) {
      const std::lock_guard lock(kernel.mutex);
      failures.push_back(error);
      kernel.changed.notify_all();
    };
    committer = std::make_unique<Committer>(std::make_unique<Port>(kernel), limits, events);
  }

  std::shared_ptr<DisplayFrame> frame(uint64_t pts, std::shared_ptr<void> keep = nullptr) {
    auto f = std::make_shared<DisplayFrame>();
    f->pts = pts;
    f->keep = std::move(keep);
    f->state.planes.push_back({0, nullptr, {static_cast<int>(pts), 0, 0, 0}, {}, {}});
    return f;
  }
  int committedPts(size_t i) {
    const std::lock_guard lock(kernel.mutex);
    return kernel.commits[i].planes[0].source.x;
  }
};

uint64_t now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / 1ns); }

TEST_F(Fixture, FlipTimesAreTheKernels) {
  kernel.flip_time = static_cast<int64_t>(now() + 1000000000);
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(flip_times, std::vector<uint64_t>{static_cast<uint64_t>(kernel.flip_time)});
}

// as vkms answers the commit that switches it on
TEST_F(Fixture, AFlipTimeBeforeTheCommitIsNotBelieved) {
  kernel.flip_time = 1000;
  start();
  const uint64_t before = now();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  ASSERT_EQ(flip_times.size(), 1u);
  EXPECT_GE(flip_times[0], before);
  EXPECT_LE(flip_times[0], now());
}

TEST_F(Fixture, ShowsFramesInOrder) {
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

TEST_F(Fixture, AFrameIsHeldUntilTheFlipThatReplacesIt) {
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

TEST_F(Fixture, OnlyTheNewestWaits) {
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

TEST_F(Fixture, ADroppedFrameLeavesItsModesetAndPlanesThatGoOff) {
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

TEST_F(Fixture, EbusyIsTriedAgain) {
  kernel.answers.assign(50, EBUSY);
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  ASSERT_TRUE(committer->drain());
  EXPECT_EQ(flipped, std::vector<uint64_t>{1});
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(committer->counters().busy_retries, 50u);
}

TEST_F(Fixture, EbusyWithoutEndIsOneError) {
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

TEST_F(Fixture, AFlipThatNeverComesIsOneError) {
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

TEST_F(Fixture, ACommitThatFailsIsOneError) {
  kernel.answers = {EACCES};
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EACCES);
  EXPECT_FALSE(drained.error().remedy.empty());
}

TEST_F(Fixture, AFlipThatEndsInAnErrorIsOne) {
  kernel.flip_time = -EIO;
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EIO);
  EXPECT_TRUE(flipped.empty());
}

TEST_F(Fixture, InterruptEndsEveryWait) {
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

TEST_F(Fixture, StopDoesNotWaitForFlips) {
  kernel.flip_at_once = false;
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  const auto before = std::chrono::steady_clock::now();
  committer->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1s);
  EXPECT_EQ(*committer->submit(frame(2), true), Committer::Submitted::Interrupted);
}

} // namespace
