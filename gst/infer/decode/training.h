// SPDX-License-Identifier: LGPL-2.1-or-later
// How models are commonly trained to have their pictures normalised. Of inputs that are floating point numbers: what a
// model of whole numbers gets is for the loader to say, whatever its family.
#pragma once

#include "gst/infer/preprocess/preprocess.h"

namespace gstzc::infer {

// All channels alike.
Normalisation evenNormalisation(float mean, float scale);

// RGB, by the mean and the deviation of ImageNet, as torchvision's documentation of its classification and segmentation
// weights gives them.
Normalisation imageNetNormalisation();

// Where nothing but the input's shape tells, RGB: planes (PyTorch) by imageNetNormalisation(); pixels (TensorFlow)
// -1..1, as its MobileNet and DeepLab models want it. Grey: 0..1.
Normalisation commonNormalisation(const InputPlan &input);

} // namespace gstzc::infer
