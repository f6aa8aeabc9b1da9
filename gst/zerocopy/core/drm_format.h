// SPDX-License-Identifier: LGPL-2.1-or-later
// Pixel formats with modifiers as values: names, sets, and when two are the same.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// A DRM_FORMAT_* with a DRM_FORMAT_MOD_*.
struct DrmFormat {
  uint32_t fourcc = 0;
  uint64_t modifier = 0; // LINEAR
  auto operator<=>(const DrmFormat &) const = default;
};

// "NV12", "R8  ", "RG16_BE", "NV12:0x0100000000000002": as GStreamer's drm-format writes it. Errors say what of the
// text is wrong: a fourcc that is not 4 characters, or has others than the capitals, digits and final spaces that DRM's
// consist of ("nv12" is nobody's); a modifier that is not hexadecimal with 0x; modifier INVALID, which cannot be said
// in caps; a modifier of 0, which is written by leaving it out.
GSTZC_API Result<DrmFormat> parseDrmFormat(std::string_view text);
GSTZC_API std::string toString(const DrmFormat &format);

// For people: "NV12 INTEL_Y_TILED", "NV12 linear"; numbers where libdrm has no name.
GSTZC_API std::string describe(const DrmFormat &format);
GSTZC_API std::string modifierName(uint64_t modifier);

// The modifier without what does not take part in a comparison: Broadcom's SAND layouts carry the height of their
// columns, which displays advertise as 0 (meaning any).
GSTZC_API uint64_t comparableModifier(uint64_t modifier);
GSTZC_API bool sameLayout(const DrmFormat &a, const DrmFormat &b);

// Formats in order of preference, each layout once.
class GSTZC_API DrmFormatSet {
public:
  DrmFormatSet() = default;
  DrmFormatSet(std::initializer_list<DrmFormat> formats);

  bool add(const DrmFormat &format); // false: it was there
  bool contains(const DrmFormat &format) const;
  const std::vector<DrmFormat> &formats() const { return formats_; }
  bool empty() const { return formats_.empty(); }
  size_t size() const { return formats_.size(); }
  std::vector<uint64_t> modifiersOf(uint32_t fourcc) const;

  // In this set's order. Where the two differ in a parameter the one that has it is taken: it is the real buffer's.
  DrmFormatSet intersect(const DrmFormatSet &other) const;
  DrmFormatSet unite(const DrmFormatSet &other) const; // this set's, then what only the other has
  std::string toString() const;                        // "NV12, XR24:0x0100000000000002"

private:
  std::vector<DrmFormat> formats_;
};

} // namespace gstzc
