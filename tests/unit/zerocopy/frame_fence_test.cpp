// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipes stand in for dma-bufs: their reading end may be read when the "device" wrote, their writing end may be written
// when it is not full. The kernel's own fences: tests/lab/zerocopy.
#include "gst/zerocopy/frame_fence.h"

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include <gst/allocators/allocators.h>
#include <sys/mman.h>

#include <gtest/gtest.h>

#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

class FrameFence : public testing::Test {
protected:
  FrameFence() : allocator_(gst_dmabuf_allocator_new()), buffer_(gst_buffer_new()) {}
  ~FrameFence() override {
    gst_buffer_unref(buffer_);
    gst_object_unref(allocator_);
  }
  void append(int fd) {
    gst_buffer_append_memory(buffer_, gst_dmabuf_allocator_alloc(allocator_, UniqueFd::duplicate(fd).release(), 4096));
  }

  GstAllocator *allocator_;
  GstBuffer *buffer_;
};

TEST_F(FrameFence, NothingToWaitForInOtherMemory) {
  EXPECT_TRUE(frameFences(buffer_, Access::Read)->none());
  gst_buffer_append_memory(buffer_, gst_allocator_alloc(nullptr, 4096, nullptr));
  UniqueFd memory(memfd_create("a", MFD_CLOEXEC));
  append(memory.get()); // the allocator's test mode: always ready
  for (const Access access : {Access::Read, Access::Write, Access::ReadWrite}) {
    EXPECT_TRUE(frameFences(buffer_, access)->none());
    EXPECT_TRUE(waitForFrame(buffer_, access, 0ms));
  }
}

TEST_F(FrameFence, EachBufferIsLookedAtOnceAndLater) {
  Pipe y, uv;
  append(y.reader.get());
  append(uv.reader.get());
  // a part of the first one: another plane in the same buffer
  GstMemory *part = gst_memory_share(gst_buffer_peek_memory(buffer_, 0), 1024, 1024);
  gst_buffer_append_memory(buffer_, part);
  const size_t before = openFds();
  {
    auto fences = frameFences(buffer_, Access::Read);
    ASSERT_TRUE(fences) << fences.error().message();
    EXPECT_FALSE(fences->none());
    EXPECT_TRUE(fences->sync.isEmpty());
    ASSERT_EQ(fences->others.size(), 2u);
    EXPECT_EQ(fences->others[0].kind, Fence::Kind::DmaBufReady);
    const std::vector<Fence> all = std::move(*fences).take();
    EXPECT_EQ(all.size(), 2u);
  }
  EXPECT_EQ(openFds(), before);
  ASSERT_EQ(write(y.writer.get(), "x", 1), 1);
  EXPECT_EQ(frameFences(buffer_, Access::Read)->others.size(), 1u);
  ASSERT_EQ(write(uv.writer.get(), "x", 1), 1);
  EXPECT_TRUE(frameFences(buffer_, Access::Read)->none());
}

TEST_F(FrameFence, WritingWaitsForReaders) {
  Pipe pipe;
  append(pipe.writer.get());
  EXPECT_TRUE(frameFences(buffer_, Access::Write)->none());
  pipe.fill();
  for (const Access access : {Access::Write, Access::ReadWrite}) {
    auto fences = frameFences(buffer_, access);
    ASSERT_EQ(fences->others.size(), 1u);
    EXPECT_EQ(fences->others[0].kind, Fence::Kind::DmaBufIdle);
  }
}

TEST_F(FrameFence, AProducerThatIsGoneIsAnError) {
  Pipe good, gone;
  append(good.reader.get());
  append(gone.reader.get());
  gone.writer.reset();
  auto fences = frameFences(buffer_, Access::Read);
  ASSERT_FALSE(fences);
  EXPECT_EQ(fences.error().code, EPIPE);
  EXPECT_NE(fences.error().message().find("memory 1"), std::string::npos) << fences.error().message();
}

