// SPDX-License-Identifier: LGPL-2.1-or-later
// GStreamer's names of orientations as the kernel's.
#pragma once

#include <cstdint>

#include <gst/video/video.h>

namespace gstzc {

// What has to be done to a picture, as DRM_MODE_ROTATE_* (counter-clockwise, after reflection) with DRM_MODE_REFLECT_*.
// `tagged`: what the stream's tags say, for AUTO.
uint32_t rotationOf(GstVideoOrientationMethod method, GstVideoOrientationMethod tagged);

} // namespace gstzc
