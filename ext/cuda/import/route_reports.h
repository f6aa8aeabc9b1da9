// SPDX-License-Identifier: LGPL-2.1-or-later
// What was found of each route, for statistics and messages.
#pragma once

#include <vector>

#include <gst/gst.h>

#include "ext/cuda/routes/route_choice.h"

namespace gstzc::cuda {

// An array of structures "route": route, stage, reason. The caller owns the value.
GValue routeReportsValue(const std::vector<RouteReport> &reports);

} // namespace gstzc::cuda
