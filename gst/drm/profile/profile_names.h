// SPDX-License-Identifier: LGPL-2.1-or-later
// Names of DRM's constants in profiles, both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gst/drm/kms_types.h"

namespace gstzc {

// "Primary", "Overlay", "Cursor": planeKind() as profiles and the kernel's property spell it
std::string planeTypeName(uint32_t type);
std::optional<uint32_t> planeTypeOf(std::string_view name);

std::optional<uint32_t> connectorTypeOf(std::string_view name); // "HDMI-A"
std::string connectorTypeName(uint32_t type);

std::optional<uint32_t> rotationOf(std::string_view name); // "rotate-90": DRM_MODE_ROTATE_90
std::vector<std::string> rotationNames(uint32_t mask);

std::optional<int> errnoOf(std::string_view name); // "EINVAL": 22
std::string errnoText(int code);

// Type of a property: "range", "signed-range", "enum", "bitmask", "object", "blob"
std::optional<uint32_t> propertyTypeOf(std::string_view name);

// The properties that each atomic driver has, where the object lacks them, with ids from *next on; and those of the
// kinds that the snapshot says: "type" and IN_FORMATS of planes.
void addAtomicProperties(KmsSnapshot &snapshot, uint32_t *next);

} // namespace gstzc
