// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames without a display: another process has it, or its plug is out.
#include "tests/unit/drm/committer_fixture.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

class Suspended : public CommitterTest {
protected:
  void set(bool master) {
    const std::lock_guard lock(kernel.mutex);
    kernel.master = master;
  }
  // One that switches the output on and another plane off.
  std::shared_ptr<DisplayFrame> first(uint64_t pts) {
    auto f = frame(pts);
    f->state.planes.push_back({7, nullptr, {}, {}, {}});
    f->state.mode =
        std::shared_ptr<ModeBlob>(reinterpret_cast<ModeBlob *>(this), [](ModeBlob *) {}); // never looked into
    return f;
  }
  Committer::Limits patient() const {
    Committer::Limits limits;
    limits.regain = 5ms;
    return limits;
  }
  bool shown(uint64_t n) {
    return kernel.wait([&] { return flipped.size() >= n; });
  }
};

TEST_F(Suspended, MasterLostAndRegained) {
  start(patient());
  ASSERT_TRUE(committer->submit(first(1), true));
  ASSERT_TRUE(shown(1));
  set(false);
  for (uint64_t pts = 2; pts < 8; ++pts) {
    auto submitted = committer->submit(frame(pts), true);
    ASSERT_TRUE(submitted) << "nothing blocks, nothing fails";
    EXPECT_EQ(*submitted, Committer::Submitted::Accepted);
  }
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 2; }));
  set(true);
  ASSERT_TRUE(shown(2));
  EXPECT_EQ(flipped.back(), 7u) << "the newest one";
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(committer->counters().suspensions, 1u);
  const std::lock_guard lock(kernel.mutex);
  EXPECT_EQ(notes.size(), 1u);
  const ScreenState &state = kernel.commits.back();
  EXPECT_NE(state.mode, nullptr) << "somebody else may have set another one";
  ASSERT_EQ(state.planes.size(), 2u);
  EXPECT_EQ(state.planes[1].plane, 7u);
}

TEST_F(Suspended, WithoutPatienceItIsAnError) {
  set(false);
  start();
  ASSERT_TRUE(committer->submit(frame(1), true));
  auto drained = committer->drain();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EACCES);
}

TEST_F(Suspended, EndOfStreamDoesNotWaitForADisplay) {
  set(false);
  start(patient());
  ASSERT_TRUE(committer->submit(first(1), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 1; }));
  auto drained = committer->drain();
  ASSERT_TRUE(drained);
  EXPECT_EQ(*drained, Committer::Submitted::Accepted);
}

TEST_F(Suspended, UnpluggedNothingIsCommitted) {
  start(patient());
  ASSERT_TRUE(committer->submit(first(1), true));
  ASSERT_TRUE(shown(1));
  committer->suspend(true);
  for (uint64_t pts = 2; pts < 8; ++pts) ASSERT_TRUE(committer->submit(frame(pts), pts % 2 == 0));
  {
    const std::lock_guard lock(kernel.mutex);
    EXPECT_EQ(kernel.attempts, 1);
  }
  committer->suspend(false);
  ASSERT_TRUE(shown(2));
  EXPECT_EQ(flipped.back(), 7u);
  EXPECT_EQ(committer->counters().dropped, 5u);
  const std::lock_guard lock(kernel.mutex);
  EXPECT_NE(kernel.commits.back().mode, nullptr);
}

TEST_F(Suspended, StopsAtOnce) {
  set(false);
  start(patient());
  ASSERT_TRUE(committer->submit(first(1), true));
  ASSERT_TRUE(kernel.wait([&] { return kernel.attempts >= 1; }));
  committer->stop();
  committer.reset();
  EXPECT_TRUE(flipped.empty());
}

} // namespace
