// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dmabuf.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <linux/dma-buf.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace gstzc {
namespace {

// magic number of the pseudo file system that dma-bufs live on, include/uapi/linux/magic.h
constexpr long kDmaBufMagic = 0x444d4142;

int sync(int fd, uint64_t flags) {
  dma_buf_sync request = {};
  request.flags = flags;
  int rc;
  do rc = ioctl(fd, DMA_BUF_IOCTL_SYNC, &request);
  while (rc != 0 && (errno == EINTR || errno == EAGAIN));
  return rc == 0 ? 0 : errno;
}

constexpr int kSliceMs = 20; // how late a cancellation may be noticed

} // namespace

std::string BufferId::toString() const { return std::to_string(device) + ":" + std::to_string(inode); }

Result<BufferId> bufferId(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return Error{"fstat of descriptor " + std::to_string(fd), errno, ""};
  return BufferId{static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)};
}

bool isDmaBuf(int fd) {
  struct statfs st = {};
  return fstatfs(fd, &st) == 0 && static_cast<long>(st.f_type) == kDmaBufMagic;
}

DmaBufCpuScope::DmaBufCpuScope(int fd, CpuAccess access) : fd_(fd), flags_(static_cast<uint64_t>(access)) {
  if (isDmaBuf(fd_)) {
    error_ = sync(fd_, flags_ | DMA_BUF_SYNC_START);
    if (error_ != 0) fd_ = -1;
  } else {
    fd_ = -1;
  }
}

DmaBufCpuScope::~DmaBufCpuScope() {
  if (fd_ >= 0) sync(fd_, flags_ | DMA_BUF_SYNC_END);
}

Status waitForProducer(int fd, int timeout_ms, const std::function<bool()> &cancelled) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    if (cancelled && cancelled()) return Error{"waiting for the frame's producer", ECANCELED, ""};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd request = {fd, POLLIN, 0};
    const int rc = poll(&request, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, kSliceMs)));
    if (rc > 0) return Nothing{}; // POLLERR too: what is no dma-buf and cannot be polled has no fences
    if (rc < 0 && errno != EINTR) return Error{"poll of the frame's dma-buf", errno, ""};
    if (rc == 0 && left.count() <= 0)
      return Error{"the frame's producer was not done after " + std::to_string(timeout_ms) + " ms", ETIMEDOUT,
                   "The device that writes into the dma-buf hangs or never signals its fence"};
  }
}

} // namespace gstzc
