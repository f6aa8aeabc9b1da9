// SPDX-License-Identifier: LGPL-2.1-or-later
// Several sinks on one CRTC: one commit of what each of them wants.
#include "gst/drm/commit_merge.h"

#include <array>
#include <map>

#include "tests/unit/drm/committer_fixture.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

// Never looked into: framebuffers and modes are told apart by their addresses.
template <typename T> std::shared_ptr<T> stand(int n) {
  static std::array<char, 16> places;
  return std::shared_ptr<T>(reinterpret_cast<T *>(&places[static_cast<size_t>(n)]), [](T *) {});
}

struct Use {
  size_t plane;
  int fb; // 0: off
};

ScreenState state(std::initializer_list<Use> uses, int mode = 0) {
  ScreenState s;
  for (const Use &use : uses)
    s.planes.push_back({use.plane, use.fb == 0 ? nullptr : stand<Framebuffer>(use.fb), {}, {}, nullptr});
  if (mode != 0) s.mode = stand<ModeBlob>(mode);
  return s;
}

std::map<size_t, int> merge(const std::vector<ScreenState> &next, const std::vector<ScreenState> &shown,
                            bool everything = false, int *mode = nullptr) {
  std::vector<const ScreenState *> n, s;
  for (const ScreenState &one : next) n.push_back(&one);
  for (const ScreenState &one : shown) s.push_back(&one);
  ScreenState merged = state({{9, 9}}, 9); // overwritten
  mergeStates(merged, n, s, everything);
  std::map<size_t, int> result;
  for (const PlaneUse &use : merged.planes) {
    int fb = 0;
    for (int i = 1; i < 10; ++i)
      if (use.fb == stand<Framebuffer>(i)) fb = i;
    EXPECT_TRUE(result.emplace(use.plane, fb).second) << "plane " << use.plane << " twice";
  }
  if (mode != nullptr) {
    *mode = 0;
    for (int i = 1; i < 10; ++i)
      if (merged.mode == stand<ModeBlob>(i)) *mode = i;
  }
  return result;
}

using Planes = std::map<size_t, int>;

TEST(Merge, EachSinksPlane) {
  EXPECT_EQ(merge({state({{0, 1}}), state({{1, 2}})}, {}), (Planes{{0, 1}, {1, 2}}));
  EXPECT_EQ(merge({state({{0, 1}})}, {state({{1, 2}})}), (Planes{{0, 1}})) << "what is shown need not be said again";
}

TEST(Merge, OneSinkDoesNotSwitchAnothersPlaneOff) {
  EXPECT_EQ(merge({state({{0, 1}, {1, 0}, {2, 0}}), state({{1, 2}})}, {}), (Planes{{0, 1}, {1, 2}, {2, 0}}));
  EXPECT_EQ(merge({state({{1, 2}}), state({{0, 1}, {1, 0}})}, {}), (Planes{{0, 1}, {1, 2}})) << "in either order";
  EXPECT_EQ(merge({state({{0, 1}, {1, 0}})}, {state({{1, 2}})}), (Planes{{0, 1}})) << "nor one that is shown";
  EXPECT_EQ(merge({state({{1, 0}})}, {state({{0, 1}})}), (Planes{{1, 0}})) << "its own it does";
}

TEST(Merge, TheModeIsTheFirstOnes) {
  int mode = 0;
  merge({state({{0, 1}}), state({{1, 2}}, 3)}, {state({{2, 3}}, 4)}, false, &mode);
  EXPECT_EQ(mode, 3);
  merge({state({{0, 1}})}, {state({{2, 3}}, 4)}, false, &mode);
  EXPECT_EQ(mode, 0) << "a mode that was set is not set again";
}

TEST(Merge, EverythingIsSaidAgain) {
  int mode = 0;
  EXPECT_EQ(merge({state({{0, 1}, {3, 0}})}, {state({{1, 2}, {4, 0}}), state({{3, 5}}, 4)}, true, &mode),
            (Planes{{0, 1}, {1, 2}, {3, 5}}));
  EXPECT_EQ(mode, 4);
}

