// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/infer/device_results.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

constexpr size_t kAlignment = 64; // of each tensor in a block

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct UnrefEvent {
  void operator()(GstZcDeviceEvent *event) const { gst_zc_device_event_unref(event); }
};
using EventRef = std::unique_ptr<GstZcDeviceEvent, UnrefEvent>;

} // namespace

struct DeviceResults::Download {
  infer::Outputs tensors;
  infer::TensorDevice::Came came;
  Block block;
  Status enqueued = Nothing{};
};

Result<std::unique_ptr<DeviceResults>> DeviceResults::create(const ContextPtr &context, GstCudaContext *gst_context,
                                                             CUstream stream) {
  auto results = std::unique_ptr<DeviceResults>(new DeviceResults(context, stream));
  if (gst_context == nullptr) return results;
  auto events = EventSource::create(context);
  if (!events) return events.error();
  results->events_ = events.take();
  results->order_ = gst_cuda_stream_new(gst_context);
  if (results->order_ == nullptr) return Error{"a CUDA stream of libgstcuda", EIO, ""};
  results->gst_context_ = GST_CUDA_CONTEXT(gst_object_ref(gst_context));
  return results;
}

DeviceResults::~DeviceResults() {
  gst_clear_cuda_stream(&order_);
  gst_clear_object(&gst_context_);
}

// ---- for the host

// The smallest that is large enough; those of another model go when a larger one is needed.
Result<DeviceResults::Block> DeviceResults::takeBlock(size_t bytes) {
  if (bytes == 0) return Block{};
  {
    const std::lock_guard lock(blocks_->mutex);
    auto &unused = blocks_->unused;
    const auto fits =
        std::find_if(unused.begin(), unused.end(), [&](const Block &block) { return block.bytes >= bytes; });
    if (fits != unused.end()) {
      Block block = std::move(*fits);
      unused.erase(fits);
      return block;
    }
  }
  std::vector<Block> small;
  {
    const std::lock_guard lock(blocks_->mutex);
    small.swap(blocks_->unused);
  }
  auto memory = allocPinned(context_, bytes);
  if (!memory) return memory.error();
  return Block{memory.take(), bytes};
}

Status DeviceResults::enqueue(Download &download) {
  size_t bytes = 0;
  for (const infer::TensorView &view : download.tensors.tensors) {
    if (view.space != infer::MemorySpace::Device) return Error{"a tensor that is not on the device", EINVAL, ""};
    bytes += aligned(view.bytes);
  }
  auto block = takeBlock(bytes);
  if (!block) return block.error();
  download.block = block.take();

  const Driver &driver = context_->driver;
  const ContextScope scope(*context_);
  if (auto current = scope.status(); !current) return current;
  auto *at = static_cast<std::byte *>(download.block.memory.get());
  for (const infer::TensorView &view : download.tensors.tensors) {
    if (view.bytes > 0) {
      const CUresult copied =
          driver.cuMemcpyDtoHAsync(at, reinterpret_cast<CUdeviceptr>(view.data), view.bytes, stream_);
      if (auto said = driver.check(copied, "cuMemcpyDtoHAsync of a tensor of " + std::to_string(view.bytes) + " bytes");
          !said)
        return said;
    }
    at += aligned(view.bytes);
  }
  return Nothing{};
}

void DeviceResults::toHost(TensorFiller &filler, infer::Outputs tensors, infer::TensorDevice::Came came) {
  auto download = std::make_shared<Download>();
  download->tensors = std::move(tensors);
  download->came = std::move(came);
  download->enqueued = enqueue(*download);
  // also after an error: some of it may be on the stream, and the run is
  filler.behind([this, download](const Status &status) { end(*download, status); },
                [download] {
                  KeptForGood::add(download->tensors.owner);
                  KeptForGood::add(std::make_shared<Block>(std::move(download->block)));
                });
}

void DeviceResults::end(Download &download, Status status) {
  infer::Outputs tensors = std::move(download.tensors);
  const auto came = std::move(download.came);
  if (download.enqueued && !status) download.enqueued = std::move(status);
  if (!download.enqueued) {
    tensors = {};
    return came(download.enqueued.error());
  }
  infer::Outputs copies;
  copies.tensors = std::move(tensors.tensors);
  auto *at = static_cast<std::byte *>(download.block.memory.get());
  for (infer::TensorView &view : copies.tensors) {
    view.space = infer::MemorySpace::Host;
    view.data = at;
    at += aligned(view.bytes);
  }
  if (download.block.memory)
    copies.owner =
        std::shared_ptr<Block>(new Block(std::move(download.block)), [home = std::weak_ptr(blocks_)](Block *block) {
          const std::unique_ptr<Block> owned(block);
          if (const auto blocks = home.lock()) {
            const std::lock_guard lock(blocks->mutex);
            blocks->unused.push_back(std::move(*owned));
          }
        });
  tensors.owner.reset(); // the device has read them
  came(std::move(copies));
}

// ---- for others

Status DeviceResults::orderShared(GstZcDeviceEvent *event) {
  Status ordered = Nothing{};
  if (waitPoint("shared-order")) waitForCudaEvent(*context_, gst_cuda_stream_get_handle(order_), event, &ordered);
  return ordered;
}

Result<std::vector<infer::BufferRef>> DeviceResults::share(TensorFiller &filler, const infer::Outputs &tensors,
                                                           const std::shared_ptr<void> &keep) {
  if (gst_context_ == nullptr) return Error{"tensors of a CUDA context that nobody else has", ENOSYS, ""};
  auto recorded = events_->record(stream_, nullptr);
  if (!recorded) return recorded.error();
  const EventRef event(recorded.take());
  if (auto ordered = orderShared(event.get()); !ordered) return ordered.error();

  const auto owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(tensors.owner, keep);
  const auto retire = [&filler, order = gst_cuda_stream_get_handle(order_)](Readers readers,
                                                                            std::function<void()> free) {
    filler.retireShared(order, readers, std::move(free));
  };
  std::vector<infer::BufferRef> buffers;
  for (const infer::TensorView &view : tensors.tensors) {
    infer::BufferRef buffer(gst_buffer_new());
    if (view.bytes > 0) {
      auto memory =
          wrapTensor(gst_context_, order_, reinterpret_cast<CUdeviceptr>(view.data), view.bytes, owner, retire);
      if (!memory) return memory.error();
      gst_buffer_append_memory(buffer.get(), *memory);
    }
    gst_buffer_add_zc_event_meta(buffer.get(), event.get(), 0);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

} // namespace gstzc::cuda
