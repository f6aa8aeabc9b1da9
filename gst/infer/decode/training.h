// SPDX-License-Identifier: LGPL-2.1-or-later
// How pictures are commonly normalised where nothing but the input's shape says so.
#pragma once

#include "gst/infer/preprocess/preprocess.h"

namespace gstzc::infer {

// RGB. Planes of floating point numbers (PyTorch): mean and deviation of ImageNet as torchvision's documentation of its
// classification and segmentation weights gives them. Pixels (TensorFlow): -1..1, as its MobileNet and DeepLab models
// want it. Grey: 0..1. Integers: the bytes as they are, less 128 where they have a sign.
Normalisation commonNormalisation(const InputPlan &input);

} // namespace gstzc::infer
