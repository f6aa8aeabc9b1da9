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
#include <span>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/kernels.h"
#include "gst/infer/preprocess/mapping.h"
#include "gst/infer/preprocess/options.h"
#include "gst/infer/preprocess/sampling.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// The formats that are read, best known first.
std::span<const GstVideoFormat> readableFormats();

class Preprocessor {
public:
  // `info` gives format, size, colorimetry and chroma-site; its strides and offsets are not used. `region` (default:
  // the whole frame) is what the tensor shows; what of it lies outside the frame is padding. Errors: a format that is
  // not read, a region without width or height, a mean, scale or padding that is no number.
  static Result<Preprocessor> create(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options,
                                     const std::optional<Region> &region = {});

  // The planes that run() reads.
  int planes() const { return planes_; }
  const Mapping &mapping() const { return mapping_; }

  // Writes plan.bytes() bytes to `tensor`, aligned as its type. Thread-safe; allocates only when a thread runs its
  // first frame of a larger size. Reads of each row of a plane the bytes that belong to pixels, of the frame nothing
  // else.
  void run(const FramePlanes &frame, void *tensor) const;

private:
  void fillPadding(float colour);
  void writeRow(int row, const float *const *components, std::byte *tensor) const;

  InputPlan plan_;
  Mapping mapping_;
  int planes_ = 0;
  int components_ = 0;            // of the frame that are read
  Span columns_, rows_;           // that show the frame
  std::vector<Sampler> samplers_; // of components that lie together; none where no pixel is covered
  kernels::Conversion conversion_;
  std::vector<std::byte> padding_; // a row of the tensor: of each channel, or interleaved
};

} // namespace gstzc::infer
