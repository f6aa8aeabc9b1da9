// SPDX-License-Identifier: LGPL-2.1-or-later
// What elements before the sink attached to a frame, as a scene.
#pragma once

#include <gst/gst.h>

#include "gst/drm/overlay/scene.h"

namespace gstzc {

// Objects, their masks, keypoints and classes, the frame's classes and segmentation (GstAnalyticsRelationMeta), and
// rectangles (GstVideoOverlayCompositionMeta). `scene` is emptied first, and keeps references on masks and pictures.
// Width and height are the frame's: where a mask lies that does not say it. Metadata that makes no sense (no size, no
// number) is left out.
void sceneFromBuffer(GstBuffer *buffer, int width, int height, OverlayScene &scene);

} // namespace gstzc
