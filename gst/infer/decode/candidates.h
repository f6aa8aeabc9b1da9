// SPDX-License-Identifier: LGPL-2.1-or-later
// From rows of scores to objects: only what is above the threshold costs more than a comparison.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/findings.h"

namespace gstzc::infer {

// A row of an output that may be an object.
struct Candidate {
  float score = 0;
  int label = 0;
  size_t row = 0;
};

// The best of what is offered. The memory they take is bounded, however long a tensor is.
class Candidates {
public:
  static constexpr size_t kMost = 8192;

  explicit Candidates(float threshold) : threshold_(threshold) {}

  // Scores below the threshold, infinite ones and those that are not numbers are left out.
  void offer(float score, int label, size_t row) {
    if (!(score >= threshold_ && score <= kLargest)) return;
    if (list_.size() >= 2 * kMost) prune();
    list_.push_back({score, label, row});
  }

  // Best first, equal ones by row; kMost at most.
  std::vector<Candidate> take();

private:
  static constexpr float kLargest = 3.0e38f;
  void prune();

  float threshold_;
  std::vector<Candidate> list_;
};

// Whether an object's edges and points are numbers and it has an area.
bool usable(const Detection &object);

// Fills in the box and the points of a row. Score and label are there already.
using BoxOfRow = std::function<void(size_t row, Detection &object)>;
// Fills in what only objects that stay need.
using FinishRow = std::function<void(size_t row, Detection &object)>;

enum class Suppression {
  PerClass,
  None, // the model did it, or was trained not to need it
};

// Those that are not usable() are left out. Best first, scores limited to 1.
std::vector<Detection> makeDetections(Candidates &&candidates, const DecodeOptions &options, const BoxOfRow &box,
                                      const FinishRow &finish = {}, Suppression suppression = Suppression::PerClass);

} // namespace gstzc::infer
