// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers and handles of a device that a profile describes. Dumb buffers are memfds; a memfd passes for a dma-buf.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "gst/drm/kms_device.h"
#include "gst/zerocopy/core/dmabuf.h"

namespace gstzc {

// Not synchronised. What returns int returns 0 or errno, the kernel's.
class ProfileMemory {
public:
  int create(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory);
  int exportMemory(uint32_t handle, UniqueFd *fd) const;
  int map(const DumbMemory &memory, void **data) const;
  // `own_only`: memory of this device, else ENODEV.
  int import(int fd, bool own_only, uint32_t *handle);
  // EINVAL for what is no handle: somebody closes twice, or what is another's.
  int close(uint32_t handle);
  // Bytes behind a handle; nothing: it is none.
  std::optional<uint64_t> size(uint32_t handle) const;
  size_t handles() const { return handles_.size(); }

private:
  struct Object {
    UniqueFd fd;
    BufferId identity;
    uint64_t size = 0;
  };
  std::map<uint32_t, Object> handles_;
  std::set<BufferId> own_; // of dumb buffers, which live on in their descriptors
  uint32_t next_ = 1;
};

} // namespace gstzc
