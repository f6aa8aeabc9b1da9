// SPDX-License-Identifier: LGPL-2.1-or-later
// Sync files with sw_sync's fences: signal, error, merge, wait, deadline hint, other processes.
#include "gst/zerocopy/core/sync_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include <linux/sync_file.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <xf86drm.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

lab::SwTimeline timeline() {
  auto made = lab::SwTimeline::create();
  if (!made) {
    ADD_FAILURE() << made.error().message();
    std::abort();
  }
  return made.take();
}

SyncFile at(const lab::SwTimeline &timeline, uint32_t value) {
  auto fence = timeline.fence(value);
  if (!fence) {
    ADD_FAILURE() << fence.error().message();
    return SyncFile();
  }
  return fence.take();
}

SyncFile merge(std::initializer_list<const SyncFile *> fences) {
  auto merged = mergeFences(std::vector<const SyncFile *>(fences));
  if (!merged) {
    ADD_FAILURE() << merged.error().message();
    return SyncFile();
  }
  return merged.take();
}

Fence fenceOf(const SyncFile &file) { return Fence::of(file.duplicate().take()); }

bool readable(int fd, int timeout_ms = 0) {
  pollfd request = {fd, POLLIN, 0};
  return poll(&request, 1, timeout_ms) == 1 && (request.revents & POLLIN) != 0;
}

// the kernel's own word on the whole
int kernelStatus(const SyncFile &fence) {
  sync_file_info info = {};
  EXPECT_EQ(ioctl(fence.fd(), SYNC_IOC_FILE_INFO, &info), 0);
  return info.status;
}

// ---- one fence ----

TEST(KernelSyncFile, SignalsAndTellsWhen) {
  auto clock = timeline();
  const SyncFile fence = at(clock, 1);
  EXPECT_TRUE(fence.status().pending);
  EXPECT_EQ(fence.info()->signalledAt(), 0u);
  EXPECT_EQ(fence.info()->fences.size(), 1u);
  EXPECT_EQ(fence.info()->fences[0].timeline.empty(), false);
  const auto before = FencePoller::Clock::now();
  ASSERT_TRUE(clock.advance(1));
  const auto after = FencePoller::Clock::now();
  uint64_t time = 0;
  EXPECT_TRUE(syncFileStatus(fence.fd(), &time).signalled());
  EXPECT_GE(time, static_cast<uint64_t>(before.time_since_epoch().count()));
  EXPECT_LE(time, static_cast<uint64_t>(after.time_since_epoch().count())) << "the monotonic clock's";
  EXPECT_EQ(fence.info()->signalledAt(), time);
}

TEST(KernelSyncFile, OfAValueThatWasReachedHasSignalled) {
  auto clock = timeline();
  ASSERT_TRUE(clock.advance(3));
  EXPECT_TRUE(at(clock, 2).status().signalled());
}

TEST(KernelSyncFile, OfAClosedTimelineIsReadableAndFailed) {
  auto clock = timeline();
  const SyncFile good = at(clock, 1), bad = at(clock, 2);
  ASSERT_TRUE(clock.advance(1));
  clock.close();
  EXPECT_TRUE(readable(bad.fd()));
  EXPECT_FALSE(bad.status().pending);
  EXPECT_FALSE(bad.status().signalled());
  EXPECT_EQ(bad.status().error, ENOENT);
  EXPECT_EQ(bad.info()->status.error, ENOENT);
  EXPECT_TRUE(good.status().signalled()) << "it had signalled before";
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(fenceOf(bad), notSoon(), record.as(1)));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Failed);
  EXPECT_EQ(record.ended()[0].second.error, ENOENT);
}

TEST(KernelSyncFile, ThePollerSeesSignalsWithTheKernelsTime) {
  auto clock = timeline();
  const SyncFile fence = at(clock, 1);
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(fenceOf(fence), notSoon(), record.as(1)));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(record.size(), 0u);
  ASSERT_TRUE(clock.advance(1));
  ASSERT_TRUE(record.reaches(1));
  uint64_t time = 0;
  syncFileStatus(fence.fd(), &time);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled);
  EXPECT_EQ(record.ended()[0].second.time_ns, time);
}

TEST(KernelSyncFile, AWaitOnAnActiveFenceTimesOut) {
  auto clock = timeline();
  const SyncFile fence = at(clock, 1);
  EXPECT_FALSE(readable(fence.fd(), 20));
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(fenceOf(fence), in(50ms), record.as(1)));
  ASSERT_TRUE(record.reaches(1));
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::TimedOut);
  EXPECT_TRUE(fence.status().pending) << "and is no error";
}

