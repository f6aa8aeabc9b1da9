// SPDX-License-Identifier: LGPL-2.1-or-later
// What the kernel refused, so that it is not asked again. A pair is remembered when every way to show it on the plane
// in that size has failed: a refusal of one scaling says nothing of the others.
#pragma once

#include <compare>
#include <cstdint>
#include <set>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc {

// Not synchronised: belongs to whoever negotiates.
class FailureMemory {
public:
  // AddFB refused the pair (`plane` 0: for every plane), or TEST_ONLY the pair on that plane, in frames of that size. A
  // size of 0x0 means all sizes. Returns whether it is news.
  bool add(uint32_t plane, const DrmFormat &format, uint32_t width, uint32_t height);
  // Of the plane's id, or of every plane. A size of 0x0 asks about entries for all sizes only.
  bool contains(uint32_t plane, const DrmFormat &format, uint32_t width, uint32_t height) const;
  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    uint32_t plane;
    uint32_t fourcc;
    uint64_t modifier; // comparable
    uint32_t width, height;
    auto operator<=>(const Entry &) const = default;
  };
  std::set<Entry> entries_;
};

} // namespace gstzc
