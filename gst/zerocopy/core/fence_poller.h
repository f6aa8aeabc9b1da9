// SPDX-License-Identifier: LGPL-2.1-or-later
// Waiting for fences without a thread each: one thread for all of a process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/sync_file.h"

namespace gstzc {

// Something that ends by a descriptor becoming ready.
struct Fence {
  enum class Kind {
    SyncFile,    // readable when signalled; its status tells an error
    Event,       // an eventfd, or any descriptor that becomes readable and stays so; never read
    DmaBufReady, // the dma-buf itself, until it may be read; for kernels that cannot export a sync_file. Follows fences
                 // that are added later, too
    DmaBufIdle,  // the same, until it may be written
  };
  Kind kind = Kind::Event;
  UniqueFd fd;
  std::function<int()> status; // of an Event, called when it is readable: 0, or the errno it failed with; may be empty

  static Fence of(SyncFile fence) { return {Kind::SyncFile, fence.release(), {}}; }
};

enum class FenceOutcome {
  Signalled,
  Failed,    // it ended in an error
  TimedOut,  // the deadline passed
  Cancelled, // the poller was shut down
};

struct FenceResult {
  FenceOutcome outcome = FenceOutcome::Signalled;
  int error = 0;        // errno of Failed; ETIMEDOUT, ECANCELED; else 0
  uint64_t time_ns = 0; // CLOCK_MONOTONIC: when it signalled where the kernel says so, else when that was noticed
};

// How the fence stands now, without waiting. Nothing: pending.
GSTZC_API std::optional<FenceResult> fenceNow(const Fence &fence);
GSTZC_API std::optional<FenceResult> fenceNow(Fence::Kind kind, int fd); // borrowed, without a status of its own

// One epoll thread. Thread-safe. The thread starts with the first wait.
class GSTZC_API FencePoller {
public:
  using Clock = std::chrono::steady_clock; // CLOCK_MONOTONIC
  using Callback = std::function<void(const FenceResult &)>;
  using WaitId = uint64_t; // never 0, never used twice

  struct Counters {
    uint64_t watched = 0, signalled = 0, failed = 0, timed_out = 0, cancelled = 0;
    uint64_t pending = 0;
  };

  // The process's own. It is never destroyed: whoever waits ends his waits.
  static FencePoller &process();

  FencePoller();
  ~FencePoller(); // ends what is pending as Cancelled
  FencePoller(const FencePoller &) = delete;
  FencePoller &operator=(const FencePoller &) = delete;

  // Takes the fence. `done` is called once, on the poller's thread and with no lock held, possibly before watch()
  // returns; it has to be quick, and may call watch() and cancel(). Errors: a descriptor that cannot be waited for
  // (closed, or a regular file: EBADF, EPERM), no descriptors left; then `done` is not called.
  Result<WaitId> watch(Fence fence, Clock::time_point deadline, Callback done);

  // True: `done` will not be called. False: it has been; if it was running in another thread it has returned.
  bool cancel(WaitId id);

  Counters counters() const;

private:
  class Private;
  const std::unique_ptr<Private> p_;
};

// All fences of one frame, waited for together. Destroying it ends the wait: after that `resolved` neither runs nor
// will. So it is never destroyed with a lock held that `resolved` takes.
class GSTZC_API FenceWait {
public:
  // `resolved` is called once, as by FencePoller::watch(); never where all are over already, which result() then says
  // at once. It may be called before start() returns. Errors: as for watch().
  static Result<std::unique_ptr<FenceWait>> start(std::vector<Fence> fences, FencePoller::Clock::time_point deadline,
                                                  std::function<void()> resolved,
                                                  FencePoller &poller = FencePoller::process());
  ~FenceWait();
  FenceWait(const FenceWait &) = delete;
  FenceWait &operator=(const FenceWait &) = delete;

  // Nothing while any fence is pending. Else the worst: a failure, a deadline that passed, or the last signal. One
  // failure does not end the wait for the others: they may still be written by their device.
  std::optional<FenceResult> result() const;

private:
  struct Shared;
  FenceWait() = default;
  std::shared_ptr<Shared> shared_; // with the callbacks of the waits
  std::vector<FencePoller::WaitId> waits_;
  FencePoller *poller_ = nullptr;
};

} // namespace gstzc
