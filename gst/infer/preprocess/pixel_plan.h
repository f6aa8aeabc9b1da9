// SPDX-License-Identifier: LGPL-2.1-or-later
// From caps and a model's wishes to the numbers that the preprocessing works with, on whatever device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/mapping.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/pixel_layout.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

static_assert(std::is_trivially_copyable_v<PixelPlan> && sizeof(PixelPlan) <= 1024);
static_assert(std::is_trivially_copyable_v<PixelPlanes>);

// The formats that are read, best known first.
std::span<const GstVideoFormat> readableFormats();

// `info` gives format, size, colorimetry and chroma-site; its strides and offsets are not used. `region` (default: the
// whole frame) is what the tensor shows; what of it lies outside the frame is padding. Errors: a format that is not
// read, a frame that is too large, a region without width or height, a mean, scale or padding that is no number.
Result<PixelPlan> makePixelPlan(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options,
                                const std::optional<Region> &region = {});

// In 1 / 2^kPositionBits, limited to what leaves room to calculate.
int64_t positionOf(double samples);

} // namespace gstzc::infer
