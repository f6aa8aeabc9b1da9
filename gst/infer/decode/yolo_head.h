// SPDX-License-Identifier: LGPL-2.1-or-later
// What the heads of the YOLO families have in common: what the numbers of an object are, and which tensor has them.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/grids.h"
#include "gst/infer/decode/masks.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

// The numbers of one object: `box` for the box and what goes with it, a score per class, then coefficients of its mask
// or numbers of its keypoints.
struct ObjectLayout {
  int box = 4;
  int classes = 0;
  int coefficients = 0;    // of the mask; as many as there are prototypes
  int keypoints = 0;       // each x, y in pixels of the input and, with three values, a score
  int keypoint_values = 0; // 2 or 3

  int extrasAt() const { return box + classes; }
  int size() const { return extrasAt() + coefficients + keypoints * keypoint_values; }
};

// The layout of `size` numbers. `fixed_classes`: as many numbers as there are for the classes whatever their count (the
// heads with one best class); else one number a class. Nothing where the count of classes that is wished for leaves
// numbers over or lacks some, and where it is not known how many belong to keypoints.
std::optional<ObjectLayout> layoutOf(int64_t size, int box, std::optional<int> fixed_classes, int coefficients,
                                     const DecoderWishes &wishes);

// The one tensor of objects [B,a,b] and, for instance masks, the prototypes [B,P,h,w]. Outputs of rank 5 are the maps
// of the single grids, which some exporters leave beside the joined tensor.
struct HeadOutputs {
  OutputSlot objects;
  std::optional<OutputSlot> prototypes;
  int coefficients = 0;

  // Checked; null where the model has none.
  Result<const TensorView *> readPrototypes(const Outputs &outputs) const;
};
std::optional<HeadOutputs> findHead(const InputPlan &input, const std::vector<TensorInfo> &outputs);

// Classes of COCO, which most detectors that say nothing of theirs are trained with.
inline constexpr int kCocoClasses = 80;

// Pixels to parts of the input.
struct PictureSize {
  float width = 1, height = 1;
  explicit PictureSize(const InputPlan &input)
      : width(static_cast<float>(input.width)), height(static_cast<float>(input.height)) {}
  PictureSize() = default;

  void setCentred(Detection &object, float cx, float cy, float w, float h) const {
    object.left = (cx - w / 2) / width;
    object.top = (cy - h / 2) / height;
    object.right = (cx + w / 2) / width;
    object.bottom = (cy + h / 2) / height;
  }
};

// `at(n)` gives number n of the object.
template <typename At>
void readKeypoints(const ObjectLayout &layout, const PictureSize &size, const At &at, std::vector<Point> &points) {
  points.reserve(static_cast<size_t>(layout.keypoints));
  for (int k = 0; k < layout.keypoints; ++k) {
    const int first = layout.extrasAt() + layout.coefficients + k * layout.keypoint_values;
    Point point{at(first) / size.width, at(first + 1) / size.height};
    if (layout.keypoint_values == 3) {
      const float score = at(first + 2);
      point.score = score > 0 ? std::min(score, 1.0f) : 0.0f; // 0 also where it is not a number
    }
    points.push_back(point);
  }
}

// Offers the best class of each row, times `factor(row)`, which is 0..1, where the numbers of a row lie together.
template <typename At, typename Factor>
void scanRows(const At &at, size_t rows, const ObjectLayout &layout, float threshold, const Factor &factor,
              Candidates &candidates) {
  const auto numbers = static_cast<size_t>(layout.size()), classes = static_cast<size_t>(layout.classes);
  for (size_t row = 0; row < rows; ++row) {
    const float f = factor(row);
    if (!(f >= threshold)) continue;
    const size_t begin = row * numbers + static_cast<size_t>(layout.box);
    float best = -std::numeric_limits<float>::infinity();
    size_t label = 0;
    for (size_t c = 0; c < classes; ++c) {
      const float score = at(begin + c);
      if (score > best) best = score, label = c;
    }
    candidates.offer(f * best, static_cast<int>(label), row);
  }
}

// Mask of an object whose numbers `at(n)` gives.
template <typename At>
std::optional<BoxMask> readMask(const ObjectLayout &layout, const TensorView &prototypes, const At &at,
                                const Detection &object, std::vector<float> &coefficients) {
  coefficients.clear();
  for (int i = 0; i < layout.coefficients; ++i) coefficients.push_back(at(layout.extrasAt() + i));
  return maskOf(coefficients, prototypes, object);
}

// RGB 0..1, letterboxed in the middle, padded with grey.
FamilyDefaults yoloDefaults();

} // namespace gstzc::infer
