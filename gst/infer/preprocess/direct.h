// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that are the tensor already: bytes in the model's size, order and layout need no preprocessing, only to be
// passed on.
#pragma once

#include <optional>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/sampling.h"

namespace gstzc::infer {

// The format whose frames, in the tensor's size and without gaps, are one picture of the tensor: RGB or BGR for NHWC,
// RGBP or BGRP for NCHW, GRAY8 for one channel. Nothing unless the tensor is uint8 and takes colours as they are (mean
// 0, scale 1).
std::optional<GstVideoFormat> tensorFormat(const InputPlan &plan, const PreprocessOptions &options);

// Whether whole frames with these caps are the tensor, as far as caps can tell: packedTensor() looks at their memory.
// Not so where the preprocessing would expand a limited range. The resize mode does not count, at the tensor's size all
// are the same.
bool isTensor(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options);

// The tensor within a frame for which isTensor() is true: its first byte, if its rows lie without gaps and its planes
// right behind each other in their order; else null.
const void *packedTensor(const FramePlanes &frame, const GstVideoInfo &info, const InputPlan &plan);

} // namespace gstzc::infer
