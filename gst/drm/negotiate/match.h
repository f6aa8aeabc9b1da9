// SPDX-License-Identifier: LGPL-2.1-or-later
// Whether a plane has a pair at all: shared by the engine's parts.
#pragma once

#include "gst/drm/negotiate/engine.h"

namespace gstzc {

enum class PairMatch { Yes, NoSuchFormat, NotWithThisModifier, ImpossiblePair, NeedsModifier };

// A layout that is left to the driver (INVALID) is taken by planes that have no modifiers, and by those that have the
// fourcc linear, as a framebuffer without a modifier counts as one unless the driver knows better of its own memory.
PairMatch matchPair(const KmsSnapshot &snapshot, const KmsPlane &plane, const DrmFormat &format);

inline bool onCrtc(const KmsPlane &plane, size_t crtc) {
  return crtc < 32 && ((plane.possible_crtcs >> crtc) & 1) != 0;
}
inline bool usedElsewhere(const KmsSnapshot &snapshot, const KmsPlane &plane, size_t crtc) {
  return plane.claimed || (plane.crtc != 0 && plane.crtc != snapshot.crtcs[crtc].id);
}

// Cursors that are one in name only: planes of that type with video formats.
bool onlyNamedCursor(const KmsPlane &plane);

// The primary plane first, cursors last.
inline int typeOrder(const KmsPlane &plane) {
  return plane.type == DRM_PLANE_TYPE_PRIMARY ? 0 : plane.type == DRM_PLANE_TYPE_CURSOR ? 2 : 1;
}

} // namespace gstzc
