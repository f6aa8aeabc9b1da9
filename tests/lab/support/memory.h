// SPDX-License-Identifier: LGPL-2.1-or-later
// dma-bufs of the laboratory's allocators, straight from the kernel: what a test gives to a device or compares with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// A dma-buf of at least `size` bytes (whole pages), zeroed.
Result<UniqueFd> allocateUdmabuf(size_t size);
Result<UniqueFd> allocateHeap(size_t size, const char *heap = "/dev/dma_heap/system");

// The part of the kernel that a dma-buf comes from, by its own word: "udmabuf", "vivid", "virtio_gpu"…
std::string exporter(int fd);

// A mapping of the first `size` bytes for reading and writing. Bracketing accesses is the caller's business.
class Mapping {
public:
  static Result<Mapping> create(int fd, size_t size);
  Mapping(Mapping &&other) noexcept;
  Mapping &operator=(Mapping &&) = delete;
  ~Mapping();
  uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  Mapping(uint8_t *data, size_t size) : data_(data), size_(size) {}
  uint8_t *data_;
  size_t size_;
};

} // namespace gstzc::lab
