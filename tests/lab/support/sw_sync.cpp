// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/sw_sync.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/ioctl.h>

namespace gstzc::lab {
namespace {

constexpr char kNode[] = "/sys/kernel/debug/sync/sw_sync";

// the kernel installs no header for these
struct CreateFence {
  uint32_t value;
  char name[32];
  int32_t fence;
};
constexpr unsigned long kCreateFence = _IOWR('W', 0, CreateFence);
struct GetDeadline {
  uint64_t deadline_ns;
  uint32_t pad;
  int32_t fence;
};
constexpr unsigned long kIncrement = _IOW('W', 1, uint32_t);
constexpr unsigned long kGetDeadline = _IOWR('W', 2, GetDeadline);

} // namespace

Result<SwTimeline> SwTimeline::create() {
  UniqueFd fd(::open(kNode, O_RDWR | O_CLOEXEC));
  if (!fd.isValid()) return Error{std::string("open ") + kNode, errno, ""};
  return SwTimeline(std::move(fd));
}

Result<SyncFile> SwTimeline::fence(uint32_t value) const {
  CreateFence request = {value, "lab", -1};
  if (ioctl(fd_.get(), kCreateFence, &request) != 0)
    return Error{"make a sw_sync fence for " + std::to_string(value), errno, ""};
  return SyncFile::adopt(UniqueFd(request.fence));
}

Status SwTimeline::advance(uint32_t by) {
  if (ioctl(fd_.get(), kIncrement, &by) != 0)
    return Error{"advance a sw_sync timeline by " + std::to_string(by), errno, ""};
  return Nothing{};
}

Result<uint64_t> SwTimeline::deadlineOf(const SyncFile &fence) const {
  GetDeadline request = {0, 0, fence.fd()};
  if (ioctl(fd_.get(), kGetDeadline, &request) != 0) return Error{"ask for the deadline of a fence", errno, ""};
  return request.deadline_ns;
}

} // namespace gstzc::lab
