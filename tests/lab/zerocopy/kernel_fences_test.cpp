// SPDX-License-Identifier: LGPL-2.1-or-later
// Fences in the reservation objects of dma-bufs: vgem's own, and sw_sync's imported into udmabufs.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <thread>

#include <drm/vgem_drm.h>
#include <gst/allocators/allocators.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <xf86drm.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/frame_fence.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/lab/support/vgem_fence.h"
#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

constexpr size_t kSize = 4096;
constexpr Access kAll[] = {Access::Read, Access::Write, Access::ReadWrite};

template <typename T> T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message();
    std::abort();
  }
  return result.take();
}

lab::VgemBuffer vgem() { return must(lab::VgemBuffer::create(kSize)); }
UniqueFd udmabuf() { return must(lab::allocateUdmabuf(kSize)); }
lab::SwTimeline timeline() { return must(lab::SwTimeline::create()); }

// what has to be waited for before this access: nothing pending is empty
bool busy(int dmabuf, Access access) {
  const SyncFile fence = must(exportFence(dmabuf, access));
  EXPECT_TRUE(fence.isEmpty() || fence.status().pending);
  return !fence.isEmpty();
}

short polled(int dmabuf) {
  pollfd request = {dmabuf, POLLIN | POLLOUT, 0};
  return poll(&request, 1, 0) == 1 ? request.revents : static_cast<short>(0);
}

// ---- vgem: a device that reads or writes ----

TEST(KernelFences, AnIdleBufferIsFree) {
  const auto buffer = vgem();
  const UniqueFd other = udmabuf();
  for (const int fd : {buffer.dmabuf(), other.get()}) {
    for (const Access access : kAll) EXPECT_FALSE(busy(fd, access));
    EXPECT_EQ(polled(fd), POLLIN | POLLOUT);
  }
}

TEST(KernelFences, AReaderBlocksWritersOnly) {
  auto buffer = vgem();
  const uint32_t fence = must(buffer.attach(Access::Read));
  EXPECT_FALSE(busy(buffer.dmabuf(), Access::Read));
  EXPECT_TRUE(busy(buffer.dmabuf(), Access::Write));
  EXPECT_TRUE(busy(buffer.dmabuf(), Access::ReadWrite));
  EXPECT_EQ(polled(buffer.dmabuf()), POLLIN);
  must(buffer.signal(fence));
  for (const Access access : kAll) EXPECT_FALSE(busy(buffer.dmabuf(), access));
}

TEST(KernelFences, AWriterBlocksAll) {
  auto buffer = vgem();
  const uint32_t fence = must(buffer.attach(Access::Write));
  for (const Access access : kAll) EXPECT_TRUE(busy(buffer.dmabuf(), access));
  EXPECT_EQ(polled(buffer.dmabuf()), 0);
  must(buffer.signal(fence));
  for (const Access access : kAll) EXPECT_FALSE(busy(buffer.dmabuf(), access));
  EXPECT_EQ(polled(buffer.dmabuf()), POLLIN | POLLOUT);
}

TEST(KernelFences, WhatWasExportedSignalsWithTheDevice) {
  auto buffer = vgem();
  const uint32_t fence = must(buffer.attach(Access::Write));
  const SyncFile before = must(exportFence(buffer.dmabuf(), Access::Read));
  EXPECT_TRUE(before.status().pending);
  must(buffer.signal(fence));
  EXPECT_TRUE(before.status().signalled());
}

TEST(KernelFences, ConflictsAndMistakesAreRefused) {
  auto buffer = vgem();
  const uint32_t fence = must(buffer.attach(Access::Write));
  EXPECT_EQ(buffer.attach(Access::Write).error().code, EBUSY);
  EXPECT_EQ(buffer.attach(Access::Read).error().code, EBUSY);
  must(buffer.signal(fence));
  EXPECT_EQ(buffer.signal(fence).error().code, ENOENT);
  EXPECT_EQ(buffer.signal(12345).error().code, ENOENT);

  const UniqueFd card = must(lab::openCard("vgem"));
  const auto attach = [&](uint32_t handle, uint32_t flags, uint32_t pad) {
    drm_vgem_fence_attach request = {};
    request.handle = handle;
    request.flags = flags;
    request.pad = pad;
    return drmIoctl(card.get(), DRM_IOCTL_VGEM_FENCE_ATTACH, &request) == 0 ? 0 : errno;
  };
  EXPECT_EQ(attach(12345, 0, 0), ENOENT);
  EXPECT_EQ(attach(1, 1u << 31, 0), EINVAL);
  EXPECT_EQ(attach(1, 0, 1), EINVAL);
}

