// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/mapping.h"

#include <cerrno>
#include <mutex>
#include <string>

#include <sys/mman.h>

namespace gstzc {

Result<std::shared_ptr<CpuMapping>> CpuMapping::create(int fd, uint64_t size) {
  void *data = MAP_FAILED;
  if (size <= SIZE_MAX)
    data = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, fd, 0);
  else
    errno = EOVERFLOW;
  if (data == MAP_FAILED)
    return Error{"map " + std::to_string(size) + " bytes of descriptor " + std::to_string(fd) + " for reading", errno,
                 ""};
  return std::shared_ptr<CpuMapping>(new CpuMapping(static_cast<const uint8_t *>(data), static_cast<size_t>(size)));
}

CpuMapping::~CpuMapping() { munmap(const_cast<uint8_t *>(data_), size_); }

MappingCache::MappingCache(ImportCache &cache) : cache_(cache), importer_(cache.addImporter()) {}

MappingCache::~MappingCache() { cache_.removeImporter(importer_); }

std::shared_ptr<MappingCache> MappingCache::process() {
  static std::mutex mutex;
  static std::weak_ptr<MappingCache> shared;
  const std::lock_guard lock(mutex);
  auto cache = shared.lock();
  if (!cache) shared = cache = std::make_shared<MappingCache>(ImportCache::process());
  return cache;
}

Result<std::shared_ptr<CpuMapping>> MappingCache::map(int fd, const BufferId &id) {
  auto size = fileSize(fd);
  if (!size) return size.error();
  ImportKey key;
  key.importer = importer_;
  key.n_planes = 1;
  key.buffers[0] = id;
  key.size = *size;
  if (auto known = cache_.find<CpuMapping>(key)) return known;
  auto made = CpuMapping::create(fd, *size);
  if (!made) return made;
  return cache_.insert(key, made.take());
}

} // namespace gstzc
