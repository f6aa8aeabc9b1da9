// SPDX-License-Identifier: LGPL-2.1-or-later
// A buffer's pages in the address space, where the device may be allowed to read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// A shared mapping, also of files of huge pages, which are mapped and unmapped in whole ones.
class HostMapping {
public:
  static Result<HostMapping> create(int fd, uint64_t offset, uint64_t size, bool writable);
  HostMapping() = default;
  HostMapping(HostMapping &&other) noexcept;
  HostMapping &operator=(HostMapping &&other) noexcept;
  ~HostMapping();

  uint8_t *data() const { return data_; }

private:
  uint8_t *data_ = nullptr;
  uint64_t size_ = 0; // that is mapped
};

// Where a buffer's pages can be mapped. The mapping of a dma-buf is often one whose pages the kernel gives to nobody
// (VM_PFNMAP): of udmabufs, of the system heap, of most drivers of displays. The memfd under a udmabuf has the same
// pages as an ordinary file's. What is no dma-buf is taken for such a file itself.
struct HostFile {
  int fd = -1;
  uint64_t offset = 0;
  bool ordinary = false; // a memfd
  const char *name = ""; // "the memfd under it": for errors
};
HostFile memfdOf(const ImportSource &source); // fd -1: there is none
HostFile dmabufOf(const ImportSource &source);

// Pages that the device reads where they are. Members in the order of making.
struct RegisteredPages {
  HostMapping mapping;
  Owned<void *, &Driver::cuMemHostUnregister> registration;
  CUdeviceptr pointer = 0;

  // `flags` besides DEVICEMAP and PORTABLE. Errors name the file, the call and what its refusal means.
  static Result<RegisteredPages> create(const ContextPtr &context, const ImportSource &source, const HostFile &file,
                                        unsigned flags);
};

// Of the device: pages are registered for reading only where it knows that, so that files that may not be written can
// be registered and no kernel can damage a frame.
unsigned readOnlyFlag(const CudaContext &context);

// Where devices share memory with the CPU without sharing its caches, a dma-buf has to be handed over to the CPU
// (DMA_BUF_IOCTL_SYNC) before somebody reads it through a mapping: stale lines of the CPU's cache are thrown away then.
// The GPUs of such systems snoop that cache or are handed the pages by the driver, so they read what the CPU would. As
// nobody writes to the frame while it is read, no line can become stale again, and begin and end may come at once.
// PCIe devices read coherently where desktops and servers are concerned: nothing to do.
bool needsHandover(const CudaContext &context, const ImportSource &source);
// The bracket of a reader, begun where the frame's fences are over, on any thread. None where a device still writes to
// the buffer: the kernel would wait for it without a deadline, and its frame was given up before.
std::optional<DmaBufCpuScope> handOver(int fd);

} // namespace gstzc::cuda
