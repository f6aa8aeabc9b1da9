// SPDX-License-Identifier: LGPL-2.1-or-later
// Several sinks on one CRTC: what each of them wants of it, as one commit. Pure functions.
#pragma once

#include <span>

#include "gst/drm/screen_state.h"

namespace gstzc {

// `next`: of each sink that has something new. `shown`: of those that have not, what they show. A plane that one sink
// shows something on is not switched off by another one, which knew nothing of it or had it before. Of two that show
// something on one plane the first counts. With `everything` the planes in `shown` are said again, for a display that
// somebody else has had meanwhile. `merged` is overwritten.
void mergeStates(ScreenState &merged, std::span<const ScreenState *const> next,
                 std::span<const ScreenState *const> shown, bool everything);

} // namespace gstzc
