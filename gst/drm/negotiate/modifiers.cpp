// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/modifiers.h"

#include <algorithm>
#include <array>

#include <drm_fourcc.h>

namespace gstzc {
namespace {

// By number where drm_fourcc.h of an older libdrm has no name for them yet.
enum Intel : uint64_t {
  kXTiled = 1,
  kYTiled = 2,
  kYfTiled = 3,
  kYCcs = 4,
  kYfCcs = 5,
  kGen12RcCcs = 6,
  kGen12McCcs = 7,
  kGen12RcCcsCc = 8,
  kTile4 = 9,
  kDg2RcCcs = 10,
  kDg2McCcs = 11,
  kDg2RcCcsCc = 12,
  kMtlRcCcs = 13,
  kMtlMcCcs = 14,
  kMtlRcCcsCc = 15,
  kLnlCcs = 16,
  kBmgCcs = 17,
};
constexpr uint64_t kVendorMtk = 0x0b, kVendorApple = 0x0c;

uint64_t vendorOf(uint64_t modifier) { return modifier >> 56; }
uint64_t valueOf(uint64_t modifier) { return modifier & 0x00ffffffffffffffull; }

// AMD, from GFX9 on
uint64_t amdTileVersion(uint64_t modifier) { return modifier & 0xff; }
bool amdDcc(uint64_t modifier) { return (modifier >> 13) & 1; }
bool amdRetile(uint64_t modifier) { return (modifier >> 14) & 1; }
constexpr uint64_t kAmdGfx9 = 1, kAmdGfx12 = 5;

uint64_t armType(uint64_t modifier) { return (modifier >> 52) & 0xf; }
bool isAfbc(uint64_t modifier) {
  return vendorOf(modifier) == DRM_FORMAT_MOD_VENDOR_ARM && armType(modifier) == DRM_FORMAT_MOD_ARM_TYPE_AFBC;
}

struct Named {
  uint64_t modifier;
  const char *name;
};
constexpr uint64_t code(uint64_t vendor, uint64_t value) { return vendor << 56 | value; }
// as drm_fourcc.h calls them; libdrm 2.4.124 has none for these, older ones for fewer
constexpr Named kNames[] = {
    {code(DRM_FORMAT_MOD_VENDOR_INTEL, kMtlRcCcs), "INTEL_4_TILED_MTL_RC_CCS"},
    {code(DRM_FORMAT_MOD_VENDOR_INTEL, kMtlMcCcs), "INTEL_4_TILED_MTL_MC_CCS"},
    {code(DRM_FORMAT_MOD_VENDOR_INTEL, kMtlRcCcsCc), "INTEL_4_TILED_MTL_RC_CCS_CC"},
    {code(DRM_FORMAT_MOD_VENDOR_INTEL, kLnlCcs), "INTEL_4_TILED_LNL_CCS"},
    {code(DRM_FORMAT_MOD_VENDOR_INTEL, kBmgCcs), "INTEL_4_TILED_BMG_CCS"},
    {code(DRM_FORMAT_MOD_VENDOR_QCOM, 2), "QCOM_TILED2"},
    {code(DRM_FORMAT_MOD_VENDOR_QCOM, 3), "QCOM_TILED3"},
    {code(kVendorMtk, 0x001), "MTK_16L_32S_TILE"},
    {code(kVendorMtk, 0x101), "MTK_16L_32S_TILE_COMPRESSED"},
    {code(kVendorApple, 1), "APPLE_GPU_TILED"},
    {code(kVendorApple, 2), "APPLE_GPU_TILED_COMPRESSED"},
};

} // namespace

LayoutTier layoutTier(uint64_t modifier) {
  if (modifier == DRM_FORMAT_MOD_LINEAR) return LayoutTier::Linear;
  if (modifier == DRM_FORMAT_MOD_INVALID) return LayoutTier::Implicit;
  const uint64_t value = valueOf(modifier);
  bool compressed = false;
  switch (vendorOf(modifier)) {
  case DRM_FORMAT_MOD_VENDOR_INTEL: compressed = value > kYfTiled && value != kTile4; break;
  case DRM_FORMAT_MOD_VENDOR_AMD: compressed = amdTileVersion(modifier) >= kAmdGfx9 && amdDcc(modifier); break;
  case DRM_FORMAT_MOD_VENDOR_NVIDIA: compressed = (value & 0x10) != 0 && ((value >> 23) & 7) != 0; break;
  case DRM_FORMAT_MOD_VENDOR_ARM: compressed = armType(modifier) != DRM_FORMAT_MOD_ARM_TYPE_MISC; break;
  case DRM_FORMAT_MOD_VENDOR_QCOM: compressed = value == 1; break;
  case DRM_FORMAT_MOD_VENDOR_VIVANTE: compressed = ((value >> 52) & 0xf) != 0; break;
  case DRM_FORMAT_MOD_VENDOR_AMLOGIC: compressed = true; break;
  case kVendorMtk: compressed = ((value >> 8) & 0xf) != 0; break;
  case kVendorApple: compressed = value == 2; break;
  default: break;
  }
  return compressed ? LayoutTier::Compressed : LayoutTier::Tiled;
}

const char *tierName(LayoutTier tier) {
  switch (tier) {
  case LayoutTier::Implicit: return "implicit";
  case LayoutTier::Linear: return "linear";
  case LayoutTier::Tiled: return "tiled";
  case LayoutTier::Compressed: return "compressed";
  }
  return "?";
}

bool memoryPlanesKnown(uint64_t modifier) {
  switch (vendorOf(modifier)) {
  case DRM_FORMAT_MOD_VENDOR_NONE: return modifier == DRM_FORMAT_MOD_LINEAR;
  case DRM_FORMAT_MOD_VENDOR_INTEL: return valueOf(modifier) >= kXTiled && valueOf(modifier) <= kBmgCcs;
  case DRM_FORMAT_MOD_VENDOR_AMD: return amdTileVersion(modifier) <= kAmdGfx12;
  case DRM_FORMAT_MOD_VENDOR_NVIDIA:
  case DRM_FORMAT_MOD_VENDOR_SAMSUNG:
  case DRM_FORMAT_MOD_VENDOR_QCOM:
  case DRM_FORMAT_MOD_VENDOR_VIVANTE:
  case DRM_FORMAT_MOD_VENDOR_BROADCOM:
  case DRM_FORMAT_MOD_VENDOR_ARM:
  case DRM_FORMAT_MOD_VENDOR_ALLWINNER:
  case DRM_FORMAT_MOD_VENDOR_AMLOGIC:
  case kVendorMtk:
  case kVendorApple: return true;
  default: return false;
  }
}

unsigned memoryPlanes(const DrmFormat &format) {
  const unsigned planes = formatPlanes(format.fourcc);
  unsigned auxiliary = 0;
  switch (vendorOf(format.modifier)) {
  case DRM_FORMAT_MOD_VENDOR_INTEL:
    switch (valueOf(format.modifier)) {
    case kYCcs:
    case kYfCcs:
    case kGen12RcCcs:
    case kMtlRcCcs: auxiliary = 1; break;
    case kGen12McCcs:
    case kMtlMcCcs: auxiliary = planes; break; // one for each
    case kGen12RcCcsCc:
    case kMtlRcCcsCc: auxiliary = 2; break;
    case kDg2RcCcsCc: auxiliary = 1; break; // the clear colour
    default: break;                         // the compression state is nowhere that user space sees
    }
    break;
  case DRM_FORMAT_MOD_VENDOR_AMD:
    // from GFX12 on the state is in the memory controller's keeping; in formats of several planes the surfaces of each
    // are merged into one
    if (planes == 1 && amdTileVersion(format.modifier) >= kAmdGfx9 && amdTileVersion(format.modifier) < kAmdGfx12 &&
        amdDcc(format.modifier))
      auxiliary = amdRetile(format.modifier) ? 2 : 1;
    break;
  case DRM_FORMAT_MOD_VENDOR_VIVANTE: auxiliary = ((format.modifier >> 48) & 0xf) != 0 ? 1 : 0; break; // tile status
  default: break;
  }
  return std::min(planes + auxiliary, 4u);
}

const char *impossiblePair(const DrmFormat &format) {
  if (!isAfbc(format.modifier)) return nullptr;
  const bool both = (format.modifier & AFBC_FORMAT_MOD_BLOCK_SIZE_MASK) == AFBC_FORMAT_MOD_BLOCK_SIZE_32x8_64x4;
  const unsigned planes = formatPlanes(format.fourcc);
  if (planes > 1 && !both) return "AFBC is of formats with one plane: 4:2:0 video in it is called YU08 or YU10";
  if (planes == 1 && both) return "AFBC's superblocks 32x8_64x4 are for formats with several planes";
  if ((format.modifier & AFBC_FORMAT_MOD_YTR) != 0 && formatTraits(format.fourcc).yuv)
    return "AFBC's colour transform (YTR) is for RGB";
  return nullptr;
}

std::string layoutName(uint64_t modifier) {
  for (const Named &n : kNames)
    if (n.modifier == modifier) return n.name;
  return modifierName(modifier);
}

} // namespace gstzc
