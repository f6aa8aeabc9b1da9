// SPDX-License-Identifier: LGPL-2.1-or-later
// The gate of external semaphores on stand-ins. The kernel's fences are eventfds here, of which this program says
// itself that they are sync_files: no ordinary kernel lets a test make one.
#include <cerrno>
#include <cstdarg>
#include <optional>

#include <linux/sync_file.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "ext/cuda/sync/semaphore_gate.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using gstzc::test::openFds;

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  if (request != SYNC_IOC_FILE_INFO) return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  pollfd asked = {fd, POLLIN, 0};
  if (poll(&asked, 1, 0) < 0 || (asked.revents & POLLNVAL) != 0) {
    errno = EBADF;
    return -1;
  }
  auto *info = static_cast<sync_file_info *>(argument);
  const int status = (asked.revents & POLLIN) != 0;
  if (info->num_fences > 0) {
    auto *fence = reinterpret_cast<sync_fence_info *>(static_cast<uintptr_t>(info->sync_fence_info));
    *fence = {};
    fence->status = status;
  }
  info->num_fences = 1;
  info->status = status;
  return 0;
}

namespace {

using Clock = StreamGate::Clock;
using namespace std::chrono_literals;

class TestFence {
public:
  TestFence() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  void signal() const { EXPECT_EQ(eventfd_write(fd_.get(), 1), 0); }
  Fence fence(Fence::Kind kind = Fence::Kind::SyncFile) const { return {kind, UniqueFd::duplicate(fd_.get()), {}}; }

private:
  UniqueFd fd_;
};

std::vector<Fence> list(const TestFence &fence) {
  std::vector<Fence> fences;
  fences.push_back(fence.fence());
  return fences;
}

class SemaphoreGateTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    SOFTVULKAN(softvulkan_forget_misuses)();
    gate = need(makeSemaphoreGate(context));
    ASSERT_TRUE(gate);
  }
  void TearDown() override {
    SOFTVULKAN(softvulkan_refuse)("");
    SOFTVULKAN(softvulkan_without)("");
    gate.reset();
    (void)makeSemaphoreGate(context); // sweeps what still had to wait
    EXPECT_EQ(SOFTVULKAN(softvulkan_live)(), 0u);
    EXPECT_EQ(SOFTVULKAN(softvulkan_misuses)(), 0u) << SOFTVULKAN(softvulkan_misuse_list)();
    DeviceTest::TearDown();
  }
  Status hold(const TestFence &fence, Clock::duration patience = kPatience) {
    outcome.reset();
    return gate->hold(stream.get(), list(fence), Clock::now() + patience, [this](const FenceResult &result) {
      EXPECT_FALSE(outcome.load_now()) << "told twice";
      outcome.store(result.outcome);
    });
  }

  // How the last hold ended.
  class Outcome {
  public:
    void reset() { value_ = -1; }
    void store(FenceOutcome outcome) { value_ = static_cast<int>(outcome); }
    bool load_now() const { return value_ >= 0; }
    bool becomes(FenceOutcome outcome) const {
      return eventually([&] { return value_ == static_cast<int>(outcome); });
    }

  private:
    std::atomic<int> value_ = -1;
  } outcome;
  std::unique_ptr<StreamGate> gate;
};

TEST_F(SemaphoreGateTest, DeviceGoesOnWithTheFence) {
  EXPECT_STREQ(gate->name(), "external-semaphore");
  Work work(context);
  for (uint32_t frame = 1; frame <= 5; ++frame) { // the same semaphore comes round
    const TestFence fence;
    work.setSource(0);
    ASSERT_TRUE(hold(fence).ok());
    work.enqueue(stream.get());
    EXPECT_EQ(gate->pending(), 1u);
    EXPECT_FALSE(becomesIdle(context, stream.get(), kGlance));
    work.setSource(frame);
    fence.signal();
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    EXPECT_EQ(work.result(), frame);
    EXPECT_TRUE(outcome.becomes(FenceOutcome::Signalled));
    EXPECT_TRUE(eventually([&] { return gate->pending() == 0; }));
  }
}

