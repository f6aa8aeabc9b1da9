// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/orientation.h"

#include <drm_mode.h>

namespace gstzc {

uint32_t rotationOf(GstVideoOrientationMethod method, GstVideoOrientationMethod tagged) {
  if (method == GST_VIDEO_ORIENTATION_AUTO) method = tagged;
  switch (method) {
  case GST_VIDEO_ORIENTATION_90R: return DRM_MODE_ROTATE_270; // clockwise
  case GST_VIDEO_ORIENTATION_180: return DRM_MODE_ROTATE_180;
  case GST_VIDEO_ORIENTATION_90L: return DRM_MODE_ROTATE_90;
  case GST_VIDEO_ORIENTATION_HORIZ: return DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_X;
  case GST_VIDEO_ORIENTATION_VERT: return DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_Y;
  case GST_VIDEO_ORIENTATION_UL_LR: return DRM_MODE_ROTATE_90 | DRM_MODE_REFLECT_X; // (x, y) to (y, x)
  case GST_VIDEO_ORIENTATION_UR_LL: return DRM_MODE_ROTATE_270 | DRM_MODE_REFLECT_X;
  default: return DRM_MODE_ROTATE_0;
  }
}

} // namespace gstzc
