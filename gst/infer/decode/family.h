// SPDX-License-Identifier: LGPL-2.1-or-later
// What decoders need to describe their family.
#pragma once

#include "gst/infer/decode/decoder.h"

namespace gstzc::infer {

// `trained` where the model's input is a floating point number. A model that takes integers normalises them itself: it
// gets the colours as they are or, where they have a sign, less 128.
inline Normalisation normalisationFor(const InputPlan &input, Normalisation trained) {
  if (input.type != TensorType::UInt8 && input.type != TensorType::Int8) return trained;
  const float mean = input.type == TensorType::Int8 ? 128.0f : 0.0f;
  trained.mean = {mean, mean, mean};
  trained.scale = {1, 1, 1};
  return trained;
}

} // namespace gstzc::infer
