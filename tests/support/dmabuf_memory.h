// SPDX-License-Identifier: LGPL-2.1-or-later
// Memories of the type of dma-bufs over memfds, for tests on machines that have none.
#pragma once

#include <cstdio>
#include <cstring>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <sys/mman.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::test {

inline UniqueFd memfd(size_t size, unsigned char fill = 0) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return {};
  if (fill == 0) return fd;
  void *data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  memset(data, fill, size);
  munmap(data, size);
  return fd;
}

// Wraps descriptors as any producer of dma-bufs does. Memories keep the allocator.
class Wrapper {
public:
  Wrapper() : allocator_(gst_dmabuf_allocator_new()) {
    // its brackets for CPU access are ioctls of dma-bufs
    allocator_->mem_map_full = nullptr;
    allocator_->mem_unmap_full = nullptr;
  }
  ~Wrapper() { gst_object_unref(allocator_); }
  Wrapper(const Wrapper &) = delete;
  Wrapper &operator=(const Wrapper &) = delete;

  // The memory has a descriptor of its own.
  GstMemory *wrap(int fd, gsize size) const {
    return gst_dmabuf_allocator_alloc(allocator_, UniqueFd::duplicate(fd).release(), size);
  }
  // The descriptor stays its owner's, who may close it too early.
  GstMemory *borrow(int fd, gsize size) const {
    return gst_dmabuf_allocator_alloc_with_flags(allocator_, fd, size, GST_FD_MEMORY_FLAG_DONT_CLOSE);
  }

private:
  GstAllocator *allocator_;
};

// Pages of this process in memory.
inline long residentPages() {
  long all = 0, resident = 0;
  if (FILE *file = fopen("/proc/self/statm", "r")) {
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) resident = -1;
    fclose(file);
  }
  return resident;
}

} // namespace gstzc::test
