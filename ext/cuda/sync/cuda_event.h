// SPDX-License-Identifier: LGPL-2.1-or-later
// The moment when device work is done, as a GstZcDeviceEvent that travels with a buffer.
#pragma once

#include <atomic>
#include <memory>

#include "ext/cuda/driver/objects.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/gstzcdeviceevent.h"

namespace gstzc::cuda {

constexpr char kCudaEventKind[] = "cuda-event"; // native: a CUevent
bool isCudaEvent(GstZcDeviceEvent *event);      // of that kind

// Makes events and tells of their end through descriptors, for those who are not on the device: a host function on a
// stream of its own writes an eventfd. One per element and context; lives as long as any of its events.
class EventSource {
public:
  static Result<std::shared_ptr<EventSource>> create(ContextPtr context);
  virtual ~EventSource() = default;

  // What is on `stream` now. `failure`: looked at when the event is done, for the errno of the fence that the work had
  // to wait for; null: none. Transfer full.
  virtual Result<GstZcDeviceEvent *> record(CUstream stream, std::shared_ptr<std::atomic<int>> failure) = 0;
};

// True: `event` is a CUDA event of this driver; `stream` (in whatever context) then waits for it on the device.
bool waitForCudaEvent(const CudaContext &context, CUstream stream, GstZcDeviceEvent *event, Status *status);

} // namespace gstzc::cuda
