// SPDX-License-Identifier: LGPL-2.1-or-later
// The arithmetic from a frame's components to a tensor's channels, by the caps' format and colorimetry.
#pragma once

#include <array>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/pixel_layout.h"

namespace gstzc::infer {

// Y'CbCr by its matrix (ITU-R BT.601, BT.709, BT.2020; where the caps name none: BT.709 above 576 lines, else BT.601)
// and range. A grey tensor is the luma: Y' itself, or of R'G'B' the sum by the matrix of the colorimetry, which for
// R'G'B' seldom is one: then BT.601's, which the usual picture libraries take for grey.
std::array<PixelChannel, 3> channelsFor(const GstVideoInfo &info, const InputPlan &plan,
                                        const Normalisation &normalisation);

} // namespace gstzc::infer
