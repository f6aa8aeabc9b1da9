// SPDX-License-Identifier: LGPL-2.1-or-later
// What the device still uses is kept until it does not: CUDA puts nothing into a dma-buf's reservation object.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "ext/cuda/driver/objects.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// One per element and context. Thread-safe.
class RetireQueue {
public:
  // A device that has not ended its work after that time is lost.
  static constexpr std::chrono::seconds kLongestWait{5};

  static Result<std::unique_ptr<RetireQueue>> create(ContextPtr context,
                                                     std::chrono::milliseconds longest_wait = kLongestWait);
  // Waits for the device, as drain() does with the longest wait; what is left then is released all the same. Not from
  // a release.
  ~RetireQueue();
  RetireQueue(const RetireQueue &) = delete;
  RetireQueue &operator=(const RetireQueue &) = delete;

  // Calls `release` once everything that is on `stream` now is done, on a thread of its own with no context current and
  // no lock held; in any case once, also where the device refuses or is lost. Never waits for the device. The stream
  // has to live until then. Releases of one stream come in the order of the calls; one of another stream may wait for
  // them.
  void retire(CUstream stream, std::function<void()> release);

  // The same, once everything is done too that is now on the context's other streams, but for those that do not order
  // themselves with the default stream: for what others have read on a stream that they did not tell. All of
  // libgstcuda's streams order themselves so. It is work on the default stream: what comes to these streams later waits
  // for it, and it for what they wait for now, which may be fences; so it is not for each frame of every pipeline.
  void retireBehindAll(CUstream stream, std::function<void()> release);

  // False: something was still pending when the time was over. Not from a release.
  bool drain(std::chrono::milliseconds timeout);
  size_t pending() const; // releases that have not returned

private:
  class Private;
  explicit RetireQueue(std::unique_ptr<Private> p);
  const std::unique_ptr<Private> p_;
};

} // namespace gstzc::cuda
