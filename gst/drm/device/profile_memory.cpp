// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/profile_memory.h"

#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

namespace gstzc {

int ProfileMemory::create(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) {
  if (width == 0 || height == 0 || bits == 0 || bits > 64) return EINVAL;
  constexpr uint64_t kPitchAlignment = 64;
  const uint64_t pitch = (uint64_t{width} * ((bits + 7) / 8) + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  const uint64_t size = (pitch * height + 4095) / 4096 * 4096;
  if (pitch > UINT32_MAX || size > INT64_MAX / 2) return EINVAL;
  Object object;
  object.fd = UniqueFd(memfd_create("profile-dumb", MFD_CLOEXEC));
  if (!object.fd.isValid() || ftruncate(object.fd.get(), static_cast<off_t>(size)) != 0) return errno;
  auto identity = bufferId(object.fd.get());
  if (!identity) return identity.error().code;
  object.identity = *identity;
  object.size = size;
  own_.insert(*identity);
  *memory = {next_, static_cast<uint32_t>(pitch), size};
  handles_.emplace(next_++, std::move(object));
  return 0;
}

int ProfileMemory::exportMemory(uint32_t handle, UniqueFd *fd) const {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return ENOENT;
  *fd = UniqueFd::duplicate(it->second.fd.get());
  return fd->isValid() ? 0 : errno;
}

int ProfileMemory::map(const DumbMemory &memory, void **data) const {
  const auto it = handles_.find(memory.handle);
  if (it == handles_.end()) return ENOENT;
  void *mapped = mmap(nullptr, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, it->second.fd.get(), 0);
  if (mapped == MAP_FAILED) return errno;
  *data = mapped;
  return 0;
}

int ProfileMemory::import(int fd, bool own_only, uint32_t *handle) {
  const auto identity = bufferId(fd);
  if (!identity) return EBADF;
  const auto size = fileSize(fd);
  if (!size) return EINVAL; // no dma-buf, and nothing that could pass for one
  if (own_only && !own_.contains(*identity)) return ENODEV;
  for (const auto &[known, object] : handles_)
    if (object.identity == *identity) {
      *handle = known;
      return 0;
    }
  Object object{UniqueFd::duplicate(fd), *identity, *size};
  if (!object.fd.isValid()) return errno;
  *handle = next_;
  handles_.emplace(next_++, std::move(object));
  return 0;
}

int ProfileMemory::close(uint32_t handle) { return handles_.erase(handle) == 1 ? 0 : EINVAL; }

std::optional<uint64_t> ProfileMemory::size(uint32_t handle) const {
  const auto it = handles_.find(handle);
  if (it == handles_.end()) return std::nullopt;
  return it->second.size;
}

} // namespace gstzc
