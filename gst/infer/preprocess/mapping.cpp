// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/mapping.h"

#include <algorithm>

namespace gstzc::infer {

Mapping mapTensorToFrame(const InputPlan &plan, const Region &region, ResizeMode mode) {
  Mapping mapping;
  mapping.step_x = region.width / plan.width;
  mapping.step_y = region.height / plan.height;
  if (mode == ResizeMode::Crop) mapping.step_x = mapping.step_y = std::min(mapping.step_x, mapping.step_y);
  if (mode == ResizeMode::Letterbox || mode == ResizeMode::LetterboxTopLeft)
    mapping.step_x = mapping.step_y = std::max(mapping.step_x, mapping.step_y);
  mapping.origin_x = region.x;
  mapping.origin_y = region.y;
  if (mode != ResizeMode::LetterboxTopLeft) {
    mapping.origin_x += (region.width - plan.width * mapping.step_x) / 2;
    mapping.origin_y += (region.height - plan.height * mapping.step_y) / 2;
  }
  return mapping;
}

Span pixelsWithin(int pixels, double step, double origin, double low, double high) {
  // a hair of tolerance, so that rounding never turns an edge pixel into padding
  const double hair = 1e-6 * step;
  const auto inside = [&](int i) {
    const double at = (i + 0.5) * step + origin;
    return at > low - hair && at < high + hair;
  };
  Span span{0, pixels};
  while (span.first < pixels && !inside(span.first)) ++span.first;
  if (span.first == pixels) return {};
  while (!inside(span.last - 1)) --span.last;
  return span;
}

} // namespace gstzc::infer
