// SPDX-License-Identifier: LGPL-2.1-or-later
// IN_FORMATS blobs as the kernel lays them out, from tables or from pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <drm_mode.h>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc::test {

inline std::vector<unsigned char> inFormatsBlob(const std::vector<uint32_t> &formats,
                                                const std::vector<drm_format_modifier> &modifiers) {
  drm_format_modifier_blob head = {};
  head.version = FORMAT_BLOB_CURRENT;
  head.count_formats = static_cast<uint32_t>(formats.size());
  head.formats_offset = sizeof head;
  head.count_modifiers = static_cast<uint32_t>(modifiers.size());
  head.modifiers_offset = static_cast<uint32_t>((sizeof head + formats.size() * 4 + 7) / 8 * 8);
  std::vector<unsigned char> bytes(head.modifiers_offset + modifiers.size() * sizeof(drm_format_modifier));
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!formats.empty()) std::memcpy(bytes.data() + head.formats_offset, formats.data(), formats.size() * 4);
  if (!modifiers.empty())
    std::memcpy(bytes.data() + head.modifiers_offset, modifiers.data(), modifiers.size() * sizeof(drm_format_modifier));
  return bytes;
}

// One entry for each modifier and window of 64 formats.
inline std::vector<unsigned char> inFormatsBlob(const std::vector<DrmFormat> &pairs) {
  std::vector<uint32_t> formats;
  std::vector<uint64_t> order;
  for (const DrmFormat &p : pairs) {
    if (std::find(formats.begin(), formats.end(), p.fourcc) == formats.end()) formats.push_back(p.fourcc);
    if (std::find(order.begin(), order.end(), p.modifier) == order.end()) order.push_back(p.modifier);
  }
  std::vector<drm_format_modifier> entries;
  for (const uint64_t modifier : order)
    for (uint32_t window = 0; window < formats.size(); window += 64) {
      drm_format_modifier entry = {};
      entry.offset = window;
      entry.modifier = modifier;
      for (const DrmFormat &p : pairs) {
        const auto index = static_cast<size_t>(std::find(formats.begin(), formats.end(), p.fourcc) - formats.begin());
        if (p.modifier == modifier && index >= window && index < window + 64)
          entry.formats |= uint64_t{1} << (index - window);
      }
      if (entry.formats != 0) entries.push_back(entry);
    }
  return inFormatsBlob(formats, entries);
}

} // namespace gstzc::test
