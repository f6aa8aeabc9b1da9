// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/format_blob.h"

#include <cstring>

#include <drm_fourcc.h>
#include <drm_mode.h>

namespace gstzc {

std::optional<std::vector<DrmFormat>> parseInFormats(const void *data, size_t size) {
  const auto *bytes = static_cast<const unsigned char *>(data);
  drm_format_modifier_blob head;
  if (bytes == nullptr || size < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes, sizeof head);
  if (head.version != FORMAT_BLOB_CURRENT) return std::nullopt;
  const uint64_t formats_end = head.formats_offset + uint64_t{head.count_formats} * sizeof(uint32_t);
  const uint64_t modifiers_end = head.modifiers_offset + uint64_t{head.count_modifiers} * sizeof(drm_format_modifier);
  if (formats_end > size || modifiers_end > size) return std::nullopt;

  std::vector<DrmFormat> result;
  for (uint32_t f = 0; f < head.count_formats; ++f) {
    uint32_t fourcc;
    std::memcpy(&fourcc, bytes + head.formats_offset + f * sizeof fourcc, sizeof fourcc);
    for (uint32_t m = 0; m < head.count_modifiers; ++m) {
      drm_format_modifier entry;
      std::memcpy(&entry, bytes + head.modifiers_offset + m * sizeof entry, sizeof entry);
      if (entry.modifier == DRM_FORMAT_MOD_INVALID || f < entry.offset || f - entry.offset >= 64) continue;
      if ((entry.formats >> (f - entry.offset)) & 1) result.push_back({fourcc, entry.modifier});
    }
  }
  return result;
}

} // namespace gstzc
