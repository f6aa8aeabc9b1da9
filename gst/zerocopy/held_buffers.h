// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers that came back to their pool while a device still uses them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gst/gst.h>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/fence_poller.h"

namespace gstzc {

// Keeps each buffer until its fences are over and then gives it back. Thread-safe. Nothing of a pool but the function
// below is referred to, so a pool that is given up is not kept alive by a fence.
class GSTZC_API HeldBuffers {
public:
  // `result` tells how the fences ended; Cancelled: takeBack(). Called once for each buffer, which it owns then, with a
  // lock held: it must not call back.
  using GiveBack = std::function<void(GstBuffer *buffer, const FenceResult &result)>;

  explicit HeldBuffers(GiveBack give_back, FencePoller &poller = FencePoller::process());
  ~HeldBuffers(); // takes back
  HeldBuffers(const HeldBuffers &) = delete;
  HeldBuffers &operator=(const HeldBuffers &) = delete;

  // Takes the buffer. It is given back on the poller's thread, or before this returns where the fences are over. Fences
  // that cannot be waited for have failed. Where giving back frees the buffer, the poller's thread unmaps and closes
  // its memory and runs the destroy notifies that others attached to it: they have to be quick.
  void hold(GstBuffer *buffer, std::vector<Fence> fences, std::chrono::nanoseconds timeout);

  // Gives all back at once, their fences pending. When it has returned none is on its way.
  void takeBack();

  size_t size() const;

private:
  struct State;
  const std::shared_ptr<State> state_; // callbacks of the poller may see its end
  FencePoller &poller_;
};

} // namespace gstzc