// Two committers on one queue.
class Shared : public CommitterTest {
protected:
  void SetUp() override {
    kernel.flip_at_once = false;
    Committer::Limits limits;
    limits.flip = 20s;
    limits.regain = 5ms;
    queue_ = std::make_shared<CrtcQueue>(std::make_unique<Port>(kernel), limits);
    for (size_t i = 0; i < 2; ++i) {
      Committer::Events events;
      events.flipped = [this, i](const DisplayFrame &frame, uint64_t) {
        const std::lock_guard lock(kernel.mutex);
        flips_[i].push_back(frame.pts);
        kernel.changed.notify_all();
      };
      events.failed = [this, i](const Error &error) {
        const std::lock_guard lock(kernel.mutex);
        errors_[i].push_back(error);
        kernel.changed.notify_all();
      };
      sinks_[i] = std::make_unique<Committer>(queue_, 3, events);
    }
  }
  void TearDown() override {
    sinks_ = {};
    queue_.reset();
  }

  // Of plane `sink`, with something on it.
  std::shared_ptr<DisplayFrame> of(size_t sink, uint64_t pts) {
    auto f = std::make_shared<DisplayFrame>();
    f->pts = pts;
    f->state.planes.push_back(
        {sink, stand<Framebuffer>(static_cast<int>(sink) + 1), {static_cast<int>(pts), 0, 0, 0}, {}, nullptr});
    return f;
  }
  bool commits(size_t n) {
    return kernel.wait([&] { return kernel.commits.size() >= n; });
  }
  bool flips(size_t sink, size_t n) {
    return kernel.wait([&] { return flips_[sink].size() >= n; });
  }
  // of a commit: plane to time stamp
  std::map<size_t, int> committed(size_t i) {
    const std::lock_guard lock(kernel.mutex);
    std::map<size_t, int> result;
    for (const PlaneUse &use : kernel.commits[i].planes) result[use.plane] = use.fb ? use.source.x : -1;
    return result;
  }

  std::shared_ptr<CrtcQueue> queue_;
  std::array<std::unique_ptr<Committer>, 2> sinks_;
  std::array<std::vector<uint64_t>, 2> flips_;
  std::array<std::vector<Error>, 2> errors_;
};

TEST_F(Shared, WhatIsReadyAtOnceIsOneCommit) {
  ASSERT_TRUE(sinks_[0]->submit(of(0, 1), true));
  ASSERT_TRUE(commits(1));
  ASSERT_TRUE(sinks_[1]->submit(of(1, 7), true)); // both wait for the flip
  ASSERT_TRUE(sinks_[0]->submit(of(0, 2), true));
  kernel.flip();
  ASSERT_TRUE(commits(2));
  EXPECT_EQ(committed(1), (std::map<size_t, int>{{0, 2}, {1, 7}}));
  kernel.flip();
  for (const auto &sink : sinks_) ASSERT_TRUE(sink->drain());
  EXPECT_EQ(flips_[0].size(), 2u);
  EXPECT_EQ(sinks_[0]->counters().commits, 2u);
  EXPECT_EQ(sinks_[1]->counters().commits, 1u);
  EXPECT_EQ(sinks_[1]->counters().shown, 1u);
  EXPECT_FALSE(kernel.overlapping);
}

