// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/format_blob.h"

#include <cstring>
#include <vector>

#include <drm_fourcc.h>
#include <drm_mode.h>
#include <gtest/gtest.h>

#include "tests/support/in_formats.h"

using namespace gstzc;
using test::inFormatsBlob;

namespace {

using Bytes = std::vector<unsigned char>;
using Pairs = std::vector<DrmFormat>;

std::vector<uint32_t> numbered(uint32_t n) {
  std::vector<uint32_t> formats(n);
  for (uint32_t i = 0; i < n; ++i) formats[i] = 1000 + i;
  return formats;
}

drm_format_modifier_blob headOf(const Bytes &bytes) {
  drm_format_modifier_blob head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}

Bytes withHead(Bytes bytes, const drm_format_modifier_blob &head) {
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes;
}

bool refused(const Bytes &bytes) { return !parseInFormats(bytes.data(), bytes.size()); }

TEST(InFormats, PairsOfFormatAndModifier) {
  const auto bytes = inFormatsBlob({DRM_FORMAT_XRGB8888, DRM_FORMAT_NV12},
                                   {{0b11, 0, 0, DRM_FORMAT_MOD_LINEAR}, {0b10, 0, 0, I915_FORMAT_MOD_Y_TILED}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR},
                                                                {DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR},
                                                                {DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED}}));
}

// a shift of a plain int goes wrong from 31 on
TEST(InFormats, AllBitsOfTheMask) {
  const auto bytes = inFormatsBlob(numbered(64), {{(1ull << 31) | (1ull << 32) | (1ull << 63), 0, 0, 5}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{1031, 5}, {1032, 5}, {1063, 5}}));
}

TEST(InFormats, WindowsOf64Formats) {
  const auto bytes = inFormatsBlob(numbered(70), {{1, 0, 0, 5}, {0b100001, 64, 0, 5}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{1000, 5}, {1064, 5}, {1069, 5}}));
}

// windows begin where they like, and may overlap
TEST(InFormats, WindowsAtAnyOffset) {
  const auto bytes = inFormatsBlob(numbered(130), {{1ull << 63, 3, 0, 5}, {1, 66, 0, 5}, {~0ull, 129, 0, 6}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{1066, 5}, {1129, 6}}));
}

TEST(InFormats, MoreThan64FormatsAreRead) {
  const auto bytes =
      inFormatsBlob(numbered(200), {{~0ull, 0, 0, 5}, {~0ull, 64, 0, 5}, {~0ull, 128, 0, 5}, {~0ull, 192, 0, 5}});
  const auto pairs = *parseInFormats(bytes.data(), bytes.size());
  ASSERT_EQ(pairs.size(), 200u);
  EXPECT_EQ(pairs.back(), (DrmFormat{1199, 5}));
}

