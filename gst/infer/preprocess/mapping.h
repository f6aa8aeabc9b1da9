// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the pixels of a tensor lie in the frame. Coordinates: pixel i of a row covers i to i+1, its sample lies at
// i+0.5.
#pragma once

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/options.h"

namespace gstzc::infer {

// A part of a frame, in its pixels; it may leave the frame.
struct Region {
  double x = 0, y = 0, width = 0, height = 0;
};

// Frame pixels = tensor pixels * step + origin, per axis.
struct Mapping {
  double step_x = 1, step_y = 1;
  double origin_x = 0, origin_y = 0;
  double frameX(double tensor_x) const { return tensor_x * step_x + origin_x; }
  double frameY(double tensor_y) const { return tensor_y * step_y + origin_y; }
};

Mapping mapTensorToFrame(const InputPlan &plan, const Region &region, ResizeMode mode);

// Tensor pixels [first, last) of an axis.
struct Span {
  int first = 0, last = 0;
  int count() const { return last - first; }
};

// Those of `pixels` whose centres, at (i + 0.5) * step + origin, lie between `low` and `high`, both included; {0, 0} if
// none does. They are neighbours: `step` is positive.
Span pixelsWithin(int pixels, double step, double origin, double low, double high);

} // namespace gstzc::infer
