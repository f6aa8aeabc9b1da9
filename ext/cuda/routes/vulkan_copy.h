// SPDX-License-Identifier: LGPL-2.1-or-later
// Vulkan's half of the route vulkan-bridge: a dma-buf as a buffer, memory that can be handed to others, and the
// recorded copy from one to the other. Nothing of it needs CUDA.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "ext/cuda/routes/route.h"
#include "ext/cuda/routes/vulkan_api.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::cuda {

// The bytes [begin, begin + size) of a dma-buf, as they are.
struct CopyRange {
  uint64_t begin = 0, size = 0;
};
// What all planes lie in, from a boundary that keeps their alignment. Error: a plane lies outside of the dma-buf.
Result<CopyRange> copyRange(const ImportSource &source);

// One dma-buf's copy. A timeline semaphore of its own orders the copies: start(n) waits for value 2n - 1 of whoever
// made the frame ready, and ends with 2n. One thread at a time.
class VulkanCopy {
public:
  // Why this device cannot do it with any buffer.
  static Status supported(VulkanDevice &device);
  static Result<std::unique_ptr<VulkanCopy>> create(VulkanDevicePtr device, const ImportSource &source);
  ~VulkanCopy(); // nothing is pending: see finished()
  VulkanCopy(const VulkanCopy &) = delete;
  VulkanCopy &operator=(const VulkanCopy &) = delete;

  const CopyRange &range() const { return range_; }
  uint64_t memorySize() const { return memory_size_; } // bytes, as importers of the memory have to say it
  bool isDedicated() const { return dedicated_; }      // and whether it is this buffer's alone
  Result<UniqueFd> exportMemory();                     // OPAQUE_FD
  VkSemaphore timeline() const { return timeline_.get(); }

  // Submits a copy that starts when the timeline has `ready`, and sets it to `done` in the end.
  Status start(uint64_t ready, uint64_t done);
  Status signal(uint64_t value); // by the host
  // Until the timeline has `value`. Error: ETIMEDOUT.
  Status wait(uint64_t value, std::chrono::nanoseconds timeout);

private:
  explicit VulkanCopy(VulkanDevicePtr device) : device_(std::move(device)) {}
  Status importBuffer(const ImportSource &source);
  Status makeTarget();
  Status record();

  const VulkanDevicePtr device_;
  CopyRange range_;
  uint64_t memory_size_ = 0;
  bool dedicated_ = false;
  // in the order of their making; buffers go before their memory
  VulkanMemory source_memory_, target_memory_;
  VulkanBuffer source_, target_;
  VulkanCommandPool pool_;
  VkCommandBuffer commands_ = VK_NULL_HANDLE; // of the pool
  VulkanSemaphore timeline_;
};

} // namespace gstzc::cuda
