// SPDX-License-Identifier: LGPL-2.1-or-later
// Caps by which elements that draw subtitles and texts learn that they need not draw into the frame.
#pragma once

#include <gst/gst.h>

namespace gstzc {

// The caps, and after them the same with the feature meta:GstVideoOverlayComposition. Transfer full.
GstCaps *withCompositions(const GstCaps *caps);
// The caps without that feature. Transfer full.
GstCaps *withoutCompositions(const GstCaps *caps);

} // namespace gstzc
