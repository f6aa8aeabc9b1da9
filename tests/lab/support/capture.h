// SPDX-License-Identifier: LGPL-2.1-or-later
// Cameras of the laboratory.
#pragma once

#include <string>

#include "gst/zerocopy/core/result.h"

namespace gstzc::lab {

// Path of the first capture device of that V4L2 driver, e.g. "/dev/video0" for "vivid".
Result<std::string> capturePath(const std::string &driver);

} // namespace gstzc::lab
