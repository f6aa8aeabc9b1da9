// SPDX-License-Identifier: LGPL-2.1-or-later
// Fences of the kernel as descriptors (sync_file), and their way into and out of a dma-buf's reservation object.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

// Where a fence stands. A descriptor that polls as readable says only that the fence is over; `error` says how.
struct FenceStatus {
  bool pending = false;
  int error = 0; // positive errno: it ended, but what it stood for did not come about
  bool signalled() const { return !pending && error == 0; }
};

// What a sync_file is made of. Names change once a fence has signalled and are for people only.
struct FenceInfo {
  std::string driver, timeline;
  FenceStatus status;
  uint64_t signalled_ns = 0; // CLOCK_MONOTONIC; 0 while pending
};

struct GSTZC_API SyncFileInfo {
  std::string name;
  FenceStatus status;
  std::vector<FenceInfo> fences;
  uint64_t signalledAt() const; // of the last fence to signal, ns; 0 while any is pending
};

// Of a borrowed descriptor, for those who keep it elsewhere. Pending until all fences in it are over, then with the
// first error among them: the kernel's own summary of several fences forgets errors if nobody polled before. What is no
// sync_file has failed with the errno of asking. `signalled_ns`, if given, becomes the time of the last signal,
// CLOCK_MONOTONIC; 0 while pending.
GSTZC_API FenceStatus syncFileStatus(int fd, uint64_t *signalled_ns = nullptr);

// Owner of one sync_file, or of none: the empty SyncFile stands for "nothing to wait for".
class GSTZC_API SyncFile {
public:
  SyncFile() = default;
  // Takes the descriptor. Errors: EBADF; EINVAL for whatever is no sync_file.
  static Result<SyncFile> adopt(UniqueFd fd);
  // Borrows the descriptor and duplicates it.
  static Result<SyncFile> duplicateOf(int fd);

  bool isEmpty() const { return !fd_.isValid(); }
  int fd() const { return fd_.get(); } // borrowed; -1 when empty
  UniqueFd release() { return std::move(fd_); }
  Result<SyncFile> duplicate() const; // of an empty one: an empty one

  FenceStatus status() const; // of an empty one: signalled
  Result<SyncFileInfo> info() const;

  // Tells the drivers behind the fences when somebody will wait for them (CLOCK_MONOTONIC ns), e.g. the next vertical
  // blank, so that they may raise clocks. A hint: kernels before 6.6 do not know it, which is no error.
  Status setDeadline(uint64_t monotonic_ns) const;

private:
  explicit SyncFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// One fence that signals when all have, with an error if one fails. Fences that have signalled are left out, the same
// fence twice counts once, and points of one timeline collapse into the last (the kernel's doing). A fence that has
// failed before decides: the kernel's merge would forget its error, so the result is that fence alone, which says
// nothing about the others: they may be pending still. Nothing pending and nothing failed: empty.
GSTZC_API Result<SyncFile> mergeFences(std::span<const SyncFile *const> fences);

// The fences a dma-buf has at this moment, as one that no fence added later can prolong. Read: what has to be waited
// for before reading (its writers); Write and ReadWrite: readers too. Empty where nothing is pending: that a fence had
// failed is not to be seen any more when it is over. Errors: EBADF; EINVAL for what is no dma-buf; ENOTTY from kernels
// before 6.0, where polling the dma-buf itself is what remains.
GSTZC_API Result<SyncFile> exportFence(int dmabuf, Access access);
// The same with one that has signalled where nothing is pending, for those who need some fence.
GSTZC_API Result<SyncFile> exportSyncFile(int dmabuf, Access access);

// Adds a fence to a dma-buf. Read: later writers wait for it; Write: later readers too. An empty fence adds nothing.
// Never add one that may stay pending: other drivers wait for it without a deadline. Errors as for exportFence().
GSTZC_API Status importFence(int dmabuf, const SyncFile &fence, Access access);

} // namespace gstzc
