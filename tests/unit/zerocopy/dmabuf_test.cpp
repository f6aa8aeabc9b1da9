// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dmabuf.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/unique_fd.h"

using namespace gstzc;

namespace {

TEST(BufferId, DuplicatesAreTheSameBuffer) {
  UniqueFd a(memfd_create("a", MFD_CLOEXEC)), b(memfd_create("b", MFD_CLOEXEC));
  UniqueFd a2 = UniqueFd::duplicate(a.get());
  auto ia = bufferId(a.get()), ia2 = bufferId(a2.get()), ib = bufferId(b.get());
  ASSERT_TRUE(ia && ia2 && ib);
  EXPECT_EQ(*ia, *ia2);
  EXPECT_NE(*ia, *ib);
}

TEST(BufferId, RecycledNumberIsAnotherBuffer) {
  UniqueFd a(memfd_create("a", MFD_CLOEXEC));
  UniqueFd keep = UniqueFd::duplicate(a.get());
  const BufferId first = bufferId(a.get()).value();
  const int number = a.get();
  a.reset();
  UniqueFd b(memfd_create("b", MFD_CLOEXEC));
  ASSERT_EQ(b.get(), number) << "the kernel gives the lowest free number";
  EXPECT_NE(bufferId(b.get()).value(), first);
}

TEST(BufferId, BadDescriptorIsAnErrorWithItsValue) {
  auto id = bufferId(-1);
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, EBADF);
  EXPECT_NE(id.error().message().find("-1"), std::string::npos);
}

TEST(DmaBufCpuScope, LeavesOtherFilesAlone) {
  UniqueFd fd(memfd_create("plain", MFD_CLOEXEC));
  EXPECT_FALSE(isDmaBuf(fd.get()));
  DmaBufCpuScope scope(fd.get(), Access::ReadWrite);
  EXPECT_TRUE(scope.ok());
}

TEST(DmaBufCpuScope, AClosedDescriptorIsAnError) {
  for (const int fd : {-1, 100000}) {
    DmaBufCpuScope scope(fd, Access::Read);
    EXPECT_FALSE(scope.ok());
    EXPECT_EQ(scope.error(), EBADF);
  }
}

TEST(FileSize, LeavesThePositionAlone) {
  UniqueFd fd(memfd_create("a", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 12345), 0);
  ASSERT_EQ(lseek(fd.get(), 7, SEEK_SET), 7);
  auto size = fileSize(fd.get());
  ASSERT_TRUE(size) << size.error().message();
  EXPECT_EQ(*size, 12345u);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 7);
}

TEST(FileSize, WhatHasNoneIsAnError) {
  UniqueFd event(eventfd(0, EFD_CLOEXEC)), null(open("/dev/null", O_RDWR | O_CLOEXEC)),
      folder(open("/", O_RDONLY | O_CLOEXEC));
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  UniqueFd reader(pipe[0]), writer(pipe[1]);
  for (const int fd : {event.get(), null.get(), folder.get(), reader.get()})
    EXPECT_EQ(fileSize(fd).error().code, ESPIPE);
  for (const int fd : {-1, 100000}) EXPECT_EQ(fileSize(fd).error().code, EBADF);
}

TEST(IsDmaBuf, NothingElseIs) {
  UniqueFd memory(memfd_create("a", MFD_CLOEXEC)), event(eventfd(0, EFD_CLOEXEC)),
      null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {-1, 100000, memory.get(), event.get(), null.get()}) EXPECT_FALSE(isDmaBuf(fd));
}

} // namespace