TEST(KernelSyncFile, AdoptAndDuplicateKeepTheFence) {
  auto clock = timeline();
  SyncFile fence = at(clock, 1);
  auto borrowed = SyncFile::duplicateOf(fence.fd());
  ASSERT_TRUE(borrowed);
  auto adopted = SyncFile::adopt(fence.release());
  ASSERT_TRUE(adopted);
  EXPECT_TRUE(fence.isEmpty());
  ASSERT_TRUE(clock.advance(1));
  EXPECT_TRUE(borrowed->status().signalled());
  EXPECT_TRUE(adopted->status().signalled());
}

TEST(KernelSyncFile, DeadlineHintReachesTheDriver) {
  auto clock = timeline(), other = timeline();
  const SyncFile fence = at(clock, 1), far = at(other, 1);
  EXPECT_EQ(clock.deadlineOf(fence).error().code, ENOENT);
  auto status = fence.setDeadline(5'000'000'000'000);
  ASSERT_TRUE(status) << status.error().message();
  EXPECT_EQ(*clock.deadlineOf(fence), 5'000'000'000'000u);
  ASSERT_TRUE(merge({&fence, &far}).setDeadline(4'000'000'000'000));
  EXPECT_EQ(*clock.deadlineOf(fence), 4'000'000'000'000u) << "the earliest counts";
  EXPECT_EQ(*other.deadlineOf(far), 4'000'000'000'000u);
  EXPECT_TRUE(fence.setDeadline(1)) << "in the past";
}

TEST(KernelSyncFile, ManyConsumersOfOneProducer) {
  auto clock = timeline();
  constexpr int kConsumers = 16, kFrames = 20;
  Record record;
  FencePoller poller;
  for (uint32_t frame = 1; frame <= kFrames; ++frame)
    for (int i = 0; i < kConsumers; ++i)
      ASSERT_TRUE(poller.watch(Fence::of(at(clock, frame)), notSoon(), record.as(static_cast<int>(frame))));
  for (int frame = 1; frame <= kFrames; ++frame) {
    ASSERT_TRUE(clock.advance(1));
    ASSERT_TRUE(record.reaches(static_cast<size_t>(frame) * kConsumers));
    EXPECT_EQ(record.size(), static_cast<size_t>(frame) * kConsumers) << "later frames are pending";
  }
  for (const auto &[frame, result] : record.ended()) EXPECT_EQ(result.outcome, FenceOutcome::Signalled) << frame;
}

// ---- merging ----

TEST(KernelMerge, PointsOfOneTimelineCollapseIntoTheLast) {
  auto clock = timeline();
  const SyncFile first = at(clock, 1), third = at(clock, 3), second = at(clock, 2);
  const SyncFile merged = merge({&first, &third, &second});
  EXPECT_EQ(merged.info()->fences.size(), 1u);
  ASSERT_TRUE(clock.advance(2));
  EXPECT_TRUE(merged.status().pending);
  ASSERT_TRUE(clock.advance(1));
  EXPECT_TRUE(merged.status().signalled());
}

TEST(KernelMerge, TheSameFenceTwiceCountsOnce) {
  auto clock = timeline();
  const SyncFile fence = at(clock, 1), copy = fence.duplicate().take(), twin = at(clock, 1);
  const SyncFile merged = merge({&fence, &fence, &copy, &twin});
  EXPECT_EQ(merged.info()->fences.size(), 1u);
  ASSERT_TRUE(clock.advance(1));
  EXPECT_TRUE(merged.status().signalled());
}

TEST(KernelMerge, OfSeveralTimelinesSignalsAfterAll) {
  lab::SwTimeline clocks[] = {timeline(), timeline(), timeline()};
  const SyncFile fences[] = {at(clocks[0], 1), at(clocks[1], 1), at(clocks[2], 1)};
  const SyncFile merged = merge({&fences[0], &fences[1], &fences[2]});
  EXPECT_EQ(merged.info()->fences.size(), 3u);
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(fenceOf(merged), notSoon(), record.as(1)));
  for (const int i : {1, 2}) {
    ASSERT_TRUE(clocks[i].advance(1));
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(merged.status().pending);
    EXPECT_EQ(record.size(), 0u);
  }
  ASSERT_TRUE(clocks[0].advance(1));
  ASSERT_TRUE(record.reaches(1));
  uint64_t last = 0;
  syncFileStatus(fences[0].fd(), &last);
  EXPECT_EQ(record.ended()[0].second.time_ns, last) << "the last signal's";
}