TEST_F(SemaphoreGateTest, FencesThatAreOverCostNothing) {
  const TestFence fence;
  fence.signal();
  const long before = TestedDriver::calls();
  ASSERT_TRUE(hold(fence).ok());
  EXPECT_EQ(TestedDriver::calls(), before);
  EXPECT_TRUE(outcome.becomes(FenceOutcome::Signalled));
  ASSERT_TRUE(gate->hold(stream.get(), {}, Clock::now() + kPatience, {}).ok());
  EXPECT_TRUE(idle(context, stream.get()));
}

TEST_F(SemaphoreGateTest, AllFencesOfAFrameCount) {
  const TestFence first, second;
  std::vector<Fence> fences = list(first);
  fences.push_back(second.fence());
  ASSERT_TRUE(gate->hold(stream.get(), std::move(fences), Clock::now() + kPatience, {}).ok());
  second.signal();
  EXPECT_FALSE(becomesIdle(context, stream.get(), kGlance));
  first.signal();
  EXPECT_TRUE(becomesIdle(context, stream.get()));
}

TEST_F(SemaphoreGateTest, FramesInFlight) {
  std::vector<TestFence> fences(6);
  for (const TestFence &fence : fences)
    ASSERT_TRUE(gate->hold(stream.get(), list(fence), Clock::now() + kPatience, {}).ok());
  EXPECT_EQ(gate->pending(), 6u);
  for (const TestFence &fence : fences) {
    EXPECT_FALSE(becomesIdle(context, stream.get(), 5ms));
    fence.signal();
  }
  EXPECT_TRUE(becomesIdle(context, stream.get()));
}

TEST_F(SemaphoreGateTest, DeadlineLetsPass) {
  const TestFence fence;
  ASSERT_TRUE(hold(fence, 50ms).ok());
  EXPECT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_TRUE(outcome.becomes(FenceOutcome::TimedOut));

  // the queue still waits for that fence: later frames would, too
  const TestFence next;
  const auto refused = hold(next);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EBUSY);
  EXPECT_FALSE(outcome.load_now());
  EXPECT_TRUE(idle(context, stream.get()));

  fence.signal();
  EXPECT_TRUE(eventually([&] { return hold(next).ok(); }));
  next.signal();
  EXPECT_TRUE(becomesIdle(context, stream.get()));
}

TEST_F(SemaphoreGateTest, OpenLetsPass) {
  std::vector<TestFence> fences(3);
  std::atomic<int> cancelled = 0;
  for (const TestFence &fence : fences)
    ASSERT_TRUE(gate->hold(stream.get(), list(fence), Clock::now() + kPatience,
                           [&](const FenceResult &result) { cancelled += result.outcome == FenceOutcome::Cancelled; })
                    .ok());
  gate->open();
  EXPECT_EQ(cancelled, 3);
  EXPECT_EQ(gate->pending(), 0u);
  EXPECT_TRUE(becomesIdle(context, stream.get()));
  for (const TestFence &fence : fences) fence.signal();

  gate->keepOpen(true);
  const TestFence during;
  ASSERT_TRUE(hold(during).ok());
  EXPECT_TRUE(outcome.becomes(FenceOutcome::Cancelled));
  EXPECT_TRUE(idle(context, stream.get()));
  gate->keepOpen(false);
  EXPECT_TRUE(eventually([&] { return hold(during).ok(); }));
  EXPECT_FALSE(becomesIdle(context, stream.get(), kGlance));
  during.signal();
  EXPECT_TRUE(becomesIdle(context, stream.get()));
}

