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
    Event,       // an eventfd or pipe: any descriptor that becomes readable and stays so; never read. One that hangs
                 // up instead has failed with EPIPE
    DmaBufReady, // the dma-buf itself, until it may be read; for kernels that cannot export a sync_file. Follows fences
                 // that are added later, too
    DmaBufIdle,  // the same, until it may be written
  };
  Kind kind = Kind::Event;
  UniqueFd fd;
  // Of an Event, called when it is readable, by the thread that finds out and with no lock held: 0, or the errno it
  // failed with. May be empty.
  std::function<int()> status;

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

// How the fence stands now, without waiting. Nothing: pending. A closed descriptor has failed (EBADF), as has a
// SyncFile that is none (ENOTTY); a file of a kind that is always ready (a memfd) has signalled.
GSTZC_API std::optional<FenceResult> fenceNow(const Fence &fence);
GSTZC_API std::optional<FenceResult> fenceNow(Fence::Kind kind, int fd); // borrowed, without a status of its own

// One epoll thread. Thread-safe. The thread starts with the first wait, and sleeps while nothing ends. A child of
// fork() has no such thread: only what it executes may wait.
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
  ~FencePoller(); // ends what is pending as Cancelled; not from a callback
  FencePoller(const FencePoller &) = delete;
  FencePoller &operator=(const FencePoller &) = delete;

  // Takes the fence. `done` is called once, on the poller's thread and with no lock held, possibly before watch()
  // returns; it has to be quick, and may call watch() and cancel(). A fence that signals before its deadline is seen to
  // have passed is not late. A deadline in the past gives the fence one look; Clock::time_point::max() is none. Errors:
  // a descriptor that cannot be waited for (closed: EBADF; a regular file, /dev/null: EPERM), no descriptors or threads
  // left; then `done` is not called.
  Result<WaitId> watch(Fence fence, Clock::time_point deadline, Callback done);

  // True: `done` will not be called. False: it has been, or the id is of no wait; if it was running in another thread
  // it has returned, so don't hold a lock that `done` takes. What was watched and `done` are destroyed before it
  // returns.
  bool cancel(WaitId id);

  Counters counters() const;

private:
  class Private;
  const std::unique_ptr<Private> p_;
};

// All fences of one frame, waited for together. Destroying it ends the wait: after that `resolved` neither runs nor
// will. So it is never destroyed with a lock held that `resolved` takes; `resolved` itself may destroy it. The poller
// lives longer.
class GSTZC_API FenceWait {
public:
  // `resolved` is called once, as by FencePoller::watch(); never where all are over already, which result() then says
  // at once. It may be called before start() returns. Errors: as for watch(), but a descriptor that is closed or always
  // ready is a result.
  static Result<std::unique_ptr<FenceWait>> start(std::vector<Fence> fences, FencePoller::Clock::time_point deadline,
                                                  std::function<void()> resolved,
                                                  FencePoller &poller = FencePoller::process());
  ~FenceWait();
  FenceWait(const FenceWait &) = delete;
  FenceWait &operator=(const FenceWait &) = delete;

  // Nothing while any fence is pending. Else the worst: a failure, a deadline that passed, or the last signal. One
  // failure does not end the wait for the others: their devices may still be writing. The time of no fence at all is 0.
  std::optional<FenceResult> result() const;

private:
  struct Shared;
  FenceWait() = default;
  std::shared_ptr<Shared> shared_; // with the callbacks of the waits
  std::vector<FencePoller::WaitId> waits_;
  FencePoller *poller_ = nullptr;
};

} // namespace gstzc