TEST(KernelFences, AProducerThatHangsMeetsOurDeadlineFirst) {
  auto buffer = vgem();
  const uint32_t hanging = must(buffer.attach(Access::Write));
  const auto start = FencePoller::Clock::now();
  const SyncFile fence = must(exportFence(buffer.dmabuf(), Access::Read));
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(Fence::of(fence.duplicate().take()), in(100ms), record.as(1)));
  ASSERT_TRUE(poller.watch(Fence::of(fence.duplicate().take()), notSoon(), record.as(2)));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].first, 1);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(poller.counters().timed_out, 1u);
  EXPECT_TRUE(fence.status().pending);
  EXPECT_TRUE(busy(buffer.dmabuf(), Access::Read)) << "nor may anybody else have it";

  // the driver itself gives up after 10 s and does not call that an error
  ASSERT_TRUE(record.reaches(2));
  EXPECT_GE(FencePoller::Clock::now() - start, 9s);
  EXPECT_EQ(record.ended()[1].second.outcome, FenceOutcome::Signalled);
  EXPECT_FALSE(busy(buffer.dmabuf(), Access::Write));
  EXPECT_EQ(buffer.signal(hanging).error().code, ETIMEDOUT) << "only its producer hears that it was late";
}

// ---- fences imported into buffers that have no device ----

TEST(KernelFences, ImportedForReadingBlocksWriters) {
  const UniqueFd buffer = udmabuf();
  auto clock = timeline();
  must(importFence(buffer.get(), must(clock.fence(1)), Access::Read));
  EXPECT_FALSE(busy(buffer.get(), Access::Read));
  EXPECT_TRUE(busy(buffer.get(), Access::Write));
  EXPECT_EQ(polled(buffer.get()), POLLIN);
  must(clock.advance(1));
  EXPECT_FALSE(busy(buffer.get(), Access::Write));
  EXPECT_EQ(polled(buffer.get()), POLLIN | POLLOUT);
}

TEST(KernelFences, ImportedForWritingBlocksAll) {
  for (const Access access : {Access::Write, Access::ReadWrite}) {
    const UniqueFd buffer = udmabuf();
    auto clock = timeline();
    must(importFence(buffer.get(), must(clock.fence(1)), access));
    EXPECT_TRUE(busy(buffer.get(), Access::Read));
    EXPECT_TRUE(busy(buffer.get(), Access::Write));
    EXPECT_EQ(polled(buffer.get()), 0);
    must(clock.advance(1));
    EXPECT_FALSE(busy(buffer.get(), Access::Write));
    EXPECT_EQ(polled(buffer.get()), POLLIN | POLLOUT);
  }
}

TEST(KernelFences, ImportedIntoAHeapsBufferTheyCountToo) {
  const UniqueFd buffer = must(lab::allocateHeap(kSize));
  auto clock = timeline();
  must(importFence(buffer.get(), must(clock.fence(1)), Access::Write));
  EXPECT_TRUE(busy(buffer.get(), Access::Read));
}

TEST(KernelFences, TwoReadersAndOneWriter) {
  const UniqueFd buffer = udmabuf();
  lab::SwTimeline readers[] = {timeline(), timeline()};
  auto writer = timeline();
  for (auto &reader : readers) must(importFence(buffer.get(), must(reader.fence(1)), Access::Read));
  const SyncFile both = must(exportFence(buffer.get(), Access::Write));
  EXPECT_EQ(must(both.info()).fences.size(), 2u);
  must(importFence(buffer.get(), must(writer.fence(1)), Access::Write));
  EXPECT_TRUE(busy(buffer.get(), Access::Read)) << "the writer";

  must(readers[1].advance(1));
  EXPECT_TRUE(both.status().pending);
  must(readers[0].advance(1));
  EXPECT_TRUE(both.status().signalled()) << "the writer came later";
  EXPECT_TRUE(busy(buffer.get(), Access::Write));
  must(writer.advance(1));
  EXPECT_FALSE(busy(buffer.get(), Access::Write));
}

