// SPDX-License-Identifier: LGPL-2.1-or-later
// What is known of modifiers beyond their equality: how good a layout is for scan-out, how many memory planes it takes,
// which pairs of fourcc and modifier cannot be. From drm_fourcc.h, which defines them; docs/negotiation.md has the
// rules with their sources.
#pragma once

#include <cstdint>
#include <string>

#include "gst/zerocopy/core/drm_format.h"
#include "gst/zerocopy/core/format_traits.h"

namespace gstzc {

// What a layout saves when it is read out: ascending.
enum class LayoutTier { Implicit, Linear, Tiled, Compressed };
LayoutTier layoutTier(uint64_t modifier); // an unknown vendor's: Tiled
const char *tierName(LayoutTier tier);    // "compressed"

// Planes of memory that a framebuffer has: those of the fourcc, and auxiliary surfaces (compression state, clear
// colour). 1 to 4.
unsigned memoryPlanes(const DrmFormat &format);
bool memoryPlanesKnown(uint64_t modifier); // false: a layout of which only the fourcc's own planes are known

// Null, or why hardware cannot mean this pair even where a driver lists it: AFBC of several planes in another
// superblock than the one for it, its RGB transform on YCbCr. A sentence for people, static.
const char *impossiblePair(const DrmFormat &format);

// "ARM_AFBC(BLOCK_SIZE=16x16,SPARSE)", "BROADCOM_SAND128 of height 1440", "INTEL_4_TILED_BMG_CCS": libdrm's name of the
// modifier, ours where it has none, the number where nobody has.
std::string layoutName(uint64_t modifier);

} // namespace gstzc
