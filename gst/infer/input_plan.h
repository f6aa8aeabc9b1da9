// SPDX-License-Identifier: LGPL-2.1-or-later
// How a picture has to be laid out for a model, read from the model's inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gst/infer/engine.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

enum class TensorLayout { Nchw, Nhwc };

// The tensor a picture is written to: batch 1, three channels.
struct InputPlan {
  int width = 0;
  int height = 0;
  TensorLayout layout = TensorLayout::Nchw;
  TensorType type = TensorType::Float32; // Float32 or UInt8

  std::vector<int64_t> dims() const;
  size_t bytes() const;
};

// Errors name the tensor, its shape and what would be understood: none or several inputs, a rank other than 4, a type
// other than float32 and uint8, not three channels, a batch other than 1, sizes that the model leaves open or that no
// memory holds.
Result<InputPlan> planInput(const std::vector<TensorInfo> &inputs);

} // namespace gstzc::infer