TEST(KernelMerge, LeavesOutWhatHasSignalled) {
  auto done = timeline(), clock = timeline();
  const SyncFile over = at(done, 1), pending = at(clock, 1);
  ASSERT_TRUE(done.advance(1));
  EXPECT_TRUE(merge({&over}).isEmpty());
  const SyncFile merged = merge({&over, &pending});
  EXPECT_EQ(merged.info()->fences.size(), 1u);
  EXPECT_TRUE(merged.status().pending);
}

TEST(KernelMerge, WhatHasFailedDecides) {
  auto broken = timeline(), clock = timeline();
  const SyncFile bad = at(broken, 1), pending = at(clock, 1);
  broken.close();
  EXPECT_EQ(merge({&pending, &bad}).status().error, ENOENT);
  EXPECT_EQ(merge({&bad, &pending}).status().error, ENOENT);

  // why it is not left to the kernel
  sync_merge_data request = {};
  request.fd2 = bad.fd();
  ASSERT_EQ(ioctl(pending.fd(), SYNC_IOC_MERGE, &request), 0);
  auto forgetful = SyncFile::adopt(UniqueFd(request.fence));
  ASSERT_TRUE(forgetful && clock.advance(1));
  EXPECT_EQ(kernelStatus(*forgetful), 1);
}

TEST(KernelMerge, WhatFailsLaterIsSeenWhenAllAreOver) {
  for (const bool polled : {true, false}) {
    auto broken = timeline(), clock = timeline();
    const SyncFile bad = at(broken, 1), good = at(clock, 1);
    const SyncFile merged = merge({&good, &bad});
    EXPECT_FALSE(polled && readable(merged.fd()));
    broken.close();
    EXPECT_TRUE(merged.status().pending) << "another device may be writing";
    EXPECT_TRUE(merged.info()->status.pending);
    ASSERT_TRUE(clock.advance(1));
    EXPECT_TRUE(!polled || readable(merged.fd(), 5000));
    EXPECT_EQ(kernelStatus(merged), polled ? -ENOENT : 1) << "the kernel forgets what nobody listened for";
    EXPECT_EQ(merged.status().error, ENOENT) << (polled ? "polled before" : "not polled before");
    EXPECT_EQ(merged.info()->status.error, ENOENT);
  }
}

TEST(KernelMerge, OfMoreThanAFewFencesIsKnownInAll) {
  std::vector<lab::SwTimeline> clocks;
  std::vector<SyncFile> fences;
  std::vector<const SyncFile *> all;
  for (int i = 0; i < 20; ++i) {
    clocks.push_back(timeline());
    fences.push_back(at(clocks.back(), 1));
  }
  for (const SyncFile &fence : fences) all.push_back(&fence);
  const size_t before = openFds();
  {
    auto merged = mergeFences(all);
    ASSERT_TRUE(merged);
    EXPECT_EQ(openFds(), before + 1);
    EXPECT_EQ(merged->info()->fences.size(), 20u);
    for (size_t i = 0; i < 19; ++i) ASSERT_TRUE(clocks[i].advance(1));
    EXPECT_TRUE(merged->status().pending);
    clocks[19].close();
    uint64_t time = 0, last = 0;
    EXPECT_EQ(syncFileStatus(merged->fd(), &time).error, ENOENT);
    syncFileStatus(fences[19].fd(), &last);
    EXPECT_EQ(time, last);
  }
  EXPECT_EQ(openFds(), before - 1) << "one timeline was closed";
}

TEST(KernelMerge, RandomMergesEqualTheMaximumOfEachTimeline) {
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    std::vector<lab::SwTimeline> clocks;
    for (int i = 0; i < 8; ++i) clocks.push_back(timeline());
    std::map<size_t, uint32_t> latest;
    SyncFile merged;
    for (int i = 0; i < 32; ++i) {
      const size_t clock = random() % clocks.size();
      const uint32_t value = 1 + random() % 100;
      latest[clock] = std::max(latest[clock], value);
      const SyncFile fence = at(clocks[clock], value);
      merged = merge({&merged, &fence});
    }
    EXPECT_EQ(merged.info()->fences.size(), latest.size());
    for (const auto &[clock, value] : latest) {
      ASSERT_TRUE(clocks[clock].advance(value - 1));
      EXPECT_TRUE(merged.status().pending);
    }
    for (auto it = latest.begin(); it != latest.end(); ++it) {
      EXPECT_TRUE(merged.status().pending);
      ASSERT_TRUE(clocks[it->first].advance(1));
    }
    EXPECT_TRUE(merged.status().signalled());
  }
}

