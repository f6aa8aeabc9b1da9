// SPDX-License-Identifier: LGPL-2.1-or-later
// Masks of single objects, made as YOLACT does ("YOLACT: Real-time Instance Segmentation", Bolya and others, section
// 3): the model gives P prototype pictures for all objects and, for each object, P factors of them.
#pragma once

#include <optional>
#include <span>

#include "gst/infer/decode/findings.h"
#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

// The mask of `box`: sigmoid(sum of factor * prototype), taken as inside where it is above 0.5. `prototypes` is
// [1,P,h,w], Float32 or Float16, and shows the whole input picture; there are P `coefficients`. The grid has about one
// cell for each cell of the prototypes that the box covers, never fewer, and is interpolated between the prototypes'
// cells, so that it begins and ends at the box's edges. What is not a number is outside.
//
// Nothing where the box has no area inside the picture, where the number of coefficients is not P, and for a tensor of
// another shape or type or with fewer bytes than its shape says.
std::optional<BoxMask> maskOf(std::span<const float> coefficients, const TensorView &prototypes, const Detection &box);

} // namespace gstzc::infer
