// SPDX-License-Identifier: LGPL-2.1-or-later
// How a picture has to be laid out for a model, read from the model's inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gst/infer/engine/engine.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

constexpr int64_t kMaxPictureSide = 16384; // of a model's picture: larger than any

enum class TensorLayout { Nchw, Nhwc };

// The tensor that pictures are written to.
struct InputPlan {
  int width = 0;
  int height = 0;
  TensorLayout layout = TensorLayout::Nchw;
  TensorType type = TensorType::Float32; // Float32, Float16, UInt8 or Int8
  int channels = 3;                      // 3 or, for grey, 1
  int batch = 1;                         // pictures of a run: what the model fixes, else the most that are put into one
  bool open_batch = false;               // a run may have fewer

  std::vector<int64_t> dims(int pictures = 1) const;
  size_t bytes() const; // of one picture
};

// What the model's tensors leave open.
struct InputWishes {
  int width = 0, height = 0; // 0: not known
  int batch = 1;
  std::optional<TensorLayout> layout;
};

// Errors name the tensor, its shape and what would be understood: none or several inputs, a rank other than 4, another
// type, not 1 or 3 channels, a size that is left open and wished by nobody or that contradicts the wish, sizes that no
// memory holds. A batch that the model fixes stands, whatever is wished. Where the channels could be the second
// dimension as well as the last, as in [1,3,h,3], the wished layout decides, else it is read as NCHW.
Result<InputPlan> planInput(const std::vector<TensorInfo> &inputs, const InputWishes &wishes = {});

} // namespace gstzc::infer
