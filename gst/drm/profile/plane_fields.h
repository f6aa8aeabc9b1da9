// SPDX-License-Identifier: LGPL-2.1-or-later
// Larger parts of our schema, each by itself: what a plane takes, what a driver refuses.
#pragma once

#include <cstddef>
#include <string>

#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/json_value.h"

namespace gstzc {

// "Primary", "Overlay" or "Cursor"; "Primary/Overlay": either, as the driver needs them
std::string readPlaneTypes(const json::Value &value);
// `formats` and `in_formats` of a plane.
void readPlaneFormats(const json::Value &plane, KmsPlane *into);
// One object or a list of them.
void readPlaneLimits(const json::Value &limits, KmsPlane *into);
ProfileQuirks readQuirks(const json::Value &value);
ProfileRefusal readRefusal(const json::Value &value);

// Of memory, roughly.
size_t bytesOf(const KmsPlane &plane);

} // namespace gstzc
