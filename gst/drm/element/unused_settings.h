// SPDX-License-Identifier: LGPL-2.1-or-later
// Properties that say nothing beside others.
#pragma once

#include <string>

#include "gst/drm/kms_device.h"

namespace gstzc {

// "device=/dev/dri/card1 is not used: device-profile= is set"; empty: each has its part.
std::string unusedSettings(const OpenRequest &request);

} // namespace gstzc
