// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dmabuf.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace gstzc {
namespace {

// magic number of the pseudo file system that dma-bufs live on, include/uapi/linux/magic.h
constexpr long kDmaBufMagic = 0x444d4142;

int sync(int fd, uint64_t flags) {
  dma_buf_sync request = {};
  request.flags = flags;
  int rc;
  do rc = ioctl(fd, DMA_BUF_IOCTL_SYNC, &request); // both errors are documented as "call again"
  while (rc != 0 && (errno == EINTR || errno == EAGAIN));
  return rc == 0 ? 0 : errno;
}

BufferId idOf(const struct stat &st) { return {static_cast<uint64_t>(st.st_dev), static_cast<uint64_t>(st.st_ino)}; }

Error sizeError(int fd, int code) { return {"size of descriptor " + std::to_string(fd), code, ""}; }

Result<uint64_t> sizeOf(int fd, const struct stat &st) {
  if (S_ISREG(st.st_mode)) return static_cast<uint64_t>(st.st_size);
  // an inode of no kind: the kernel's own, of which only dma-bufs have a size, and do so since Linux 5.3
  if ((st.st_mode & S_IFMT) == 0 && st.st_size > 0) return static_cast<uint64_t>(st.st_size);
  if (!isDmaBuf(fd)) return sizeError(fd, ESPIPE);
  const off_t end = lseek(fd, 0, SEEK_END); // tells the size; a dma-buf has no position that it could move
  if (end < 0) return sizeError(fd, errno);
  return static_cast<uint64_t>(end);
}

} // namespace

std::string BufferId::toString() const { return std::to_string(device) + ":" + std::to_string(inode); }

Result<BufferId> bufferId(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return Error{"fstat of descriptor " + std::to_string(fd), errno, ""};
  return idOf(st);
}

Result<uint64_t> fileSize(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return sizeError(fd, errno);
  return sizeOf(fd, st);
}

Result<BufferFacts> bufferFacts(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return sizeError(fd, errno);
  const auto size = sizeOf(fd, st);
  if (!size && size.error().code != ESPIPE) return size.error();
  return BufferFacts{idOf(st), size ? *size : UINT64_MAX};
}

bool isDmaBuf(int fd) {
  struct statfs st = {};
  return fstatfs(fd, &st) == 0 && static_cast<long>(st.f_type) == kDmaBufMagic;
}

DmaBufCpuScope::DmaBufCpuScope(int fd, Access access) : fd_(-1), flags_(static_cast<uint64_t>(access)) {
  if (isDmaBuf(fd)) {
    error_ = sync(fd, flags_ | DMA_BUF_SYNC_START);
    if (error_ == 0) fd_ = fd;
  } else if (fcntl(fd, F_GETFD) < 0) {
    error_ = errno;
  }
}

DmaBufCpuScope::~DmaBufCpuScope() {
  if (fd_ >= 0) sync(fd_, flags_ | DMA_BUF_SYNC_END);
}

} // namespace gstzc
