// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/candidates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gst/infer/decode/nms.h"

namespace gstzc::infer {
namespace {

bool better(const Candidate &a, const Candidate &b) {
  if (a.score != b.score) return a.score > b.score;
  return a.row != b.row ? a.row < b.row : a.label < b.label;
}

} // namespace

bool usable(const Detection &object) {
  return std::isfinite(object.left) && std::isfinite(object.top) && std::isfinite(object.right) &&
         std::isfinite(object.bottom) && object.right > object.left && object.bottom > object.top &&
         std::all_of(object.keypoints.begin(), object.keypoints.end(),
                     [](const Point &point) { return std::isfinite(point.x) && std::isfinite(point.y); });
}

void Candidates::prune() {
  if (list_.size() <= kMost) return;
  const auto end = list_.begin() + static_cast<std::ptrdiff_t>(kMost);
  std::nth_element(list_.begin(), end - 1, list_.end(), better);
  threshold_ = (end - 1)->score; // what comes later and is worse would be taken away again
  list_.erase(end, list_.end());
}

std::vector<Candidate> Candidates::take() {
  prune();
  std::sort(list_.begin(), list_.end(), better);
  return std::exchange(list_, {});
}

std::vector<Detection> makeDetections(Candidates &&candidates, const DecodeOptions &options, const BoxOfRow &box,
                                      const FinishRow &finish, Suppression suppression) {
  const auto most = static_cast<size_t>(std::max(options.max_detections, 0));
  std::vector<Detection> boxes;
  std::vector<size_t> rows;
  for (const Candidate &candidate : candidates.take()) {
    if (suppression == Suppression::None && boxes.size() >= most) break;
    Detection object;
    object.score = std::min(candidate.score, 1.0f);
    object.label = candidate.label;
    box(candidate.row, object);
    if (!usable(object)) continue;
    boxes.push_back(std::move(object));
    rows.push_back(candidate.row);
  }
  std::vector<size_t> kept;
  if (suppression == Suppression::PerClass) {
    kept = survivors(boxes, options.iou_threshold, most);
  } else {
    for (size_t i = 0; i < boxes.size(); ++i) kept.push_back(i);
  }
  std::vector<Detection> result;
  result.reserve(kept.size());
  for (const size_t i : kept) {
    if (finish) finish(rows[i], boxes[i]);
    result.push_back(std::move(boxes[i]));
  }
  return result;
}

} // namespace gstzc::infer
