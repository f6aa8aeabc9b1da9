// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/failure_memory.h"

namespace gstzc {

bool FailureMemory::add(uint32_t plane, const DrmFormat &format, uint32_t width, uint32_t height) {
  return entries_.insert({plane, format.fourcc, comparableModifier(format.modifier), width, height}).second;
}

bool FailureMemory::contains(uint32_t plane, const DrmFormat &format, uint32_t width, uint32_t height) const {
  if (entries_.empty()) return false;
  const uint64_t modifier = comparableModifier(format.modifier);
  for (const uint32_t id : {plane, 0u}) {
    if (entries_.contains({id, format.fourcc, modifier, 0, 0})) return true;
    if ((width != 0 || height != 0) && entries_.contains({id, format.fourcc, modifier, width, height})) return true;
    if (plane == 0) break;
  }
  return false;
}

} // namespace gstzc
