// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/training.h"

namespace gstzc::infer {

Normalisation evenNormalisation(float mean, float scale) {
  return {.mean = {mean, mean, mean}, .scale = {scale, scale, scale}};
}

Normalisation imageNetNormalisation() {
  return {.mean = {0.485f * 255, 0.456f * 255, 0.406f * 255},
          .scale = {1 / (0.229f * 255), 1 / (0.224f * 255), 1 / (0.225f * 255)}};
}

Normalisation commonNormalisation(const InputPlan &input) {
  if (input.channels == 1) return evenNormalisation(0, 1 / 255.0f);
  if (input.layout == TensorLayout::Nhwc) return evenNormalisation(127.5f, 1 / 127.5f);
  return imageNetNormalisation();
}

} // namespace gstzc::infer