TEST_F(SemaphoreGateTest, GoesWhileAFenceIsPending) {
  const TestFence fence;
  ASSERT_TRUE(hold(fence).ok());
  gate.reset();
  EXPECT_TRUE(outcome.becomes(FenceOutcome::Cancelled));
  EXPECT_TRUE(becomesIdle(context, stream.get()));
  fence.signal();
  EXPECT_TRUE(eventually([&] {
    gate = need(makeSemaphoreGate(context)); // sweeps
    gate.reset();
    return SOFTVULKAN(softvulkan_live)() == 0;
  }));
}

TEST_F(SemaphoreGateTest, OtherFencesGoTheOtherWay) {
  const TestFence event;
  std::vector<Fence> fences;
  fences.push_back(event.fence(Fence::Kind::Event));
  const auto refused = gate->hold(stream.get(), std::move(fences), Clock::now() + kPatience, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EOPNOTSUPP);

  gate = need(makeSemaphoreGate(context, FencePoller::process(), need(makeWordGate(context))));
  fences.clear();
  fences.push_back(event.fence(Fence::Kind::Event));
  Work work(context);
  work.setSource(0);
  ASSERT_TRUE(gate->hold(stream.get(), std::move(fences), Clock::now() + kPatience, {}).ok());
  work.enqueue(stream.get());
  EXPECT_EQ(gate->pending(), 1u);
  EXPECT_FALSE(becomesIdle(context, stream.get(), kGlance));
  work.setSource(7);
  event.signal();
  EXPECT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work.result(), 7u);
}

TEST_F(SemaphoreGateTest, SaysWhyNot) {
  const struct {
    const char *without, *said;
  } cases[] = {{"VK_KHR_external_semaphore_fd", "sync_files"}};
  for (const auto &c : cases) {
    SOFTVULKAN(softvulkan_without)(c.without);
    const auto made = makeSemaphoreGate(context);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message().find(c.said), std::string::npos) << made.error().message();
  }
}

TEST_F(SemaphoreGateTest, WhatARefusalLeaves) {
  const TestFence fence;
  SOFTVULKAN(softvulkan_refuse)("sync-fd-import");
  EXPECT_FALSE(hold(fence).ok());
  EXPECT_TRUE(idle(context, stream.get()));
  SOFTVULKAN(softvulkan_refuse)("");

  const size_t fds = openFds();
  TestedDriver::failFunction(Fn::cuWaitExternalSemaphoresAsync, CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(hold(fence).ok());
  TestedDriver::reset();
  EXPECT_FALSE(outcome.load_now()) << "an error is the answer";
  EXPECT_EQ(gate->pending(), 0u);
  EXPECT_TRUE(idle(context, stream.get()));
  fence.signal();
  EXPECT_TRUE(eventually([&] { return openFds() <= fds + 3; })) << "semaphore and event of the gate";
}

TEST_F(SemaphoreGateTest, EveryCallMayFail) {
  for (long n = 1; n < 100; ++n) {
    gate = need(makeSemaphoreGate(context));
    const TestFence fence;
    TestedDriver::failCall(n);
    const auto held = hold(fence);
    const bool failed = TestedDriver::hasFailed();
    TestedDriver::reset();
    EXPECT_EQ(becomesIdle(context, stream.get(), 5ms), !held.ok()) << "after a failure of call " << n;
    fence.signal();
    EXPECT_TRUE(becomesIdle(context, stream.get())) << "after a failure of call " << n;
    if (!failed) {
      EXPECT_TRUE(held.ok());
      EXPECT_GT(n, 3);
      return;
    }
  }
  FAIL() << "it calls the driver without end";
}

TEST_F(SemaphoreGateTest, MissingWaitIsNoticed) {
  Work work(context);
  uint32_t frame = 0;
  expectNoticed("semaphore-gate", [&](std::chrono::milliseconds patience) {
    const TestFence fence;
    ++frame;
    work.setSource(0);
    EXPECT_TRUE(hold(fence).ok());
    work.enqueue(stream.get());
    becomesIdle(context, stream.get(), patience);
    work.setSource(frame);
    fence.signal();
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    return work.result() == frame;
  });
}

} // namespace
