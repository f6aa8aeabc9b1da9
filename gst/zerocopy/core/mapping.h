// SPDX-License-Identifier: LGPL-2.1-or-later
// CPU mappings of buffers that stay while the buffers come round again: mapping a frame anew for each access costs page
// faults for all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/import_cache.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// A whole dma-buf (or other file) in the address space, for reading only: it is shared by all who read in this process,
// and none of them can damage a frame through it. Keeps the memory alive. Accesses are bracketed with DmaBufCpuScope.
class GSTZC_API CpuMapping {
public:
  // Errors: EINVAL for a size of 0, and what mmap() says: EACCES for a descriptor that may not be read, EINVAL or
  // ENODEV for memory the CPU cannot see.
  static Result<std::shared_ptr<CpuMapping>> create(int fd, uint64_t size);
  ~CpuMapping();
  CpuMapping(const CpuMapping &) = delete;
  CpuMapping &operator=(const CpuMapping &) = delete;

  const uint8_t *data() const { return data_; }
  size_t size() const { return size_; } // bytes

private:
  CpuMapping(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  const uint8_t *const data_;
  const size_t size_;
};

// The mappings of the process in its ImportCache. Whoever reads frames holds one while he does: when the last holder
// lets go, all mappings that nobody uses go. Thread-safe.
class GSTZC_API MappingCache {
public:
  explicit MappingCache(ImportCache &cache);
  ~MappingCache();
  MappingCache(const MappingCache &) = delete;
  MappingCache &operator=(const MappingCache &) = delete;

  // The one all share.
  static std::shared_ptr<MappingCache> process();

  // The buffer's mapping; `id` is its identity as bufferId() gives it. Errors: as CpuMapping::create(); ESPIPE for what
  // has no size.
  Result<std::shared_ptr<CpuMapping>> map(int fd, const BufferId &id);

  ImportCache::Counters counters() const { return cache_.counters(importer_); } // imports: mappings made

private:
  ImportCache &cache_;
  const ImporterId importer_;
};

} // namespace gstzc
