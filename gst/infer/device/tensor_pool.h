// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory for tensors that a device writes, used again: pinning memory takes longer than a frame may.
#pragma once

#include <cstddef>
#include <memory>

#include "gst/infer/device/tensor_device.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// Thread-safe. Grows with what is in use at a time, which the frames in flight bound.
class TensorPool {
public:
  TensorPool(std::shared_ptr<TensorDevice> device, size_t bytes, MemorySpace space = MemorySpace::Host);
  TensorPool(const TensorPool &) = delete;
  TensorPool &operator=(const TensorPool &) = delete;

  // Comes back here with its last reference, or is freed where the pool is gone by then.
  Result<std::shared_ptr<void>> get();
  size_t bytes() const { return bytes_; } // of one
  MemorySpace space() const { return space_; }
  size_t unused() const;

private:
  struct Unused;
  const std::shared_ptr<TensorDevice> device_;
  const size_t bytes_;
  const MemorySpace space_;
  const std::shared_ptr<Unused> unused_;
};

} // namespace gstzc::infer
