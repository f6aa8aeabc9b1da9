// SPDX-License-Identifier: LGPL-2.1-or-later
// From a frame as it lies to a model's input tensor, in one pass and without a frame in between.
//
// Coordinates: pixel i of a row covers i to i+1, its sample lies at i+0.5. A tensor pixel takes the frame's colour at
// the place its centre maps to, interpolated between the two nearest samples in each direction (the edge sample is
// repeated outside). Each component is interpolated at its own samples, subsampled chroma at the positions that the
// caps' chroma-site gives; then the matrix and the range of the caps' colorimetry make RGB of it, clamped to 0..255.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/input_plan.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

enum class ResizeMode {
  Stretch,          // the whole region onto the whole tensor
  Letterbox,        // the whole region, its shape kept, in the middle of the tensor; the rest is padding
  LetterboxTopLeft, // the same at the tensor's left and top edge
  Crop,             // the middle of the region, as large as the tensor's shape allows, onto the whole tensor
};

enum class Scaling {
  Bilinear, // between the two nearest samples in each direction
  Area,     // the mean of all samples that a tensor pixel covers, the outer ones by the part covered; where there is
            // less than one, bilinear
};

// What a model expects of the numbers: value = (colour - mean) * scale, colour 0..255.
struct Normalisation {
  std::array<float, 3> mean = {0, 0, 0}; // of red, green, blue; of grey the first
  std::array<float, 3> scale = {1.0f, 1.0f, 1.0f};
  float padding = 0; // colour of all channels outside the frame
  bool bgr = false;  // first channel blue instead of red
};

struct PreprocessOptions {
  ResizeMode resize = ResizeMode::Stretch;
  Scaling scaling = Scaling::Bilinear;
  Normalisation normalisation;
};

// A part of a frame, in its pixels; it may leave the frame.
struct Region {
  double x = 0, y = 0, width = 0, height = 0;
};

// Frame pixels = tensor pixels * step + origin, per axis.
struct Mapping {
  double step_x = 1, step_y = 1;
  double origin_x = 0, origin_y = 0;
  double frameX(double tensor_x) const { return tensor_x * step_x + origin_x; }
  double frameY(double tensor_y) const { return tensor_y * step_y + origin_y; }
};

Mapping mapTensorToFrame(const InputPlan &plan, const Region &region, ResizeMode mode);

// The formats that are read, best known first.
std::span<const GstVideoFormat> readableFormats();

// The planes of one frame in CPU memory.
struct FramePlanes {
  std::array<const uint8_t *, GST_VIDEO_MAX_PLANES> data = {};
  std::array<int, GST_VIDEO_MAX_PLANES> stride = {};
};

class Preprocessor {
public:
  // `info` gives format, size, colorimetry and chroma-site; its strides and offsets are not used. Error: a format that
  // is not read. `region` (default: the whole frame) is what the tensor shows; what of it lies outside the frame is
  // padding.
  static Result<Preprocessor> create(const GstVideoInfo &info, const InputPlan &plan, const PreprocessOptions &options,
                                     const std::optional<Region> &region = {});

  // The planes that run() reads.
  int planes() const { return planes_; }
  const Mapping &mapping() const { return mapping_; }

  // Writes plan.bytes() bytes to `tensor`. Thread-safe.
  void run(const FramePlanes &frame, void *tensor) const;

private:
  // Where the samples of one component are; columns are offsets in bytes.
  struct Component {
    int plane = 0;
    std::vector<int> left, right;
    std::vector<float> weight; // of `right`
    std::vector<int> top, bottom;
    std::vector<float> row_weight; // of `bottom`
  };

  void sampleRow(const Component &component, const FramePlanes &frame, int row, float *out) const;
  void toRgb(float *a, float *b, float *c) const;
  template <typename T> void writeRow(const float *const rgb[3], int row, T *tensor) const;
  template <typename T> void runAs(const FramePlanes &frame, T *tensor) const;

  InputPlan plan_;
  Normalisation norm_;
  Mapping mapping_;
  int planes_ = 0;
  int first_column_ = 0, last_column_ = 0; // tensor pixels [first, last) that the frame covers
  int first_row_ = 0, last_row_ = 0;
  std::vector<Component> components_;               // Y U V, R G B or grey
  bool matrix_ = false;                             // components are Y U V
  std::array<std::array<float, 4>, 3> to_rgb_ = {}; // rows R G B: factors of the three components, constant
};

} // namespace gstzc::infer
