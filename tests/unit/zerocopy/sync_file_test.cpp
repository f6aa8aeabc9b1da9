// SPDX-License-Identifier: LGPL-2.1-or-later
// What needs no kernel fence: the empty fence, and all that is no fence. Real ones: tests/lab/zerocopy.
#include "gst/zerocopy/core/sync_file.h"

#include <cerrno>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr int kClosed = 100000;

TEST(SyncFile, TheEmptyOneHasSignalled) {
  const SyncFile fence;
  EXPECT_TRUE(fence.isEmpty());
  EXPECT_EQ(fence.fd(), -1);
  EXPECT_TRUE(fence.status().signalled());
  EXPECT_TRUE(fence.setDeadline(1));
  auto copy = fence.duplicate();
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->isEmpty());
  auto info = fence.info();
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->fences.empty());
  EXPECT_TRUE(info->status.signalled());
  EXPECT_EQ(info->signalledAt(), 0u);
  EXPECT_FALSE(SyncFile().release().isValid());
}

TEST(SyncFile, OtherDescriptorsAreRefusedAndClosed) {
  const size_t before = openFds();
  const auto refusal = [](int fd) {
    auto fence = SyncFile::adopt(UniqueFd(fd));
    return fence ? 0 : fence.error().code;
  };
  EXPECT_EQ(refusal(-1), EBADF);
  EXPECT_EQ(refusal(kClosed), EBADF);
  EXPECT_EQ(refusal(eventfd(0, EFD_CLOEXEC)), EINVAL);
  EXPECT_EQ(refusal(memfd_create("a", MFD_CLOEXEC)), EINVAL);
  EXPECT_EQ(refusal(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), EINVAL);
  EXPECT_EQ(refusal(open("/dev/null", O_RDWR | O_CLOEXEC)), EINVAL);
  EXPECT_EQ(openFds(), before);
}

TEST(SyncFile, DuplicateOfOtherDescriptorsIsRefused) {
  EventSource event;
  const size_t before = openFds();
  EXPECT_EQ(SyncFile::duplicateOf(-1).error().code, EBADF);
  EXPECT_EQ(SyncFile::duplicateOf(kClosed).error().code, EBADF);
  auto refused = SyncFile::duplicateOf(event.fd());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().message().find("sync_file"), std::string::npos) << refused.error().message();
  EXPECT_EQ(openFds(), before);
}

TEST(SyncFile, StatusOfWhatIsNoneIsItsErrno) {
  EventSource event;
  uint64_t time = 1;
  EXPECT_EQ(syncFileStatus(event.fd(), &time).error, ENOTTY);
  EXPECT_EQ(time, 0u);
  EXPECT_FALSE(syncFileStatus(event.fd()).pending);
  EXPECT_EQ(syncFileStatus(-1).error, EBADF);
  EXPECT_EQ(syncFileStatus(kClosed).error, EBADF);
}

TEST(MergeFences, OfNothingIsNothing) {
  const SyncFile a, b;
  auto none = mergeFences({});
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->isEmpty());
  auto merged = mergeFences(std::vector<const SyncFile *>{&a, &b, &a});
  ASSERT_TRUE(merged);
  EXPECT_TRUE(merged->isEmpty());
}

TEST(SyncFileInfo, TheLastSignalCounts) {
  SyncFileInfo info;
  EXPECT_EQ(info.signalledAt(), 0u);
  info.fences = {{"d", "t", {}, 20}, {"d", "u", {false, ENOENT}, 30}, {"d", "v", {}, 10}};
  EXPECT_EQ(info.signalledAt(), 30u);
  info.fences.push_back({"d", "w", {true, 0}, 0});
  EXPECT_EQ(info.signalledAt(), 0u);
}

TEST(ReservationObject, OnlyDmaBufsHaveOne) {
  EventSource event;
  UniqueFd memory(memfd_create("a", MFD_CLOEXEC)), null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const size_t before = openFds();
  for (const Access access : {Access::Read, Access::Write, Access::ReadWrite}) {
    EXPECT_EQ(exportFence(-1, access).error().code, EBADF);
    EXPECT_EQ(exportFence(kClosed, access).error().code, EBADF);
    for (const int fd : {event.fd(), memory.get(), null.get()}) {
      auto fence = exportFence(fd, access);
      ASSERT_FALSE(fence);
      EXPECT_EQ(fence.error().code, EINVAL);
      EXPECT_NE(fence.error().message().find(std::to_string(fd)), std::string::npos);
    }
    EXPECT_TRUE(importFence(memory.get(), SyncFile(), access)) << "nothing to add";
  }
  EXPECT_EQ(openFds(), before);
}

} // namespace
