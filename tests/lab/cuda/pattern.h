// SPDX-License-Identifier: LGPL-2.1-or-later
// A dma-buf whose every page tells where it belongs.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "tests/lab/support/memory.h"

namespace gstzc::lab {

// Bytes that repeat nowhere near a page's length; another `seed` gives others.
inline std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i + 4 <= size; i += 4) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    memcpy(&bytes[i], &state, 4);
  }
  return bytes;
}

inline bool write(int dmabuf, const std::vector<uint8_t> &bytes) {
  auto mapping = Mapping::create(dmabuf, bytes.size());
  if (!mapping) return false;
  const DmaBufCpuScope scope(dmabuf, Access::Write);
  memcpy(mapping->data(), bytes.data(), bytes.size());
  return scope.ok();
}

// One plane that fills the dma-buf.
inline cuda::ImportSource source(int dmabuf, uint32_t fourcc, uint32_t width, uint32_t height, uint32_t pixel_bytes) {
  cuda::ImportSource s;
  s.fd = dmabuf;
  s.size = uint64_t{width} * height * pixel_bytes;
  s.fourcc = fourcc;
  s.width = width;
  s.height = height;
  s.n_planes = 1;
  s.planes[0] = {0, width * pixel_bytes, height, width * pixel_bytes};
  return s;
}

} // namespace gstzc::lab
