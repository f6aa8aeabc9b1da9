// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/class_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gstzc::infer {
namespace {

// Of the class whose logit is `best`, which need not be the largest.
template <typename At> float softmax(const At &at, size_t begin, size_t size, float best) {
  float largest = best, sum = 0;
  for (size_t i = 0; i < size; ++i) largest = std::max(largest, at(begin + i));
  for (size_t i = 0; i < size; ++i) sum += std::exp(at(begin + i) - largest);
  return std::exp(best - largest) / sum;
}

} // namespace

bool areProbabilities(const Numbers &scores) {
  return scores.with([&](const auto &at) {
    for (size_t i = 0; i < scores.size(); ++i)
      if (at(i) < 0 || at(i) > 1) return false;
    return true;
  });
}

void offerObjects(const Numbers &numbers, const ScoreTable &table, float threshold, Candidates &candidates) {
  // a class has at least the threshold only where its logit exceeds the sum of the others' by as much, so also each of
  // the others': most rows need no exponential
  const float odds = threshold > 0 && threshold < 1 ? std::log(threshold / (1 - threshold)) - 1e-3f
                                                    : -std::numeric_limits<float>::infinity();
  numbers.with([&](const auto &at) {
    for (size_t row = 0; row < table.rows; ++row) {
      const size_t begin = row * table.row_size;
      float score = -std::numeric_limits<float>::infinity();
      size_t label = 0;
      for (size_t c = 0; c < table.classes; ++c) {
        const float value = at(begin + table.first + c);
        if (value > score) score = value, label = c;
      }
      if (!std::isfinite(score)) continue;
      if (table.form == ScoreForm::Sigmoid) {
        if (score < odds) continue;
        score = sigmoid(score);
      } else if (table.form == ScoreForm::Softmax) {
        const size_t last = table.row_size - 1;
        const float other = table.first > 0 ? at(begin) : at(begin + last);
        if ((table.first > 0 || table.classes <= last) && score - other < odds) continue;
        score = softmax(at, begin, table.row_size, score);
      }
      candidates.offer(score, static_cast<int>(label) + table.first_label, row);
    }
  });
}

} // namespace gstzc::infer
