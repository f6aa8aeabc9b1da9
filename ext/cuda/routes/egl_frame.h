// SPDX-License-Identifier: LGPL-2.1-or-later
// What to do with the frame that CUDA made of an EGL image: a decision without a device.
#pragma once

#include <array>
#include <cstdint>

#include <cudaEGL.h>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

struct EglFramePlan {
  bool in_place = false;   // the frame's own memory is linear and in one range
  CUdeviceptr pointer = 0; // of byte 0, where it is
  uint64_t size = 0;       // bytes, from there or of the memory to copy into
  std::array<ImportPlane, kMaxImportPlanes> planes = {};
  // Where it is not: from which address (or array of the frame) and with which pitch each plane is copied.
  std::array<CUdeviceptr, kMaxImportPlanes> from = {};
  std::array<uint32_t, kMaxImportPlanes> from_pitch = {};
};

// `range`: bytes that belong to one allocation from the first plane on; 0: nobody knows. Errors (EOPNOTSUPP): the frame
// does not have the planes of the picture, because the driver converted or cropped it.
Result<EglFramePlan> planEglFrame(const CUeglFrame &frame, const ImportSource &source, uint64_t range);

} // namespace gstzc::cuda
