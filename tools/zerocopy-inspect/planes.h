// SPDX-License-Identifier: LGPL-2.1-or-later
// A device's planes with their formats by layout, as tables and JSON show them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gst/drm/profile/json_writer.h"
#include "gst/drm/kms_types.h"
#include "gst/drm/negotiate/modifiers.h"

namespace gstzc::inspect {

struct LayoutFormats {
  uint64_t modifier = 0; // INVALID: left to the driver
  LayoutTier tier = LayoutTier::Linear;
  std::vector<uint32_t> fourccs; // the driver's order
};

struct PlaneFormats {
  size_t plane = 0;                   // index into KmsSnapshot::planes
  std::vector<LayoutFormats> layouts; // best tier first, else the driver's order
};

// Planes of the CRTC: those whose formats are offered first come first, cursors last.
std::vector<PlaneFormats> planeFormats(const KmsSnapshot &snapshot, size_t crtc);

std::string fourccName(uint32_t fourcc);    // "NV12", blanks at the end left out
std::string hexModifier(uint64_t modifier); // "0x0100000000000002"
std::string layoutText(uint64_t modifier);  // layoutName(); "implicit" for INVALID
// "NV12 I915_X_TILED"
std::string pairText(const DrmFormat &format);

// {"id", "type", "label"}
void writePlane(JsonWriter *json, const KmsPlane &plane);
// {"format", "drm_format", "modifier", "layout", "tier"}
void writePair(JsonWriter *json, const DrmFormat &format);

} // namespace gstzc::inspect
