// SPDX-License-Identifier: LGPL-2.1-or-later
// Preprocessing in one context: kernel, copy of the tensor, and a call when both are done.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <gst/gst.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/infer/read_frame.h"
#include "ext/cuda/kernels/kernel_module.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/sync/retire_queue.h"
#include "gst/infer/device/tensor_device.h"
#include "gst/infer/preprocess/pixel_layout.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// One per context of an element, the device thread's. Its end waits for what is under way, with a deadline.
class TensorFiller {
public:
  using Ended = std::function<void(Status)>; // on the thread of the retire queue; the frame was released before

  static Result<std::unique_ptr<TensorFiller>> create(ContextPtr context);
  TensorFiller(const TensorFiller &) = delete;
  TensorFiller &operator=(const TensorFiller &) = delete;

  const ContextPtr &context() const { return context_; }
  CUstream stream() const { return stream_.get(); }

  // Enqueues it all. Takes the frame, which is given back when the device has read it. `ended` is called after that, or
  // with Made::OnStream as soon as it is enqueued, in here. Whatever fails until then is what `ended` is told.
  void fill(GstBuffer *frame, ReadFrame read, const infer::PixelPlan &plan, infer::TensorTarget target,
            infer::Made when, Ended ended);

  // Calls `then` when what is on the stream now is done, with what has failed; `used` before it, where the device has
  // not ended it in time: what it uses must not be freed. Any thread may call this.
  void behind(Ended then, std::function<void()> used);

  // Calls `free`, in any case, when the device is done with what is on the stream now, and with what others read: on
  // `order`, the stream of their memory, or anywhere. Any thread may call this.
  void retireShared(CUstream order, Readers readers, std::function<void()> free);

private:
  // What a picture needs on the device while it is under way; used again.
  struct Slot {
    DeviceMemory tensor;
    size_t bytes = 0;
    Event end;
  };
  struct Picture; // that is under way

  explicit TensorFiller(ContextPtr context) : context_(std::move(context)) {}
  Result<Slot> takeSlot(size_t bytes);
  struct Outcome {
    Status status = Nothing{};
    bool used = false; // by the device, still
  };
  Outcome outcomeOf(const Slot &slot);
  Status enqueue(Picture &picture, const infer::PixelPlan &plan);
  void end(Picture &picture);

  const ContextPtr context_;
  Stream stream_;
  Event order_;
  std::shared_ptr<const KernelModule> kernels_;
  std::mutex mutex_;
  std::vector<Slot> slots_;             // unused; under mutex_
  std::unique_ptr<RetireQueue> retire_; // the first to go: it uses the rest
};

} // namespace gstzc::cuda