TEST_F(FrameFence, WaitsUntilTheFrameIsReady) {
  Pipe pipe;
  append(pipe.reader.get());
  auto waited = std::async(std::launch::async, [&] { return waitForFrame(buffer_, Access::Read, 60s); });
  EXPECT_EQ(waited.wait_for(20ms), std::future_status::timeout);
  ASSERT_EQ(write(pipe.writer.get(), "x", 1), 1);
  ASSERT_EQ(waited.wait_for(30s), std::future_status::ready);
  EXPECT_TRUE(waited.get());
}

TEST_F(FrameFence, WaitEndsAtItsTimeoutWithWordsForTheUser) {
  Pipe pipe;
  append(pipe.reader.get());
  const size_t before = openFds();
  for (const auto timeout : {-1ms, 0ms, 30ms}) {
    auto waited = waitForFrame(buffer_, Access::Read, timeout);
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code, ETIMEDOUT);
    EXPECT_NE(waited.error().message().find(std::to_string(timeout.count()) + " ms"), std::string::npos);
  }
  FencePoller::process().cancel(0);
  EXPECT_LE(openFds(), before + 3) << "at most the poller's own are new";
}

TEST_F(FrameFence, AnEndlessTimeoutIsNoTimeout) {
  Pipe pipe;
  append(pipe.reader.get());
  auto waited = std::async(std::launch::async,
                           [&] { return waitForFrame(buffer_, Access::Read, std::chrono::milliseconds::max()); });
  EXPECT_EQ(waited.wait_for(50ms), std::future_status::timeout);
  ASSERT_EQ(write(pipe.writer.get(), "x", 1), 1);
  EXPECT_TRUE(waited.get());
}

TEST_F(FrameFence, WaitCanBeInterrupted) {
  Pipe pipe;
  append(pipe.reader.get());
  std::atomic<bool> stop = false;
  auto fences = frameFences(buffer_, Access::Read);
  ASSERT_TRUE(fences);
  auto waited =
      std::async(std::launch::async, [&] { return waitForFences(fences.take(), 60s, [&] { return stop.load(); }); });
  EXPECT_EQ(waited.wait_for(50ms), std::future_status::timeout);
  stop = true;
  ASSERT_EQ(waited.wait_for(30s), std::future_status::ready);
  const auto end = waited.get();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, FenceOutcome::Cancelled);
}

// as drivers say of what a reset took away
TEST_F(FrameFence, AProducerThatWasCancelledIsNoInterruption) {
  Pipe pipe;
  ASSERT_EQ(write(pipe.writer.get(), "x", 1), 1);
  FrameFences fences;
  fences.others.push_back({Fence::Kind::Event, std::move(pipe.reader), [] { return ECANCELED; }});
  const auto end = waitForFences(std::move(fences), 60s, [] { return false; });
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome, FenceOutcome::Failed);
  EXPECT_EQ(end->error, ECANCELED);
}

TEST_F(FrameFence, WaitTellsOfAProducerThatGoesAway) {
  Pipe pipe;
  append(pipe.reader.get());
  auto waited = std::async(std::launch::async, [&] { return waitForFrame(buffer_, Access::Read, 60s); });
  std::this_thread::sleep_for(20ms);
  pipe.writer.reset();
  ASSERT_EQ(waited.wait_for(30s), std::future_status::ready);
  const Status status = waited.get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EPIPE);
}

TEST(FenceError, EachOutcomeHasItsWords) {
  const Error late = fenceError({FenceOutcome::TimedOut, ETIMEDOUT, 1}, 1000ms);
  EXPECT_EQ(late.code, ETIMEDOUT);
  EXPECT_NE(late.message().find("1000 ms"), std::string::npos);
  EXPECT_FALSE(late.remedy.empty());
  EXPECT_EQ(fenceError({FenceOutcome::Failed, ENOENT, 1}, 1000ms).code, ENOENT);
  EXPECT_EQ(fenceError({FenceOutcome::Cancelled, ECANCELED, 1}, 1000ms).code, ECANCELED);
}

} // namespace
