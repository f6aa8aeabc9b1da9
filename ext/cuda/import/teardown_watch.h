// SPDX-License-Identifier: LGPL-2.1-or-later
// Notices that a pipeline is being stopped while an element downstream sleeps in the driver.
#pragma once

#include <functional>
#include <memory>

#include <gst/gst.h>

#include "gst/zerocopy/core/fence_poller.h"

namespace gstzc::cuda {

// True while the element, or a bin that it is in, is on its way down from PAUSED: elements are stopped from the sinks
// on, and each waits for the streaming thread that is in it. One that sleeps until the device has passed a fence would
// come back only with that fence; whoever made the device wait learns of the end too late, by its own change of state.
bool goesDown(GstElement *element);

// While something is pending, looks every 20 ms whether the element goes down, and says so. Thread-safe. The element
// lives longer.
class TeardownWatch {
public:
  // `pending`: false ends the watching until the next arm(). Both are called on the poller's thread and have to be
  // quick; `pending` with a lock held that arm() takes.
  TeardownWatch(GstElement *element, std::function<bool()> pending, std::function<void()> goes_down,
                FencePoller &poller = FencePoller::process());
  ~TeardownWatch(); // when it has returned nothing is called any more
  TeardownWatch(const TeardownWatch &) = delete;
  TeardownWatch &operator=(const TeardownWatch &) = delete;

  void arm();

private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

} // namespace gstzc::cuda
