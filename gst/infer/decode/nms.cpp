// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/nms.h"

#include <algorithm>
#include <utility>

namespace gstzc::infer {

float intersectionOverUnion(const Detection &a, const Detection &b) {
  // in double: what two floats are apart, and the product of two such lengths
  const double width = double{std::min(a.right, b.right)} - double{std::max(a.left, b.left)};
  const double height = double{std::min(a.bottom, b.bottom)} - double{std::max(a.top, b.top)};
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height, either = a.area() + b.area() - both;
  return either > 0 ? static_cast<float>(both / either) : 0;
}

std::vector<size_t> survivors(const std::vector<Detection> &sorted, float iou_threshold, size_t max_detections,
                              bool class_aware) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < sorted.size() && kept.size() < max_detections; ++i) {
    const bool known = std::any_of(kept.begin(), kept.end(), [&](size_t k) {
      return (!class_aware || sorted[k].label == sorted[i].label) &&
             intersectionOverUnion(sorted[k], sorted[i]) > iou_threshold;
    });
    if (!known) kept.push_back(i);
  }
  return kept;
}

std::vector<Detection> suppress(std::vector<Detection> candidates, float iou_threshold, size_t max_detections,
                                bool class_aware) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Detection &a, const Detection &b) { return a.score > b.score; });
  std::vector<Detection> kept;
  for (const size_t i : survivors(candidates, iou_threshold, max_detections, class_aware))
    kept.push_back(std::move(candidates[i]));
  return kept;
}

std::vector<Detection> blendOverlapping(std::vector<Detection> candidates, float iou_threshold, size_t max_detections) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Detection &a, const Detection &b) { return a.score > b.score; });
  std::vector<Detection> result, rest;
  while (!candidates.empty() && result.size() < max_detections) {
    const Detection &best = candidates.front();
    Detection &blended = result.emplace_back(best);
    blended.left = blended.top = blended.right = blended.bottom = 0;
    std::fill(blended.keypoints.begin(), blended.keypoints.end(), Point{});
    float total = 0;
    rest.clear();
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Detection &c = candidates[i];
      if (i > 0 && intersectionOverUnion(best, c) <= iou_threshold) {
        rest.push_back(c);
        continue;
      }
      total += c.score;
      blended.left += c.left * c.score;
      blended.top += c.top * c.score;
      blended.right += c.right * c.score;
      blended.bottom += c.bottom * c.score;
      for (size_t k = 0; k < blended.keypoints.size() && k < c.keypoints.size(); ++k) {
        blended.keypoints[k].x += c.keypoints[k].x * c.score;
        blended.keypoints[k].y += c.keypoints[k].y * c.score;
      }
    }
    if (total > 0) {
      blended.left /= total;
      blended.top /= total;
      blended.right /= total;
      blended.bottom /= total;
      for (Point &point : blended.keypoints) {
        point.x /= total;
        point.y /= total;
      }
    } else {
      blended = best; // scores of zero weigh nothing
    }
    candidates.swap(rest);
  }
  return result;
}

} // namespace gstzc::infer
