// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/unique_fd.h"

#include <sys/mman.h>

#include <gtest/gtest.h>

using gstzc::UniqueFd;

namespace {

int memfd() { return memfd_create("unique-fd-test", MFD_CLOEXEC); }
bool isOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFd, EmptyOwnsNothing) {
  UniqueFd fd;
  EXPECT_FALSE(fd.isValid());
  EXPECT_EQ(fd.get(), -1);
  EXPECT_EQ(UniqueFd(-7).get(), -1);
}

TEST(UniqueFd, ClosesOnceWhenItGoes) {
  int number;
  {
    UniqueFd fd(memfd());
    number = fd.get();
    ASSERT_TRUE(isOpen(number));
  }
  EXPECT_FALSE(isOpen(number));
}

TEST(UniqueFd, MovesLeaveTheSourceEmpty) {
  UniqueFd a(memfd());
  const int number = a.get();
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a.isValid());
  EXPECT_EQ(b.get(), number);
  UniqueFd c(memfd());
  const int replaced = c.get();
  c = std::move(b);
  EXPECT_FALSE(isOpen(replaced));
  EXPECT_TRUE(isOpen(number));
}

TEST(UniqueFd, ReleaseHandsOver) {
  UniqueFd fd(memfd());
  const int number = fd.release();
  EXPECT_FALSE(fd.isValid());
  EXPECT_TRUE(isOpen(number));
  close(number);
}

TEST(UniqueFd, DuplicateIsTheSameFileAndCloseOnExec) {
  UniqueFd fd(memfd());
  UniqueFd other = UniqueFd::duplicate(fd.get());
  ASSERT_TRUE(other.isValid());
  EXPECT_NE(other.get(), fd.get());
  EXPECT_TRUE(fcntl(other.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_FALSE(UniqueFd::duplicate(-1).isValid());
}

} // namespace