TEST(InFormats, ListedWithEmptyMask) { // as by Qualcomm's without UBWC, and CCS rows of i915
  const auto bytes = inFormatsBlob({DRM_FORMAT_NV12}, {{0, 0, 0, DRM_FORMAT_MOD_QCOM_COMPRESSED},
                                                       {1, 0, 0, DRM_FORMAT_MOD_INVALID},
                                                       {0xfffffffe, 0, 0, 7}}); // bits past the last format
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

TEST(InFormats, PresentWithoutFormats) { // as by sun4i
  const auto bytes = inFormatsBlob({}, {{~0ull, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

TEST(InFormats, PresentWithoutModifiers) {
  const auto bytes = inFormatsBlob({DRM_FORMAT_NV12, DRM_FORMAT_XRGB8888}, {});
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

TEST(InFormats, FourccZeroIsNoFormat) {
  const auto bytes = inFormatsBlob({0, DRM_FORMAT_NV12}, {{3, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR}}));
}

TEST(InFormats, Truncated) { // a reader that passed a length of its own gets less than the tables say
  const auto bytes = inFormatsBlob({DRM_FORMAT_NV12}, {{1, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(refused(Bytes(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)))) << size;
  EXPECT_FALSE(parseInFormats(nullptr, 100));
}

TEST(InFormats, LongerThanItsTables) {
  auto bytes = inFormatsBlob({DRM_FORMAT_NV12}, {{1, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  bytes.resize(bytes.size() + 64, 0xff);
  EXPECT_EQ(parseInFormats(bytes.data(), bytes.size())->size(), 1u);
}

TEST(InFormats, TablesInAnyPlace) { // modifiers before formats, unaligned
  const Bytes ordinary = inFormatsBlob({DRM_FORMAT_NV12}, {{1, 0, 0, 5}});
  auto head = headOf(ordinary);
  Bytes bytes(sizeof head + 1 + sizeof(drm_format_modifier) + 4);
  std::memcpy(bytes.data() + sizeof head + 1, ordinary.data() + head.modifiers_offset, sizeof(drm_format_modifier));
  std::memcpy(bytes.data() + bytes.size() - 4, ordinary.data() + head.formats_offset, 4);
  head.modifiers_offset = sizeof head + 1;
  head.formats_offset = static_cast<uint32_t>(bytes.size() - 4);
  bytes = withHead(bytes, head);
  EXPECT_EQ(*parseInFormats(bytes.data(), bytes.size()), (Pairs{{DRM_FORMAT_NV12, 5}}));
}

TEST(InFormats, TablesThatCannotBe) {
  const Bytes bytes = inFormatsBlob({DRM_FORMAT_NV12}, {{1, 0, 0, DRM_FORMAT_MOD_LINEAR}});
  const auto changed = [&](auto change) {
    auto head = headOf(bytes);
    change(head);
    return withHead(bytes, head);
  };
  EXPECT_TRUE(refused(changed([](auto &h) { h.version = 2; })));
  EXPECT_TRUE(refused(changed([](auto &h) { h.count_modifiers = 0xffffffff; }))); // the product must not wrap
  EXPECT_TRUE(refused(changed([](auto &h) { h.count_formats = 0xffffffff; })));
  EXPECT_TRUE(refused(changed([](auto &h) { h.count_formats = 0x40000000; })));  // times 4 wraps in 32 bits
  EXPECT_TRUE(refused(changed([](auto &h) { h.formats_offset = 0xfffffffc; }))); // so does the sum
  EXPECT_TRUE(refused(changed([](auto &h) { h.modifiers_offset = 0xfffffff0; })));
  EXPECT_TRUE(refused(changed([](auto &h) { h.formats_offset = 0; }))); // in its own head
  EXPECT_TRUE(refused(changed([](auto &h) { h.modifiers_offset = 4; })));
}

TEST(InFormats, WindowPastTheLastFormat) {
  const auto bytes = inFormatsBlob({DRM_FORMAT_NV12}, {{~0ull, 0xffffffff, 0, 5}, {~0ull, 1, 0, 6}});
  EXPECT_TRUE(parseInFormats(bytes.data(), bytes.size())->empty());
}

// What the blob says costs no more than what it has: a megabyte of entries is read at once, or refused.
TEST(InFormats, ManyEntries) {
  const std::vector<drm_format_modifier> entries(8192, {~0ull, 0, 0, 5});
  auto bytes = inFormatsBlob(numbered(4096), entries);
  EXPECT_EQ(parseInFormats(bytes.data(), bytes.size())->size(), 64u);
  auto head = headOf(bytes);
  head.count_formats = 4097;
  bytes = withHead(bytes, head);
  EXPECT_TRUE(refused(bytes));
}

TEST(InFormats, WrittenAndRead) {
  Pairs pairs;
  for (uint32_t f = 0; f < 100; ++f)
    for (uint64_t m : {7, 5, 0})
      if (m != 7 || f >= 64) pairs.push_back({1000 + f, m});
  const auto bytes = inFormatsBlob(pairs);
  auto read = *parseInFormats(bytes.data(), bytes.size());
  std::sort(read.begin(), read.end());
  std::sort(pairs.begin(), pairs.end());
  EXPECT_EQ(read, pairs);
}

} // namespace
