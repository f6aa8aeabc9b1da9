// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/format_blob.h"

#include <cstring>
#include <vector>

#include <drm_fourcc.h>
#include <drm_mode.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

std::vector<unsigned char> blob(const std::vector<uint32_t> &formats,
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

TEST(InFormats, PairsOfFormatAndModifier) {
  const auto bytes = blob({DRM_FORMAT_XRGB8888, DRM_FORMAT_NV12},
                          {{0b11, 0, 0, DRM_FORMAT_MOD_LINEAR}, {0b10, 0, 0, I915_FORMAT_MOD_Y_TILED}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()),
            (std::vector<DrmFormat>{{DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR},
                                    {DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR},
                                    {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED}}));
}

TEST(InFormats, AllBitsOfTheMask) {
  std::vector<uint32_t> formats(64);
  for (uint32_t i = 0; i < 64; ++i) formats[i] = 1000 + i;
  const auto bytes = blob(formats, {{(1ull << 31) | (1ull << 32) | (1ull << 63), 0, 0, 5}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (std::vector<DrmFormat>{{1031, 5}, {1032, 5}, {1063, 5}}));
}

TEST(InFormats, WindowsOf64Formats) {
  std::vector<uint32_t> formats(70);
  for (uint32_t i = 0; i < 70; ++i) formats[i] = 1000 + i;
  const auto bytes = blob(formats, {{1, 0, 0, 5}, {0b100001, 64, 0, 5}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (std::vector<DrmFormat>{{1000, 5}, {1064, 5}, {1069, 5}}));
}

TEST(InFormats, EmptyMasksAndInvalidAreNothing) {
  const auto bytes = blob({DRM_FORMAT_NV12}, {{0, 0, 0, DRM_FORMAT_MOD_QCOM_COMPRESSED},
                                              {1, 0, 0, DRM_FORMAT_MOD_INVALID},
                                              {0xfffffffe, 0, 0, 7}}); // bits past the last format
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

TEST(InFormats, NoFormats) {
  const auto bytes = blob({}, {{~0ull, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

TEST(InFormats, TruncatedOrUnknown) {
  auto bytes = blob({DRM_FORMAT_NV12}, {{1, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<unsigned char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(parseInFormats(cut.data(), size)) << size;
  }
  EXPECT_FALSE(parseInFormats(nullptr, 100));
  drm_format_modifier_blob head;
  std::memcpy(&head, bytes.data(), sizeof head);
  head.count_modifiers = 0xffffffff; // the product must not wrap
  std::memcpy(bytes.data(), &head, sizeof head);
  EXPECT_FALSE(parseInFormats(bytes.data(), bytes.size()));
  head.count_modifiers = 1;
  head.version = 2;
  std::memcpy(bytes.data(), &head, sizeof head);
  EXPECT_FALSE(parseInFormats(bytes.data(), bytes.size()));
}

} // namespace
