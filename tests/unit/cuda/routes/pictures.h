// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames in files that stand for dma-bufs, with known content.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include <drm_fourcc.h>
#include <sys/mman.h>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::cuda::test {

constexpr uint64_t wholePages(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// NV12 with that pitch, and `padded` rows of luma before the chroma (0: as many as there are).
inline ImportSource nv12(uint32_t width, uint32_t height, uint32_t pitch, uint32_t padded = 0) {
  const uint32_t chroma_rows = (height + 1) / 2, chroma_bytes = (width + 1) / 2 * 2;
  ImportSource source;
  source.id = {1, 1};
  source.fourcc = DRM_FORMAT_NV12;
  source.width = width;
  source.height = height;
  source.n_planes = 2;
  source.planes[0] = {0, pitch, height, width};
  source.planes[1] = {uint64_t{pitch} * (padded ? padded : height), pitch, chroma_rows, chroma_bytes};
  source.size = wholePages(source.planes[1].offset + uint64_t{pitch} * chroma_rows);
  return source;
}

inline ImportSource rgba(uint32_t width, uint32_t height, uint32_t pitch) {
  ImportSource source;
  source.id = {1, 2};
  source.fourcc = DRM_FORMAT_ABGR8888;
  source.width = width;
  source.height = height;
  source.n_planes = 1;
  source.planes[0] = {0, pitch, height, width * 4};
  source.size = wholePages(uint64_t{pitch} * (height - 1) + width * 4);
  return source;
}

// Planes of three pitches that lie in another order than they are numbered in.
inline ImportSource i420(uint32_t width, uint32_t height, uint32_t pitch) {
  const uint32_t half = (width + 1) / 2, rows = (height + 1) / 2, chroma_pitch = (pitch + 1) / 2;
  ImportSource source;
  source.id = {1, 3};
  source.fourcc = DRM_FORMAT_YUV420;
  source.width = width;
  source.height = height;
  source.n_planes = 3;
  source.planes[0] = {0, pitch, height, width};
  source.planes[2] = {uint64_t{pitch} * height, chroma_pitch, rows, half};
  source.planes[1] = {source.planes[2].offset + uint64_t{chroma_pitch} * rows, chroma_pitch, rows, half};
  source.size = wholePages(source.planes[1].offset + uint64_t{chroma_pitch} * rows);
  return source;
}

using Bytes = std::vector<uint8_t>;

inline Bytes noise(uint64_t size, uint32_t seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (uint64_t i = 0; i < size; i += 4) {
    const uint32_t value = random();
    std::memcpy(bytes.data() + i, &value, std::min<uint64_t>(4, size - i));
  }
  return bytes;
}

// What a device that sees `bytes` reads of the planes: rows without gaps.
inline Bytes packed(const ImportSource &source, const Bytes &bytes) {
  Bytes result;
  for (unsigned p = 0; p < source.n_planes; ++p)
    for (uint32_t row = 0; row < source.planes[p].rows; ++row) {
      const auto from =
          bytes.begin() + static_cast<ptrdiff_t>(source.planes[p].offset + uint64_t{row} * source.planes[p].pitch);
      result.insert(result.end(), from, from + source.planes[p].row_bytes);
    }
  return result;
}

// A file with that content. As its identity is real, so is the source's.
class Picture {
public:
  Picture(const ImportSource &layout, const Bytes &bytes) : source(layout), fd_(memfd_create("picture", MFD_CLOEXEC)) {
    if (ftruncate(fd_.get(), static_cast<off_t>(source.size)) != 0 ||
        pwrite(fd_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      std::abort();
    source.fd = fd_.get();
    source.id = *bufferId(fd_.get());
  }
  explicit Picture(const ImportSource &layout, uint32_t seed = 1) : Picture(layout, noise(layout.size, seed)) {}

  void write(const Bytes &bytes) {
    if (pwrite(fd_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  }
  Bytes read() const {
    Bytes bytes(source.size);
    if (pread(fd_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
    return bytes;
  }

  ImportSource source;

private:
  UniqueFd fd_;
};

} // namespace gstzc::cuda::test
