// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/format_blob.h"

#include <bit>
#include <cstring>

#include <drm_fourcc.h>
#include <drm_mode.h>

namespace gstzc {
namespace {

// Far above what drivers have (the kernel warns of more than 64 formats); a blob says how many by itself.
constexpr uint32_t kMaxFormats = 4096, kMaxModifiers = 8192;

// Whether a table of `count` entries lies between the head and the end. The product cannot wrap: both are 32 bits wide.
bool within(uint32_t offset, uint32_t count, size_t entry, size_t size) {
  return count == 0 || (offset >= sizeof(drm_format_modifier_blob) && offset + uint64_t{count} * entry <= size);
}

} // namespace

std::optional<std::vector<DrmFormat>> parseInFormats(const void *data, size_t size) {
  const auto *bytes = static_cast<const unsigned char *>(data);
  drm_format_modifier_blob head;
  if (bytes == nullptr || size < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes, sizeof head); // tables need not be aligned, nor need the blob
  if (head.version != FORMAT_BLOB_CURRENT) return std::nullopt;
  if (head.count_formats > kMaxFormats || head.count_modifiers > kMaxModifiers) return std::nullopt;
  if (!within(head.formats_offset, head.count_formats, sizeof(uint32_t), size) ||
      !within(head.modifiers_offset, head.count_modifiers, sizeof(drm_format_modifier), size))
    return std::nullopt;

  // by format; only bits that are set cost anything
  std::vector<std::vector<uint64_t>> modifiers(head.count_formats);
  for (uint32_t m = 0; m < head.count_modifiers; ++m) {
    drm_format_modifier entry;
    std::memcpy(&entry, bytes + head.modifiers_offset + m * sizeof entry, sizeof entry);
    if (entry.modifier == DRM_FORMAT_MOD_INVALID || entry.offset >= head.count_formats) continue;
    for (uint64_t mask = entry.formats; mask != 0; mask &= mask - 1) {
      const uint64_t format = uint64_t{entry.offset} + static_cast<unsigned>(std::countr_zero(mask));
      if (format >= head.count_formats) break; // bits past the last format
      std::vector<uint64_t> &of = modifiers[format];
      // the same window of the same modifier a second time would come right after the first
      if (of.empty() || of.back() != entry.modifier) of.push_back(entry.modifier);
    }
  }
  std::vector<DrmFormat> result;
  for (uint32_t f = 0; f < head.count_formats; ++f) {
    uint32_t fourcc;
    std::memcpy(&fourcc, bytes + head.formats_offset + f * sizeof fourcc, sizeof fourcc);
    if (fourcc == DRM_FORMAT_INVALID) continue;
    for (const uint64_t modifier : modifiers[f]) result.push_back({fourcc, modifier});
  }
  return result;
}

} // namespace gstzc
