// SPDX-License-Identifier: LGPL-2.1-or-later
// Values of our schema: of an absent one nothing, of a wrong one an error of its document.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gst/drm/profile/json_value.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

constexpr uint32_t kMaxSide = kMaxFrameSide;

std::vector<uint32_t> readFourccs(const json::Value &list); // ["NV12", "C8  "]
uint64_t readModifier(const json::Value &value);            // "0x…", or a number
std::vector<uint64_t> readModifiers(const json::Value &list);
uint32_t readRotations(const json::Value &list); // ["rotate-0", …] as DRM_MODE_ROTATE_* and DRM_MODE_REFLECT_*
int readErrno(const json::Value &value);         // "EINVAL", or a number
uint32_t bitOf(uint32_t rotation);               // its number

// [width, height]
template <typename T> void readSize(const json::Value &value, T *width, T *height, int64_t least = 1) {
  if (!value.exists()) return;
  const auto sides = value.items(2);
  if (sides.size() != 2) {
    if (value.isArray()) value.fail("a size is needed: [width, height]");
    return;
  }
  *width = static_cast<uint32_t>(sides[0].integer(least, kMaxSide));
  *height = static_cast<uint32_t>(sides[1].integer(least, kMaxSide));
}

// An error where the smallest size that `value` speaks of is larger than the largest.
void checkSizes(const json::Value &value, std::optional<uint32_t> min_width, std::optional<uint32_t> min_height,
                std::optional<uint32_t> max_width, std::optional<uint32_t> max_height);

} // namespace gstzc