TEST(KernelFences, ManyReadersBlockWritersUntilTheLast) {
  const UniqueFd buffer = udmabuf();
  std::vector<lab::SwTimeline> readers;
  for (int i = 0; i < 32; ++i) {
    readers.push_back(timeline());
    must(importFence(buffer.get(), must(readers.back().fence(1)), Access::Read));
    EXPECT_FALSE(busy(buffer.get(), Access::Read));
  }
  const SyncFile all = must(exportFence(buffer.get(), Access::Write));
  EXPECT_EQ(must(all.info()).fences.size(), 32u);
  auto writer = timeline();
  must(importFence(buffer.get(), must(writer.fence(1)), Access::Write));
  EXPECT_TRUE(busy(buffer.get(), Access::Read)) << "one writer blocks readers";
  for (auto &reader : readers) {
    EXPECT_TRUE(all.status().pending);
    must(reader.advance(1));
  }
  EXPECT_TRUE(all.status().signalled());
}

TEST(KernelFences, WhatWasExportedDoesNotFollowLaterFences) {
  const UniqueFd buffer = udmabuf();
  auto first = timeline(), later = timeline();
  must(importFence(buffer.get(), must(first.fence(1)), Access::Write));
  const SyncFile then = must(exportFence(buffer.get(), Access::Read));
  must(importFence(buffer.get(), must(later.fence(1)), Access::Write));
  must(first.advance(1));
  EXPECT_TRUE(then.status().signalled());
  EXPECT_TRUE(busy(buffer.get(), Access::Read));
  EXPECT_EQ(polled(buffer.get()), 0) << "polling the buffer does follow them";
}

TEST(KernelFences, AMergedFenceIsImportedInItsParts) {
  const UniqueFd buffer = udmabuf();
  lab::SwTimeline clocks[] = {timeline(), timeline(), timeline()};
  const SyncFile a = must(clocks[0].fence(1)), b = must(clocks[1].fence(1)), c = must(clocks[2].fence(1));
  const SyncFile merged = must(mergeFences(std::vector<const SyncFile *>{&a, &b, &c}));
  must(importFence(buffer.get(), merged, Access::Write));
  EXPECT_EQ(must(must(exportFence(buffer.get(), Access::Read)).info()).fences.size(), 3u);
  must(clocks[1].advance(1));
  EXPECT_EQ(must(must(exportFence(buffer.get(), Access::Read)).info()).fences.size(), 2u);
}

TEST(KernelFences, ImportOfWhatIsNoFenceIsAnError) {
  const UniqueFd buffer = udmabuf();
  const auto import = [&](int fd, uint32_t flags) {
    dma_buf_import_sync_file request = {};
    request.flags = flags;
    request.fd = fd;
    return ioctl(buffer.get(), DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &request) == 0 ? 0 : errno;
  };
  EventSource event;
  for (const int fd : {-1, 100000, buffer.get(), event.fd()}) EXPECT_EQ(import(fd, DMA_BUF_SYNC_READ), EINVAL) << fd;
  auto clock = timeline();
  const SyncFile fence = must(clock.fence(1));
  EXPECT_EQ(importFence(event.fd(), fence, Access::Read).error().code, EINVAL) << "no dma-buf";
  EXPECT_EQ(importFence(-1, fence, Access::Read).error().code, EBADF);
  EXPECT_EQ(importFence(100000, fence, Access::Read).error().code, EBADF);
  for (const uint32_t flags : {0u, 4u, 1u << 31}) {
    EXPECT_EQ(import(fence.fd(), flags), EINVAL) << flags;
    EXPECT_EQ(importFence(buffer.get(), fence, static_cast<Access>(flags)).error().code, EINVAL) << flags;
    EXPECT_EQ(exportFence(buffer.get(), static_cast<Access>(flags)).error().code, EINVAL) << flags;
  }
  EXPECT_FALSE(busy(buffer.get(), Access::ReadWrite)) << "nothing came in";
}

