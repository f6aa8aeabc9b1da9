// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/frame_result.h"

#include <algorithm>
#include <cmath>

namespace gstzc::infer {

FrameFindings toFrame(const Findings &findings, const std::vector<std::string> &labels, const InputPlan &plan,
                      const Mapping &mapping, int frame_width, int frame_height) {
  FrameFindings result;
  const auto x = [&](float part) { return mapping.frameX(static_cast<double>(part) * plan.width); };
  const auto y = [&](float part) { return mapping.frameY(static_cast<double>(part) * plan.height); };
  // clamped before it is made an integer: a box may be far outside
  const auto pixel = [](double v, int limit) {
    return static_cast<int>(std::lround(std::clamp(v, 0.0, static_cast<double>(limit))));
  };
  for (const Detection &d : findings.detections) {
    FrameBox box;
    box.x = pixel(x(d.left), frame_width);
    box.y = pixel(y(d.top), frame_height);
    box.width = pixel(x(d.right), frame_width) - box.x;
    box.height = pixel(y(d.bottom), frame_height) - box.y;
    if (box.width <= 0 || box.height <= 0) continue;
    box.score = d.score;
    box.index = d.label;
    if (d.label >= 0 && static_cast<size_t>(d.label) < labels.size()) box.label = labels[d.label];
    for (const Point &point : d.keypoints)
      box.keypoints.push_back({static_cast<float>(x(point.x)), static_cast<float>(y(point.y)), point.score});
    result.boxes.push_back(std::move(box));
  }
  return result;
}

} // namespace gstzc::infer
