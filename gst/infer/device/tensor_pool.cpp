// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/device/tensor_pool.h"

#include <mutex>
#include <utility>
#include <vector>

namespace gstzc::infer {

// Knows no device, so that memory on its way through one does not keep it.
struct TensorPool::Unused {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> memories;
};

TensorPool::TensorPool(std::shared_ptr<TensorDevice> device, size_t bytes, MemorySpace space)
    : device_(std::move(device)), bytes_(bytes), space_(space), unused_(std::make_shared<Unused>()) {}

Result<std::shared_ptr<void>> TensorPool::get() {
  std::shared_ptr<void> memory;
  {
    const std::lock_guard lock(unused_->mutex);
    if (!unused_->memories.empty()) {
      memory = std::move(unused_->memories.back());
      unused_->memories.pop_back();
    }
  }
  if (memory == nullptr) {
    auto made = space_ == MemorySpace::Device ? device_->newDeviceMemory(bytes_) : device_->newHostMemory(bytes_);
    if (!made) return made.error();
    memory = made.take();
  }
  void *const data = memory.get();
  return std::shared_ptr<void>(data, [memory = std::move(memory), home = std::weak_ptr(unused_)](void *) mutable {
    if (const auto unused = home.lock()) {
      const std::lock_guard lock(unused->mutex);
      unused->memories.push_back(std::move(memory));
    }
  });
}

size_t TensorPool::unused() const {
  const std::lock_guard lock(unused_->mutex);
  return unused_->memories.size();
}

} // namespace gstzc::infer
