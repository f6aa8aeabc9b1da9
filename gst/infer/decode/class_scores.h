// SPDX-License-Identifier: LGPL-2.1-or-later
// A score per class for each row of an output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/numbers.h"

namespace gstzc::infer {

inline constexpr int64_t kMostClasses = 1 << 16; // more than any model has

enum class ScoreForm {
  Probabilities, // as they are
  Softmax,       // logits of classes of which one is right
  Sigmoid,       // logits of classes that know nothing of each other
};

// Whether all numbers are in 0..1 (those that are none count for neither): logits of many rows never are.
bool areProbabilities(const Numbers &scores);

// Labels commonly begin with the first object: 0. Where as many are known as there are scores, the background is among
// them: 1.
inline int firstLabel(int64_t scores, const DecoderWishes &wishes) { return wishes.classes == scores ? 1 : 0; }

// Rows of `row_size` numbers, in which the classes that may be objects are `classes` from `first` on; what lies before
// and after them only counts for the softmax.
struct ScoreTable {
  size_t rows = 0, row_size = 0;
  size_t first = 0, classes = 0;
  ScoreForm form = ScoreForm::Probabilities;
  int first_label = 0; // of class `first`
};

// Offers the best class of each row.
void offerObjects(const Numbers &numbers, const ScoreTable &table, float threshold, Candidates &candidates);

} // namespace gstzc::infer
