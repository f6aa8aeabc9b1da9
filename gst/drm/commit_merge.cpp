// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/commit_merge.h"

#include <algorithm>

namespace gstzc {
namespace {

bool shows(const ScreenState &state, size_t plane) {
  return std::any_of(state.planes.begin(), state.planes.end(),
                     [&](const PlaneUse &use) { return use.plane == plane && use.fb != nullptr; });
}

bool anyShows(std::span<const ScreenState *const> states, size_t plane) {
  return std::any_of(states.begin(), states.end(), [&](const ScreenState *state) { return shows(*state, plane); });
}

bool has(const ScreenState &state, size_t plane) {
  return std::any_of(state.planes.begin(), state.planes.end(), [&](const PlaneUse &use) { return use.plane == plane; });
}

void takeMode(ScreenState &merged, const ScreenState &from) {
  if (merged.mode || !from.mode) return;
  merged.mode = from.mode;
  merged.settings = from.settings;
  merged.hdr = from.hdr;
}

} // namespace

void mergeStates(ScreenState &merged, std::span<const ScreenState *const> next,
                 std::span<const ScreenState *const> shown, bool everything) {
  merged.clear();
  for (const ScreenState *state : next) {
    takeMode(merged, *state);
    for (const PlaneUse &use : state->planes) {
      if (has(merged, use.plane)) continue;
      if (!use.fb && (anyShows(next, use.plane) || anyShows(shown, use.plane))) continue;
      merged.planes.push_back(use);
    }
  }
  if (!everything) return;
  for (const ScreenState *state : shown) {
    takeMode(merged, *state);
    for (const PlaneUse &use : state->planes)
      if (use.fb && !has(merged, use.plane)) merged.planes.push_back(use);
  }
}

} // namespace gstzc
