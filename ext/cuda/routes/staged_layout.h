// SPDX-License-Identifier: LGPL-2.1-or-later
// How a frame lies in memory of the device that was allocated for it.
#pragma once

#include <array>
#include <cstdint>

#include "ext/cuda/routes/route.h"

namespace gstzc::cuda {

struct StagedLayout {
  uint64_t size = 0; // bytes
  std::array<ImportPlane, kMaxImportPlanes> planes = {};
};

// The same pitch for all planes, as GStreamer's own CUDA memory has it; a multiple of the device's alignments, and of
// 256 bytes, so that textures can be made of the planes.
StagedLayout stagedLayout(const ImportSource &source, int pitch_alignment, int plane_alignment);

} // namespace gstzc::cuda
