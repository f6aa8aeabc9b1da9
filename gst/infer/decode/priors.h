// SPDX-License-Identifier: LGPL-2.1-or-later
// Default boxes that SSD models are trained with ("SSD: Single Shot MultiBox Detector", Liu and others), in the order
// of the rows of their outputs: grid by grid from fine to coarse, row by row, the boxes of a cell together. Each family
// has its own sizes, and no model says which it has: a set is known by how many boxes it has for an input.
#pragma once

#include <vector>

#include "gst/infer/preprocess/input_plan.h"

namespace gstzc::infer {

// Parts of the input.
struct Prior {
  float cx = 0, cy = 0, width = 0, height = 0;
};

// Where a set is not defined for a size of input it is empty.

// MobileNet-SSD of Caffe: 1917 for 300x300.
std::vector<Prior> mobileNetPriors(const InputPlan &input);

// SSD300 on VGG-16 of the paper: 8732 for 300x300.
std::vector<Prior> vggPriors(const InputPlan &input);

// SSD-MobileNet of the TensorFlow Object Detection API (ssd_anchor_generator: six layers, scales 0.2 to 0.95, three
// boxes a cell in the finest): any square input; 1917 for 300x300, 2034 for 320x320.
std::vector<Prior> tensorFlowPriors(const InputPlan &input);

// Ultra-Light-Fast-Generic-Face-Detector: any input; 4420 for 320x240, 17640 for 640x480. Clipped to the input.
std::vector<Prior> ultraFacePriors(const InputPlan &input);

} // namespace gstzc::infer