TEST(KernelFences, OutOfOrderOverFourBuffers) {
  lab::VgemBuffer buffers[] = {vgem(), vgem(), vgem(), vgem()};
  Record record;
  FencePoller poller;
  uint32_t fences[4];
  for (int i = 0; i < 4; ++i) {
    fences[i] = must(buffers[i].attach(Access::Write));
    ASSERT_TRUE(poller.watch(Fence::of(must(exportFence(buffers[i].dmabuf(), Access::Read))), notSoon(), record.as(i)));
  }
  const int order[] = {3, 1, 0, 2};
  for (size_t n = 0; n < 4; ++n) {
    must(buffers[order[n]].signal(fences[order[n]]));
    ASSERT_TRUE(record.reaches(n + 1));
    EXPECT_EQ(record.ended()[n].first, order[n]);
    EXPECT_EQ(record.ended()[n].second.outcome, FenceOutcome::Signalled);
  }
}

// For kernels that export no sync files: the poller listens to the buffer.
TEST(KernelFences, TheBufferItselfCanBeWaitedFor) {
  const UniqueFd buffer = udmabuf();
  auto reader = timeline(), writer = timeline();
  must(importFence(buffer.get(), must(reader.fence(1)), Access::Read));
  must(importFence(buffer.get(), must(writer.fence(1)), Access::Write));
  Record record;
  FencePoller poller;
  EXPECT_FALSE(fenceNow(Fence::Kind::DmaBufReady, buffer.get()));
  for (const auto kind : {Fence::Kind::DmaBufReady, Fence::Kind::DmaBufIdle}) {
    ASSERT_TRUE(poller.watch({kind, UniqueFd::duplicate(buffer.get()), {}}, in(100ms), record.as(1)));
    ASSERT_TRUE(poller.watch({kind, UniqueFd::duplicate(buffer.get()), {}}, notSoon(),
                             record.as(kind == Fence::Kind::DmaBufReady ? 2 : 3)));
  }
  ASSERT_TRUE(record.reaches(2));
  must(writer.advance(1));
  ASSERT_TRUE(record.reaches(3));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(record.size(), 3u) << "somebody is reading";
  must(reader.advance(1));
  ASSERT_TRUE(record.reaches(4));
  const auto ended = record.ended();
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(ended[i].second.outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(ended[2].first, 2);
  EXPECT_EQ(ended[3].first, 3);
  for (size_t i = 2; i < 4; ++i) EXPECT_EQ(ended[i].second.outcome, FenceOutcome::Signalled);
}

TEST(KernelFences, SizeAndCpuAccessOfDmaBufs) {
  const auto buffer = vgem();
  const UniqueFd other = udmabuf();
  for (const int fd : {buffer.dmabuf(), other.get()}) {
    EXPECT_TRUE(isDmaBuf(fd));
    EXPECT_EQ(must(fileSize(fd)), kSize);
    const DmaBufCpuScope scope(fd, Access::ReadWrite);
    EXPECT_TRUE(scope.ok()) << scope.error();
  }
}

TEST(KernelFences, NothingLeaksFromBuffers) {
  const UniqueFd buffer = udmabuf();
  auto clock = timeline();
  const SyncFile fence = must(clock.fence(1));
  const size_t before = openFds();
  for (int i = 0; i < 500; ++i) {
    must(importFence(buffer.get(), fence, i % 2 ? Access::Read : Access::Write));
    EXPECT_TRUE(must(exportFence(buffer.get(), Access::Write)).status().pending);
    EXPECT_FALSE(importFence(buffer.get(), fence, static_cast<Access>(0)));
    EXPECT_FALSE(exportFence(-1, Access::Read));
  }
  EXPECT_EQ(must(must(exportFence(buffer.get(), Access::Write)).info()).fences.size(), 2u) << "as reader and as writer";
  EXPECT_EQ(openFds(), before);
}

// ---- a frame with planes in two buffers ----

class KernelFrame : public testing::Test {
protected:
  KernelFrame()
      : luma_(vgem()), chroma_(udmabuf()), clock_(timeline()), allocator_(gst_dmabuf_allocator_new()),
        frame_(gst_buffer_new()) {
    for (const int fd : {luma_.dmabuf(), chroma_.get()})
      gst_buffer_append_memory(frame_,
                               gst_dmabuf_allocator_alloc(allocator_, UniqueFd::duplicate(fd).release(), kSize));
  }
  ~KernelFrame() override {
    gst_buffer_unref(frame_);
    gst_object_unref(allocator_);
  }

  lab::VgemBuffer luma_;
  UniqueFd chroma_;
  lab::SwTimeline clock_;
  GstAllocator *allocator_;
  GstBuffer *frame_;
};

TEST_F(KernelFrame, HasOneFenceOfAllItsWriters) {
  EXPECT_TRUE(must(frameFences(frame_, Access::Read)).none());
  const size_t before = openFds();
  {
    const uint32_t fence = must(luma_.attach(Access::Write));
    must(importFence(chroma_.get(), must(clock_.fence(1)), Access::Write));
    const FrameFences fences = must(frameFences(frame_, Access::Read));
    EXPECT_TRUE(fences.others.empty());
    EXPECT_EQ(must(fences.sync.info()).fences.size(), 2u);
    must(clock_.advance(1));
    EXPECT_TRUE(fences.sync.status().pending);
    must(luma_.signal(fence));
    EXPECT_TRUE(fences.sync.status().signalled());
    EXPECT_TRUE(must(frameFences(frame_, Access::Write)).none());
  }
  EXPECT_EQ(openFds(), before);
}

TEST_F(KernelFrame, MayBeReadWhileItIsRead) {
  const uint32_t fence = must(luma_.attach(Access::Read));
  EXPECT_TRUE(must(frameFences(frame_, Access::Read)).none());
  EXPECT_TRUE(must(frameFences(frame_, Access::Write)).sync.status().pending);
  EXPECT_TRUE(waitForFrame(frame_, Access::Read, 0ms));
  must(luma_.signal(fence));
}

TEST_F(KernelFrame, IsWaitedFor) {
  const uint32_t fence = must(luma_.attach(Access::Write));
  must(importFence(chroma_.get(), must(clock_.fence(1)), Access::Write));
  EXPECT_EQ(waitForFrame(frame_, Access::Read, 50ms).error().code, ETIMEDOUT);
  const auto interrupted = waitForFences(must(frameFences(frame_, Access::Read)), 60s, [] { return true; });
  ASSERT_TRUE(interrupted);
  EXPECT_EQ(interrupted->outcome, FenceOutcome::Cancelled);
  auto waited = std::async(std::launch::async, [&] { return waitForFrame(frame_, Access::Read, 60s); });
  must(luma_.signal(fence));
  EXPECT_EQ(waited.wait_for(50ms), std::future_status::timeout);
  must(clock_.advance(1));
  ASSERT_EQ(waited.wait_for(30s), std::future_status::ready);
  EXPECT_TRUE(waited.get());
}

TEST_F(KernelFrame, WaitTellsOfAnErrorWhenAllWritersAreDone) {
  const uint32_t fence = must(luma_.attach(Access::Write));
  must(importFence(chroma_.get(), must(clock_.fence(1)), Access::Write));
  auto waited = std::async(std::launch::async, [&] { return waitForFrame(frame_, Access::Read, 60s); });
  std::this_thread::sleep_for(50ms);
  clock_.close();
  EXPECT_EQ(waited.wait_for(50ms), std::future_status::timeout) << "the other plane is still being written";
  must(luma_.signal(fence));
  ASSERT_EQ(waited.wait_for(30s), std::future_status::ready);
  const Status status = waited.get();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENOENT) << status.error().message();
}

} // namespace
