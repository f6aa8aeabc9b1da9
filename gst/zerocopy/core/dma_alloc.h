// SPDX-License-Identifier: LGPL-2.1-or-later
// Allocation of dma-bufs without a graphics driver: from udmabuf over a sealed memfd and from dma-heaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

enum class DmaSource {
  Auto,    // udmabuf; the dma-heap where udmabuf is missing or refuses the size
  Udmabuf, // /dev/udmabuf over a memfd: ordinary pages, cached, scattered; the memfd can be registered with other APIs
  DmaHeap, // /dev/dma_heap/<name>: what the heap's name says
  Memfd,   // test mode: shareable memory that is NOT a dma-buf; Auto never chooses it
};

GSTZC_API const char *dmaSourceName(DmaSource source); // "udmabuf", "dma-heap", …

// Where the nodes are. Tests point these elsewhere.
struct DmaNodes {
  std::string udmabuf = "/dev/udmabuf";
  std::string heaps = "/dev/dma_heap";
  std::string udmabuf_limit = "/sys/module/udmabuf/parameters/size_limit_mb"; // MiB per buffer, decimal
};

// One allocation. `fd` is the dma-buf (the memfd itself in mode Memfd). All bytes are zero.
struct DmaBuffer {
  UniqueFd fd;
  size_t size = 0; // bytes, whole pages
  DmaSource source = DmaSource::Udmabuf;
  UniqueFd memfd; // under a udmabuf, and in mode Memfd: the file whose pages these are; else invalid
  uint64_t memfd_offset = 0;
};

// Holds the device nodes open, so that what a process may not use is said once, early, and by name. Thread-safe:
// alloc() only uses what open() left.
class GSTZC_API DmaAllocator {
public:
  // Errors name every node that was tried, its errno and the remedy. `heap` is a name in /dev/dma_heap.
  static Result<DmaAllocator> open(DmaSource source, const std::string &heap, const DmaNodes &nodes = {});

  // `bytes` is rounded up to whole pages; 0 is an error (EINVAL).
  Result<DmaBuffer> alloc(size_t bytes) const;

  DmaSource source() const { return source_; } // as asked for: may be Auto
  const std::string &heapName() const { return heap_name_; }

  DmaAllocator(DmaAllocator &&) = default;
  DmaAllocator &operator=(DmaAllocator &&) = default;

private:
  DmaAllocator() = default;
  Result<DmaBuffer> allocUdmabuf(size_t bytes) const;
  Result<DmaBuffer> allocHeap(size_t bytes) const;
  Result<DmaBuffer> allocMemfd(size_t bytes) const;

  DmaSource source_ = DmaSource::Auto;
  DmaNodes nodes_;
  std::string heap_name_;
  UniqueFd udmabuf_;
  UniqueFd heap_;
};

// What a heap's name promises. The kernel tells user space nothing else about a heap; an unknown name promises nothing.
struct HeapTraits {
  bool contiguous = false; // physically, so that a device without an IOMMU can use it
  bool cached = true;      // CPU accesses go through the caches
};
GSTZC_API HeapTraits heapTraits(const std::string &heap);

} // namespace gstzc
