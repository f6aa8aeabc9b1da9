// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dmabuf.h"

#include <cerrno>

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

} // namespace
