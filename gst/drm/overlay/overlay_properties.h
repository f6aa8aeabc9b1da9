// SPDX-License-Identifier: LGPL-2.1-or-later
// The properties of an element that shows overlays.
#pragma once

#include <memory>

#include <glib-object.h>

#include "gst/drm/display.h"
#include "gst/drm/overlay/style.h"

namespace gstzc {

struct OverlaySettings {
  OverlayMode mode = OverlayMode::Auto;
  // Another one with each change, so that it can be compared by address.
  std::shared_ptr<const OverlayStyle> style = std::make_shared<const OverlayStyle>();
};

// overlay, overlay-color, overlay-line-width, overlay-font, overlay-labels, overlay-mask-opacity, numbered from
// `first`.
void installOverlayProperties(GObjectClass *klass, guint first);

// `index`: from `first`. False: it is none of these. Under the lock of the settings' owner.
bool setOverlayProperty(OverlaySettings &settings, guint index, const GValue *value);
bool getOverlayProperty(const OverlaySettings &settings, guint index, GValue *value);

} // namespace gstzc
