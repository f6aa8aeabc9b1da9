// SPDX-License-Identifier: LGPL-2.1-or-later
// Identity of a dma-buf and brackets for CPU access to it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// A buffer is the inode behind its descriptors: numbers are recycled, duplicates and descriptors from other processes
// differ, (device, inode) stays for as long as anybody holds the buffer.
struct GSTZC_API BufferId {
  uint64_t device = 0;
  uint64_t inode = 0;
  auto operator<=>(const BufferId &) const = default;
  std::string toString() const; // "device:inode", decimal
};

GSTZC_API Result<BufferId> bufferId(int fd);

// True when the descriptor is a dma-buf (by its file system), false for memfds and other files.
GSTZC_API bool isDmaBuf(int fd);

// Size in bytes, of a dma-buf or a regular file (memfd), whose position does not move. Errors: EBADF; ESPIPE for what
// has none.
GSTZC_API Result<uint64_t> fileSize(int fd);

// Both at once.
struct BufferFacts {
  BufferId id;
  uint64_t size = 0; // bytes; UINT64_MAX: it has none
};
GSTZC_API Result<BufferFacts> bufferFacts(int fd);

// What somebody does with a buffer; the values of DMA_BUF_SYNC_*.
enum class Access : uint32_t { Read = 1, Write = 2, ReadWrite = 3 };

// Brackets CPU access through a mapping: begin (invalidate caches) on construction, end (flush) on destruction. Begin
// also waits for the implicit fences, and the kernel knows no deadline there: wait for the frame first
// (waitForFrame()). Borrows the descriptor, which has to stay open. One that is no dma-buf has no caches to care for
// and is left alone; one that is closed is an error (EBADF).
class GSTZC_API DmaBufCpuScope {
public:
  DmaBufCpuScope(int fd, Access access); // `fd` is borrowed until destruction
  DmaBufCpuScope(DmaBufCpuScope &&other) noexcept
      : fd_(std::exchange(other.fd_, -1)), flags_(other.flags_), error_(other.error_) {}
  ~DmaBufCpuScope();
  DmaBufCpuScope(const DmaBufCpuScope &) = delete;
  DmaBufCpuScope &operator=(const DmaBufCpuScope &) = delete;

  bool ok() const { return error_ == 0; } // false: the kernel refused to begin, errno in error()
  int error() const { return error_; }

private:
  int fd_;
  uint64_t flags_;
  int error_ = 0;
};

} // namespace gstzc
