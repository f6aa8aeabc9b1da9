// SPDX-License-Identifier: LGPL-2.1-or-later
// Allocation of dma-bufs without a graphics driver: from udmabuf over a sealed memfd and from dma-heaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

// What the devices that will use the memory can deal with.
enum class MemoryNeed {
  Any,
  Contiguous, // physically: for devices without an IOMMU. From heaps whose name promises it, and from huge pages: a
              // udmabuf over a memfd of huge pages is contiguous where it fits one of them
};

// Where the nodes are. Tests point these elsewhere.
struct DmaNodes {
  std::string udmabuf = "/dev/udmabuf";
  std::string heaps = "/dev/dma_heap";
  std::string udmabuf_limit = "/sys/module/udmabuf/parameters/size_limit_mb"; // MiB per buffer, decimal
  std::string huge_pages = "/sys/kernel/mm/hugepages";                        // a folder for each size
};

// One allocation. `fd` is the dma-buf (the memfd itself in mode Memfd). All bytes are zero.
struct DmaBuffer {
  UniqueFd fd;
  size_t size = 0; // bytes, whole pages (huge ones in mode Memfd with the need Contiguous)
  DmaSource source = DmaSource::Udmabuf;
  UniqueFd memfd; // under a udmabuf, and in mode Memfd: the file whose pages these are; else invalid
  uint64_t memfd_offset = 0;
  bool contiguous = false; // promised, see MemoryNeed
  bool cached = true;      // CPU accesses go through the caches
};

// Holds the device nodes open, so that what a process may not use is said once, early, and by name. Thread-safe:
// alloc() only uses what open() left.
class GSTZC_API DmaAllocator {
public:
  // Errors name every node that was tried, its errno and the remedy. `heap` is a name in /dev/dma_heap. With the need
  // Contiguous, Auto means the named heap unless it is known to be scattered, then udmabuf over huge pages (which can
  // be registered with other APIs), then whatever heap promises it.
  static Result<DmaAllocator> open(DmaSource source, const std::string &heap, MemoryNeed need = MemoryNeed::Any,
                                   const DmaNodes &nodes = {});

  // `bytes` is rounded up to whole pages; 0 is an error (EINVAL). Never memory that does not meet the need.
  Result<DmaBuffer> alloc(size_t bytes) const;

  // Two pages that are certainly not adjacent (the same one twice), to ask a device whether it takes such memory. Only
  // udmabuf can make it: ENODEV where that is not open.
  Result<DmaBuffer> allocScattered() const;

  DmaSource source() const { return source_; } // as asked for: may be Auto
  MemoryNeed need() const { return need_; }

  DmaAllocator(DmaAllocator &&) = default;
  DmaAllocator &operator=(DmaAllocator &&) = default;

private:
  struct Heap {
    std::string name;
    UniqueFd fd;
  };

  DmaAllocator() = default;
  Result<DmaBuffer> allocUdmabuf(size_t bytes) const;
  Result<DmaBuffer> allocHeap(const Heap &heap, size_t bytes) const;
  Result<DmaBuffer> allocMemfd(size_t bytes) const;
  Result<UniqueFd> memfdOf(size_t *bytes) const;

  DmaSource source_ = DmaSource::Auto;
  MemoryNeed need_ = MemoryNeed::Any;
  DmaNodes nodes_;
  UniqueFd udmabuf_;
  std::vector<Heap> heaps_; // in the order of trying
  bool heap_first_ = false; // the first of them before udmabuf
};

// What a heap's name promises. The kernel tells user space nothing else about a heap; an unknown name promises nothing.
struct HeapTraits {
  bool contiguous = false; // physically, so that a device without an IOMMU can use it
  bool scattered = false;  // certainly not contiguous
  bool cached = true;      // CPU accesses go through the caches
};
GSTZC_API HeapTraits heapTraits(const std::string &heap);

// NUMA node of the page at `offset` of a memfd (a multiple of its pages), which is allocated if it was not yet. -1
// where the kernel does not say: without NUMA support, or for files whose pages it does not know.
GSTZC_API int numaNode(int memfd, uint64_t offset);

} // namespace gstzc