TEST_F(Shared, NeitherWaitsForTheOthersFence) {
  auto late = of(1, 7);
  const UniqueFd never(eventfd(0, EFD_CLOEXEC));
  late->fences.push_back({Fence::Kind::Event, UniqueFd::duplicate(never.get()), {}});
  late->fence_timeout = 20s;
  ASSERT_TRUE(sinks_[1]->submit(late, true));
  for (uint64_t pts = 1; pts <= 3; ++pts) {
    ASSERT_TRUE(sinks_[0]->submit(of(0, pts), true));
    ASSERT_TRUE(commits(pts));
    EXPECT_EQ(committed(pts - 1), (std::map<size_t, int>{{0, static_cast<int>(pts)}}));
    kernel.flip();
    ASSERT_TRUE(flips(0, pts));
  }
  EXPECT_TRUE(flips_[1].empty());
  const uint64_t one = 1;
  ASSERT_EQ(write(never.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  ASSERT_TRUE(commits(4));
  EXPECT_EQ(committed(3), (std::map<size_t, int>{{1, 7}}));
  kernel.flip();
  ASSERT_TRUE(flips(1, 1));
}

TEST_F(Shared, OneGoesTheOtherStays) {
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(sinks_[i]->submit(of(i, 1), true));
    ASSERT_TRUE(commits(i + 1));
    kernel.flip();
    ASSERT_TRUE(flips(i, 1));
  }
  ASSERT_TRUE(sinks_[0]->submit(of(0, 2), true)); // in flight
  ASSERT_TRUE(commits(3));
  sinks_[0].reset();
  ASSERT_TRUE(sinks_[1]->submit(of(1, 2), true));
  kernel.flip();
  ASSERT_TRUE(commits(4));
  EXPECT_EQ(committed(3), (std::map<size_t, int>{{1, 2}}));
  kernel.flip();
  ASSERT_TRUE(flips(1, 2));
  EXPECT_EQ(flips_[0].size(), 1u) << "who has gone is told nothing";
  EXPECT_TRUE(errors_[1].empty());
}

TEST_F(Shared, WhatIsRefusedTogetherIsTriedAloneAndFailsAlone) {
  ASSERT_TRUE(sinks_[0]->submit(of(0, 1), true));
  ASSERT_TRUE(commits(1));
  {
    const std::lock_guard lock(kernel.mutex);
    kernel.takes_in_fence = false;
    kernel.answers = {EINVAL, 0, EINVAL}; // both; the first alone; the second alone
  }
  ASSERT_TRUE(sinks_[0]->submit(of(0, 2), true));
  ASSERT_TRUE(sinks_[1]->submit(of(1, 7), true));
  kernel.flip();
  ASSERT_TRUE(commits(2));
  EXPECT_EQ(committed(1).size(), 1u);
  kernel.flip();
  ASSERT_TRUE(kernel.wait([&] { return errors_[0].size() + errors_[1].size() == 1; }));
  EXPECT_EQ(errors_[1].size(), 1u);
  ASSERT_TRUE(sinks_[0]->submit(of(0, 3), true));
  ASSERT_TRUE(commits(3));
  kernel.flip();
  ASSERT_TRUE(flips(0, 3)) << "the other one goes on";
}

TEST_F(Shared, AfterAnotherMasterEverythingIsSaidAgain) {
  for (size_t i = 0; i < 2; ++i) {
    auto f = of(i, 1);
    f->state.mode = stand<ModeBlob>(1);
    ASSERT_TRUE(sinks_[i]->submit(f, true));
    ASSERT_TRUE(commits(i + 1));
    kernel.flip();
    ASSERT_TRUE(flips(i, 1));
  }
  {
    const std::lock_guard lock(kernel.mutex);
    kernel.master = false;
  }
  ASSERT_TRUE(sinks_[0]->submit(of(0, 2), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 3; }));
  {
    const std::lock_guard lock(kernel.mutex);
    kernel.master = true;
  }
  ASSERT_TRUE(commits(3));
  EXPECT_EQ(committed(2), (std::map<size_t, int>{{0, 2}, {1, 1}})) << "the other sink's picture, too";
  const std::lock_guard lock(kernel.mutex);
  EXPECT_NE(kernel.commits[2].mode, nullptr);
  EXPECT_EQ(kernel.commits[2].planes[1].in_fence, -1);
}

} // namespace
