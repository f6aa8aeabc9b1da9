// SPDX-License-Identifier: LGPL-2.1-or-later
// libgbm, opened when the first tiled buffer is wanted: who makes memory that a GPU writes and a display reads. Its
// interface is stable and small; what is used of it is declared here, so that building needs no header of it.
#pragma once

#include <cstdint>

#include "gst/zerocopy/core/result.h"

struct gbm_device; // libgbm's
struct gbm_bo;

namespace gstzc {

// Flags of a buffer: GBM_BO_USE_*
constexpr uint32_t kGbmScanout = 1 << 0;
constexpr uint32_t kGbmRendering = 1 << 2;

struct GbmLibrary {
  // A device borrows the descriptor; null: errno says why.
  gbm_device *(*create_device)(int fd) = nullptr;
  void (*device_destroy)(gbm_device *device) = nullptr;
  const char *(*device_get_backend_name)(gbm_device *device) = nullptr;
  // One of the modifiers is taken. Since Mesa 21.3.
  gbm_bo *(*bo_create_with_modifiers2)(gbm_device *device, uint32_t width, uint32_t height, uint32_t format,
                                       const uint64_t *modifiers, unsigned int count, uint32_t flags) = nullptr;
  void (*bo_destroy)(gbm_bo *bo) = nullptr;
  uint64_t (*bo_get_modifier)(gbm_bo *bo) = nullptr;
  int (*bo_get_plane_count)(gbm_bo *bo) = nullptr;
  // A new descriptor, the caller's. Since Mesa 21.1.
  int (*bo_get_fd_for_plane)(gbm_bo *bo, int plane) = nullptr;
  uint32_t (*bo_get_stride_for_plane)(gbm_bo *bo, int plane) = nullptr; // bytes
  uint32_t (*bo_get_offset)(gbm_bo *bo, int plane) = nullptr;           // bytes, into the plane's memory

  // Errors: it is not there, or too old.
  static Result<GbmLibrary> open(const char *name);
  // libgbm.so.1, once per process; stays open, as the drivers that it loads cannot be unloaded.
  static const Result<GbmLibrary> &get();
};

} // namespace gstzc
