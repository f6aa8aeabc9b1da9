// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/lent_fd.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace gstzc::cuda {
namespace {

constexpr rlim_t kHighest = 16384; // the kernel's table grows up to the highest number in use

std::mutex &numbers() {
  static std::mutex mutex;
  return mutex;
}

int firstHighNumber() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 3;
  return static_cast<int>(std::max<rlim_t>(std::min(limit.rlim_cur / 2, kHighest), 3));
}

} // namespace

LentFd::LentFd(LentFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)), id_(other.id_) {}

LentFd::~LentFd() {
  if (fd_ >= 0) giveBack([] {});
}

bool LentFd::isStillThere() const {
  const auto id = bufferId(fd_);
  return id && *id == id_;
}

Result<LentFd> LentFd::lend(int fd, const std::function<Status(int)> &give) {
  const auto id = bufferId(fd);
  if (!id) return id.error();
  const std::lock_guard lock(numbers());
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, firstHighNumber());
  if (copy < 0) return Error{"second descriptor of dma-buf " + id->toString(), errno, ""};
  LentFd lent(copy, *id);
  const Status given = give(copy);
  const bool there = lent.isStillThere();
  if (!given && there) close(copy); // not imported, not taken
  if (!given || !there) lent.fd_ = -1;
  if (!given) return given.error();
  return lent;
}

void LentFd::giveBack(const std::function<void()> &let_go) {
  const std::lock_guard lock(numbers());
  let_go();
  if (fd_ >= 0 && isStillThere()) close(fd_);
  fd_ = -1;
}

} // namespace gstzc::cuda
