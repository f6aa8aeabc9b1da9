// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the pixels of a tensor lie in the frame. Coordinates: pixel i of a row covers i to i+1, its sample lies at
// i+0.5.
#pragma once

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/pixel_layout.h"

namespace gstzc::infer {

// A part of a frame, in its pixels; it may leave the frame.
struct Region {
  double x = 0, y = 0, width = 0, height = 0;
};

Mapping mapTensorToFrame(const InputPlan &plan, const Region &region, ResizeMode mode);

// Those of `pixels` whose centres, at (i + 0.5) * step + origin, lie between `low` and `high`, both included; {0, 0} if
// none does. They are neighbours: `step` is positive.
Span pixelsWithin(int pixels, double step, double origin, double low, double high);

} // namespace gstzc::infer
