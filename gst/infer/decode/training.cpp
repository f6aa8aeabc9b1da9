// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/training.h"

#include "gst/infer/decode/family.h"

namespace gstzc::infer {

Normalisation commonNormalisation(const InputPlan &input) {
  const auto even = [](float mean, float scale) {
    return Normalisation{.mean = {mean, mean, mean}, .scale = {scale, scale, scale}};
  };
  if (input.channels == 1) return normalisationFor(input, even(0, 1 / 255.0f));
  if (input.layout == TensorLayout::Nhwc) return normalisationFor(input, even(127.5f, 1 / 127.5f));
  return normalisationFor(input, {.mean = {0.485f * 255, 0.456f * 255, 0.406f * 255},
                                  .scale = {1 / (0.229f * 255), 1 / (0.224f * 255), 1 / (0.225f * 255)}});
}

} // namespace gstzc::infer
