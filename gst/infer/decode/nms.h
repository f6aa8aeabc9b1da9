// SPDX-License-Identifier: LGPL-2.1-or-later
// Which of several boxes are the same object.
#pragma once

#include <cstddef>
#include <vector>

#include "gst/infer/decode/findings.h"

namespace gstzc::infer {

// 0 where either has no area.
float intersectionOverUnion(const Detection &a, const Detection &b);

// Non-maximum suppression: the best one stays and takes away those of its class (with `class_aware`; else of any) that
// overlap it by more than `iou_threshold`; then the best of the rest, and so on, until `max_detections` are found.
// Equal scores keep their order. Best first.
std::vector<Detection> suppress(std::vector<Detection> candidates, float iou_threshold, size_t max_detections,
                                bool class_aware = true);

// The same, as indices into `sorted`, which is best first.
std::vector<size_t> survivors(const std::vector<Detection> &sorted, float iou_threshold, size_t max_detections,
                              bool class_aware = true);

// Like suppress() without classes, but the box and the points of the one that stays become the average of all that it
// takes, weighted by score.
std::vector<Detection> blendOverlapping(std::vector<Detection> candidates, float iou_threshold, size_t max_detections);

} // namespace gstzc::infer
