// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model's run leaves in the device's memory: copies of it for the host, and tensors for others.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/infer/tensor_filler.h"
#include "ext/cuda/sync/cuda_event.h"
#include "gst/infer/device/tensor_device.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// One per element, on the stream of `filler`, which calls back. Thread-safe. Neither call waits for the device. Lives
// longer than the filler, shorter than the context.
class DeviceResults {
public:
  // `context` null: nothing can be shared, because nobody else has it.
  static Result<std::unique_ptr<DeviceResults>> create(const ContextPtr &context, GstCudaContext *gst_context,
                                                       CUstream stream);
  ~DeviceResults();
  DeviceResults(const DeviceResults &) = delete;
  DeviceResults &operator=(const DeviceResults &) = delete;

  // As TensorDevice::toHost(), after what is on the filler's stream.
  void toHost(TensorFiller &filler, infer::Outputs tensors, infer::TensorDevice::Came came);

  // As TensorDevice::share(). `keep`: held by the memories, and has what `filler` belongs to. A memory that nobody uses
  // any more goes when the stream is past it, because the run that writes it may still be there.
  Result<std::vector<infer::BufferRef>> share(TensorFiller &filler, const infer::Outputs &tensors,
                                              const std::shared_ptr<void> &keep);

private:
  struct Block { // of the host, used again
    PinnedMemory memory;
    size_t bytes = 0;
  };
  struct Blocks {
    std::mutex mutex;
    std::vector<Block> unused;
  };
  struct Download; // that is under way

  DeviceResults(ContextPtr context, CUstream stream) : context_(std::move(context)), stream_(stream) {}
  Result<Block> takeBlock(size_t bytes);
  Status enqueue(Download &download);
  void end(Download &download, Status status);
  Status orderShared(GstZcDeviceEvent *event);

  const ContextPtr context_;
  const CUstream stream_;
  const std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();
  GstCudaContext *gst_context_ = nullptr;
  GstCudaStream *order_ = nullptr; // behind all that was shared: for those who know streams and no events
  std::shared_ptr<EventSource> events_;
};

} // namespace gstzc::cuda
