// SPDX-License-Identifier: LGPL-2.1-or-later
// Fences of the kernel's sw_sync, which a test makes, signals and breaks.
#pragma once

#include <cstdint>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// A counter that starts at 0. Its fences signal in the order of their values, when the counter reaches them.
class SwTimeline {
public:
  static Result<SwTimeline> create(); // needs root and debugfs

  // Signals when the counter is `value` or more; a value already reached gives a fence that has signalled.
  Result<SyncFile> fence(uint32_t value) const;
  Status advance(uint32_t by);
  // What SyncFile::setDeadline() told the fence, CLOCK_MONOTONIC ns. Errors: ENOENT where nobody did.
  Result<uint64_t> deadlineOf(const SyncFile &fence) const;

  // What is pending fails with ENOENT, as does a device that is gone. Also what the destructor does.
  void close() { fd_.reset(); }

private:
  explicit SwTimeline(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

} // namespace gstzc::lab
