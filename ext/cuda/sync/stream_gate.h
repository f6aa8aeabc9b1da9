// SPDX-License-Identifier: LGPL-2.1-or-later
// Device work that starts when fences of the kernel are over, without a thread that sleeps for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ext/cuda/driver/objects.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// One per element and context. Thread-safe; destroyed when nobody is in hold() and not in `ended`.
class StreamGate {
public:
  using Clock = FencePoller::Clock;
  // How the fences ended, once, and before the device goes on; on any thread, and quick: it must not use CUDA, because
  // it may run on the poller's thread, for which others wait. Not called where hold() returned an error.
  using Ended = std::function<void(const FenceResult &)>;

  virtual ~StreamGate() = default;      // opens
  virtual const char *name() const = 0; // "stream-wait-value", "external-semaphore", "host"

  // What is enqueued on `work` from now on runs after `fences`, or after `deadline`, or after open(), whichever comes
  // first. Fences that are over already cost no device call. Frames of one stream pass in the order of the calls.
  // Errors: the fences cannot be watched, or the device refuses; then nothing was enqueued on `work` that could wait
  // for ever.
  virtual Status hold(CUstream work, std::vector<Fence> fences, Clock::time_point deadline, Ended ended) = 0;

  // Lets everything pass that waits now, its fences Cancelled. Returns at once.
  virtual void open() = 0;
  // The same, and for all that comes until it is taken back: from the start of a flush to its end, while stopped.
  // Without it a hold() that comes just after open() waits.
  virtual void keepOpen(bool on) {
    if (on) open();
  }

  virtual size_t pending() const = 0; // holds whose fences are not over
};

// A pinned word, cuStreamWaitValue32 on a stream of its own, an event from there to `work`. The wait is enqueued after
// the poller has the fences, and the word only ever grows, past everything before it. Error: the device has no
// stream memory operations. `first`: the word's value at the beginning (for tests: it wraps around).
Result<std::unique_ptr<StreamGate>> makeWordGate(ContextPtr context, FencePoller &poller = FencePoller::process(),
                                                 uint32_t first = 0);

// Where the device cannot wait: hold() itself sleeps, until the deadline or open().
std::unique_ptr<StreamGate> makeHostGate(FencePoller &poller = FencePoller::process());

// The best that the context has.
std::unique_ptr<StreamGate> makeStreamGate(ContextPtr context, FencePoller &poller = FencePoller::process());

} // namespace gstzc::cuda
