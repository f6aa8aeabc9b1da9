// SPDX-License-Identifier: LGPL-2.1-or-later
// From a frame as it lies to a model's input tensor, in one pass and without a frame in between.
//
// Coordinates: pixel i of a row covers i to i+1, its sample lies at i+0.5. A tensor pixel takes the frame's colour at
// the place its centre maps to, interpolated between the two nearest samples in each direction (the edge sample is
// repeated outside), or by area the mean of all that it covers; a region's edge blends with what lies beside it in the
// frame. Each component is interpolated at its own samples, subsampled chroma at the positions that the
// caps' chroma-site gives; then the matrix and the range of the caps' colorimetry make RGB of it, clamped to 0..255.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/kernels.h"
#include "gst/infer/preprocess/mapping.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/infer/preprocess/sampling.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

class Preprocessor {
public:
  // As makePixelPlan(), with its errors.
  static Result<Preprocessor> create(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options,
                                     const std::optional<Region> &region = {});

  // The planes that run() reads.
  int planes() const { return plan_.planes; }
  const Mapping &mapping() const { return plan_.mapping; }

  // Writes plan.bytes() bytes to `tensor`, aligned as its type. Thread-safe; allocates only when a thread runs its
  // first frame of a larger size. Reads of each row of a plane the bytes that belong to pixels, of the frame nothing
  // else.
  void run(const FramePlanes &frame, void *tensor) const;

private:
  explicit Preprocessor(const PixelPlan &plan);
  void fillPadding();
  void writeRow(int row, const float *const *components, std::byte *tensor) const;

  PixelPlan plan_;
  std::vector<Sampler> samplers_; // of components that lie together; none where no pixel is covered
  kernels::Conversion conversion_;
  std::vector<std::byte> padding_; // a row of the tensor: of each channel, or interleaved
};

} // namespace gstzc::infer
