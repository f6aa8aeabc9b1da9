// SPDX-License-Identifier: LGPL-2.1-or-later
// The two notations of a device's description. What they find wrong is in the document's error().
#pragma once

#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/json_value.h"

namespace gstzc {

// Our schema.
void readProfile(json::Document &document, DeviceProfile *profile);

// Whether the text is the output of `drm_info -j`: an object of devices by node.
bool isDrmInfo(const json::Value &root);
void readDrmInfo(json::Document &document, const std::string &node, DeviceProfile *profile);

// Shared: timings written out as drmModeModeInfo has them, which both have.
drmModeModeInfo readTimings(const json::Value &value);

// Pairs of a plane from `in_formats`, put into the order that parseInFormats() gives: by format, and with a format by
// modifier. `formats`: the plane's fourccs.
std::vector<DrmFormat> pairsByFormat(const std::vector<uint32_t> &formats,
                                     const std::vector<std::pair<uint64_t, std::vector<uint32_t>>> &modifiers);

} // namespace gstzc
