// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/format_traits.h"

#include <algorithm>
#include <array>

#include <drm_fourcc.h>

namespace gstzc {
namespace {

enum Trait : uint8_t { kYuv = 1, kAlpha = 2, kLow = 4 };
struct FormatRow {
  char name[5];
  uint8_t planes;
  uint8_t traits;
  uint8_t hsub, vsub;
};

// From the comments of drm_fourcc.h. What is not here has one plane, no alpha, at least 8 bits a colour and is not
// YCbCr.
constexpr FormatRow kFormats[] = {
    // palettes, single colours, and RGB with fewer than 8 bits
    {"C1  ", 1, kLow, 1, 1},
    {"C2  ", 1, kLow, 1, 1},
    {"C4  ", 1, kLow, 1, 1},
    {"C8  ", 1, kLow, 1, 1},
    {"D1  ", 1, kLow, 1, 1},
    {"D2  ", 1, kLow, 1, 1},
    {"D4  ", 1, kLow, 1, 1},
    {"D8  ", 1, kLow, 1, 1},
    {"R1  ", 1, kLow, 1, 1},
    {"R2  ", 1, kLow, 1, 1},
    {"R4  ", 1, kLow, 1, 1},
    {"R8  ", 1, kLow, 1, 1},
    {"R10 ", 1, kLow, 1, 1},
    {"R12 ", 1, kLow, 1, 1},
    {"R16 ", 1, kLow, 1, 1},
    {"RG88", 1, kLow, 1, 1},
    {"GR88", 1, kLow, 1, 1},
    {"RG32", 1, kLow, 1, 1},
    {"GR32", 1, kLow, 1, 1},
    {"RGB8", 1, kLow, 1, 1},
    {"BGR8", 1, kLow, 1, 1},
    {"RG16", 1, kLow, 1, 1},
    {"BG16", 1, kLow, 1, 1},
    {"XR12", 1, kLow, 1, 1},
    {"XB12", 1, kLow, 1, 1},
    {"RX12", 1, kLow, 1, 1},
    {"BX12", 1, kLow, 1, 1},
    {"AR12", 1, kLow | kAlpha, 1, 1},
    {"AB12", 1, kLow | kAlpha, 1, 1},
    {"RA12", 1, kLow | kAlpha, 1, 1},
    {"BA12", 1, kLow | kAlpha, 1, 1},
    {"XR15", 1, kLow, 1, 1},
    {"XB15", 1, kLow, 1, 1},
    {"RX15", 1, kLow, 1, 1},
    {"BX15", 1, kLow, 1, 1},
    {"AR15", 1, kLow | kAlpha, 1, 1},
    {"AB15", 1, kLow | kAlpha, 1, 1},
    {"RA15", 1, kLow | kAlpha, 1, 1},
    {"BA15", 1, kLow | kAlpha, 1, 1},
    {"R5A8", 2, kLow | kAlpha, 1, 1},
    {"B5A8", 2, kLow | kAlpha, 1, 1},
    // RGB with alpha
    {"AR24", 1, kAlpha, 1, 1},
    {"AB24", 1, kAlpha, 1, 1},
    {"RA24", 1, kAlpha, 1, 1},
    {"BA24", 1, kAlpha, 1, 1},
    {"AR30", 1, kAlpha, 1, 1},
    {"AB30", 1, kAlpha, 1, 1},
    {"RA30", 1, kAlpha, 1, 1},
    {"BA30", 1, kAlpha, 1, 1},
    {"AR48", 1, kAlpha, 1, 1},
    {"AB48", 1, kAlpha, 1, 1},
    {"AR4H", 1, kAlpha, 1, 1},
    {"AB4H", 1, kAlpha, 1, 1},
    {"AB10", 1, kAlpha, 1, 1},
    {"XRA8", 2, kAlpha, 1, 1},
    {"XBA8", 2, kAlpha, 1, 1},
    {"RXA8", 2, kAlpha, 1, 1},
    {"BXA8", 2, kAlpha, 1, 1},
    {"R8A8", 2, kAlpha, 1, 1},
    {"B8A8", 2, kAlpha, 1, 1},
    // packed YCbCr
    {"YUYV", 1, kYuv, 2, 1},
    {"YVYU", 1, kYuv, 2, 1},
    {"UYVY", 1, kYuv, 2, 1},
    {"VYUY", 1, kYuv, 2, 1},
    {"AYUV", 1, kYuv | kAlpha, 1, 1},
    {"AVUY", 1, kYuv | kAlpha, 1, 1},
    {"XYUV", 1, kYuv, 1, 1},
    {"XVUY", 1, kYuv, 1, 1},
    {"VU24", 1, kYuv, 1, 1},
    {"VU30", 1, kYuv, 1, 1},
    {"Y210", 1, kYuv, 2, 1},
    {"Y212", 1, kYuv, 2, 1},
    {"Y216", 1, kYuv, 2, 1},
    {"Y410", 1, kYuv | kAlpha, 1, 1},
    {"Y412", 1, kYuv | kAlpha, 1, 1},
    {"Y416", 1, kYuv | kAlpha, 1, 1},
    {"XV30", 1, kYuv, 1, 1},
    {"XV36", 1, kYuv, 1, 1},
    {"XV48", 1, kYuv, 1, 1},
    {"Y0L0", 1, kYuv | kAlpha, 2, 2},
    {"X0L0", 1, kYuv, 2, 2},
    {"Y0L2", 1, kYuv | kAlpha, 2, 2},
    {"X0L2", 1, kYuv, 2, 2},
    {"YU08", 1, kYuv, 2, 2},
    {"YU10", 1, kYuv, 2, 2},
    // two planes
    {"NV12", 2, kYuv, 2, 2},
    {"NV21", 2, kYuv, 2, 2},
    {"NV15", 2, kYuv, 2, 2},
    {"NV16", 2, kYuv, 2, 1},
    {"NV61", 2, kYuv, 2, 1},
    {"NV20", 2, kYuv, 2, 1},
    {"NV24", 2, kYuv, 1, 1},
    {"NV42", 2, kYuv, 1, 1},
    {"NV30", 2, kYuv, 1, 1},
    {"P010", 2, kYuv, 2, 2},
    {"P012", 2, kYuv, 2, 2},
    {"P016", 2, kYuv, 2, 2},
    {"P030", 2, kYuv, 2, 2},
    {"P210", 2, kYuv, 2, 1},
    {"P230", 2, kYuv, 2, 1},
    // three planes
    {"YUV9", 3, kYuv, 4, 4},
    {"YVU9", 3, kYuv, 4, 4},
    {"YU11", 3, kYuv, 4, 1},
    {"YV11", 3, kYuv, 4, 1},
    {"YU12", 3, kYuv, 2, 2},
    {"YV12", 3, kYuv, 2, 2},
    {"YU16", 3, kYuv, 2, 1},
    {"YV16", 3, kYuv, 2, 1},
    {"YU24", 3, kYuv, 1, 1},
    {"YV24", 3, kYuv, 1, 1},
    {"Q410", 3, kYuv, 1, 1},
    {"Q401", 3, kYuv, 1, 1},
    {"S010", 3, kYuv, 2, 2},
    {"S210", 3, kYuv, 2, 1},
    {"S410", 3, kYuv, 1, 1},
    {"S012", 3, kYuv, 2, 2},
    {"S212", 3, kYuv, 2, 1},
    {"S412", 3, kYuv, 1, 1},
    {"S016", 3, kYuv, 2, 2},
    {"S216", 3, kYuv, 2, 1},
    {"S416", 3, kYuv, 1, 1},
};

constexpr uint32_t codeOf(const char (&name)[5]) {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i) code |= static_cast<uint32_t>(static_cast<unsigned char>(name[i])) << (8 * i);
  return code;
}

// found in a sorted copy: pairs are looked up by the thousand
const FormatRow *rowOf(uint32_t fourcc) {
  struct Entry {
    uint32_t code;
    const FormatRow *row;
  };
  constexpr size_t n = sizeof kFormats / sizeof *kFormats;
  static const auto sorted = [] {
    std::array<Entry, n> entries;
    for (size_t i = 0; i < n; ++i) entries[i] = {codeOf(kFormats[i].name), &kFormats[i]};
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.code < b.code; });
    return entries;
  }();
  fourcc &= ~DRM_FORMAT_BIG_ENDIAN;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), fourcc,
                                   [](const Entry &entry, uint32_t code) { return entry.code < code; });
  return at != sorted.end() && at->code == fourcc ? at->row : nullptr;
}

} // namespace

unsigned formatPlanes(uint32_t fourcc) {
  const FormatRow *row = rowOf(fourcc);
  return row != nullptr ? row->planes : 1;
}

FormatTraits formatTraits(uint32_t fourcc) {
  FormatTraits traits;
  if (const FormatRow *row = rowOf(fourcc)) {
    traits.yuv = (row->traits & kYuv) != 0;
    traits.alpha = (row->traits & kAlpha) != 0;
    traits.indexed_or_low = (row->traits & kLow) != 0;
    traits.hsub = row->hsub;
    traits.vsub = row->vsub;
  }
  return traits;
}

} // namespace gstzc