// ---- across processes, and from syncobjs ----

TEST(KernelSyncFile, SignalsInAnotherProcess) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets), 0);
  UniqueFd ours(sockets[0]), theirs(sockets[1]);
  auto clock = timeline();
  const SyncFile fence = at(clock, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec data = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (child == 0) { // gets a descriptor of its own, says that it is pending, waits for it
    if (recvmsg(theirs.get(), &message, MSG_CMSG_CLOEXEC) != 1) _exit(1);
    int received = -1;
    std::copy_n(CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received, reinterpret_cast<unsigned char *>(&received));
    if (received < 0 || readable(received) || !syncFileStatus(received).pending) _exit(2);
    if (send(theirs.get(), &byte, 1, 0) != 1) _exit(3);
    if (!readable(received, 20000)) _exit(4);
    _exit(syncFileStatus(received).signalled() ? 0 : 5);
  }
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = fence.fd();
  std::copy_n(reinterpret_cast<const unsigned char *>(&fd), sizeof fd, CMSG_DATA(header));
  EXPECT_EQ(sendmsg(ours.get(), &message, 0), 1);
  EXPECT_TRUE(readable(ours.get(), 20000)) << "the child has it";
  EXPECT_TRUE(clock.advance(1));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(KernelSyncobj, ItsEventfdIsAFence) {
  auto card = lab::openCard("virtio_gpu");
  ASSERT_TRUE(card) << card.error().message();
  const auto ask = [&](uint32_t handle, int eventfd, uint32_t flags, uint32_t pad = 0) {
    drm_syncobj_eventfd request = {};
    request.handle = handle;
    request.flags = flags;
    request.fd = eventfd;
    request.pad = pad;
    return drmIoctl(card->get(), DRM_IOCTL_SYNCOBJ_EVENTFD, &request) == 0 ? 0 : errno;
  };
  auto clock = timeline();
  const SyncFile fence = at(clock, 1);
  uint32_t syncobj = 0;
  ASSERT_EQ(drmSyncobjCreate(card->get(), 0, &syncobj), 0) << errno;
  EventSource early, waits, late;
  // before the syncobj has a fence, while the fence is pending, and when it is over
  ASSERT_EQ(ask(syncobj, early.fd(), 0), 0);
  ASSERT_EQ(drmSyncobjImportSyncFile(card->get(), syncobj, fence.fd()), 0) << errno;
  ASSERT_EQ(ask(syncobj, waits.fd(), 0), 0);
  Record record;
  FencePoller poller;
  ASSERT_TRUE(poller.watch(early.fence(), notSoon(), record.as(1)));
  ASSERT_TRUE(poller.watch(waits.fence(), notSoon(), record.as(2)));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(record.size(), 0u);
  ASSERT_TRUE(clock.advance(1));
  EXPECT_TRUE(record.reaches(2));
  ASSERT_EQ(ask(syncobj, late.fd(), 0), 0);
  ASSERT_TRUE(poller.watch(late.fence(), notSoon(), record.as(3)));
  EXPECT_TRUE(record.reaches(3));

  EXPECT_EQ(ask(syncobj + 1, late.fd(), 0), ENOENT);
  EXPECT_EQ(ask(syncobj, -1, 0), EBADF);
  EXPECT_EQ(ask(syncobj, late.fd(), 1u << 31), EINVAL);
  EXPECT_EQ(ask(syncobj, late.fd(), 0, 1), EINVAL);
  EXPECT_EQ(drmSyncobjDestroy(card->get(), syncobj), 0);
}

TEST(KernelSyncFile, NothingLeaks) {
  auto clock = timeline(), other = timeline();
  const size_t before = openFds();
  for (int i = 0; i < 500; ++i) {
    const SyncFile a = at(clock, 1), b = at(other, 1);
    const SyncFile merged = merge({&a, &b});
    auto copy = merged.duplicate();
    ASSERT_TRUE(copy && copy->info() && copy->setDeadline(1));
    ASSERT_FALSE(SyncFile::adopt(UniqueFd(eventfd(0, EFD_CLOEXEC))));
  }
  EXPECT_EQ(openFds(), before);
}

} // namespace
