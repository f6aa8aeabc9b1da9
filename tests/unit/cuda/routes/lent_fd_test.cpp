// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/lent_fd.h"

#include <cerrno>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/dmabuf_memory.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::cuda;
using gstzc::test::memfd;
using gstzc::test::openFds;

namespace {

bool isOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// What a driver may do with a descriptor that it is given.
enum class Driver { LeavesIt, KeepsIt, ClosesItAtOnce };

class LentFds : public testing::TestWithParam<Driver> {
protected:
  Status take(int fd) {
    given = fd;
    if (GetParam() == Driver::ClosesItAtOnce) ::close(fd);
    return Nothing{};
  }
  void letGo() const {
    if (GetParam() == Driver::KeepsIt) ::close(given);
  }
  int given = -1;
};

TEST_P(LentFds, NothingIsLeftAndNothingOfOthersIsClosed) {
  const size_t before = openFds();
  {
    UniqueFd buffer = memfd(4096);
    auto lent = LentFd::lend(buffer.get(), [&](int fd) { return take(fd); });
    ASSERT_TRUE(lent);
    EXPECT_NE(given, buffer.get());
    if (GetParam() != Driver::ClosesItAtOnce) {
      EXPECT_EQ(fcntl(given, F_GETFD), FD_CLOEXEC);
    }
    std::vector<UniqueFd> others; // of the rest of the process
    for (int i = 0; i < 50; ++i) others.push_back(memfd(4096));
    lent->giveBack([&] { letGo(); });
    EXPECT_FALSE(isOpen(given));
    for (const UniqueFd &other : others) EXPECT_TRUE(isOpen(other.get()));
    EXPECT_TRUE(isOpen(buffer.get()));
  }
  EXPECT_EQ(openFds(), before);
}

// The number may be given again as soon as the driver has closed it, to another import even of the same buffer.
TEST_P(LentFds, ImportsOfOneBufferDoNotCloseEachOthers) {
  const size_t before = openFds();
  {
    UniqueFd buffer = memfd(4096);
    auto first = LentFd::lend(buffer.get(), [&](int fd) { return take(fd); });
    const int first_number = given;
    auto second = LentFd::lend(buffer.get(), [&](int fd) { return take(fd); });
    const int second_number = given;
    ASSERT_TRUE(first && second);
    given = first_number;
    first->giveBack([&] { letGo(); });
    if (GetParam() != Driver::ClosesItAtOnce) {
      EXPECT_TRUE(isOpen(second_number));
    }
    given = second_number;
    second->giveBack([&] { letGo(); });
  }
  EXPECT_EQ(openFds(), before);
}

INSTANTIATE_TEST_SUITE_P(Drivers, LentFds, testing::Values(Driver::LeavesIt, Driver::KeepsIt, Driver::ClosesItAtOnce));

TEST(LentFdTest, ANumberThatIsAnotherFileNowStaysOpen) {
  UniqueFd buffer = memfd(4096), other = memfd(4096);
  int given = -1;
  auto lent = LentFd::lend(buffer.get(), [&](int fd) -> Status {
    given = fd;
    return Nothing{};
  });
  ASSERT_TRUE(lent);
  lent->giveBack([&] { ASSERT_EQ(dup2(other.get(), given), given); }); // closes the driver's
  EXPECT_TRUE(isOpen(given));
  ::close(given);
}

TEST(LentFdTest, ARefusedImportLeavesNothing) {
  const size_t before = openFds();
  {
    UniqueFd buffer = memfd(4096);
    auto lent = LentFd::lend(buffer.get(), [](int) -> Status { return Error{"no", EPERM, ""}; });
    ASSERT_FALSE(lent);
    EXPECT_EQ(lent.error().code, EPERM);
    EXPECT_TRUE(isOpen(buffer.get()));
  }
  EXPECT_EQ(openFds(), before);
}

TEST(LentFdTest, ItsNumberIsFarFromThoseOfOpen) {
  UniqueFd buffer = memfd(4096);
  int given = -1;
  auto lent = LentFd::lend(buffer.get(), [&](int fd) -> Status {
    given = fd;
    return Nothing{};
  });
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GE(static_cast<rlim_t>(given), std::min<rlim_t>(limit.rlim_cur / 2, 16384));
}

TEST(LentFdTest, ADescriptorThatIsClosedIsAnError) {
  auto lent = LentFd::lend(-1, [](int) -> Status { return Nothing{}; });
  ASSERT_FALSE(lent);
  EXPECT_EQ(lent.error().code, EBADF);
}

TEST(LentFdTest, NoNumberLeftIsAnError) {
  UniqueFd buffer = memfd(4096);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(buffer.get()) + 1;
  std::vector<UniqueFd> fill; // numbers below may be free
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (;;) {
    UniqueFd next = UniqueFd::duplicate(buffer.get());
    if (!next.isValid()) break;
    fill.push_back(std::move(next));
  }
  auto lent = LentFd::lend(buffer.get(), [](int) -> Status { return Nothing{}; });
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_FALSE(lent);
  EXPECT_EQ(lent.error().code, EMFILE);
}

} // namespace
