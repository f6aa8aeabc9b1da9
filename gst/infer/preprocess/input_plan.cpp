// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/input_plan.h"

namespace gstzc::infer {
namespace {

// Larger than any model's; the tensor stays below 200 MB.
constexpr int64_t kMaxSide = 16384, kMaxPixels = 16 << 20;

constexpr const char *kExpected = "fenceinfer feeds models with one input of shape [1,3,height,width] or "
                                  "[1,height,width,3], float32 or uint8";

} // namespace

std::vector<int64_t> InputPlan::dims(int pictures) const {
  if (layout == TensorLayout::Nchw) return {pictures, channels, height, width};
  return {pictures, height, width, channels};
}

size_t InputPlan::bytes() const { return size_t{1} * channels * width * height * tensorTypeSize(type); }

Result<InputPlan> planInput(const std::vector<TensorInfo> &inputs, const InputWishes &) {
  if (inputs.size() != 1) {
    std::string names;
    for (const TensorInfo &input : inputs) names += (names.empty() ? ": " : ", ") + input.describe();
    return Error{"the model has " + std::to_string(inputs.size()) + " inputs" + names, 0, kExpected};
  }
  const TensorInfo &input = inputs[0];
  const std::vector<int64_t> &dims = input.dims;
  if (input.type != TensorType::Float32 && input.type != TensorType::UInt8)
    return Error{"input " + input.describe() + " has a type that pictures are not converted to", 0, kExpected};
  if (dims.size() != 4)
    return Error{"input " + input.describe() + " has rank " + std::to_string(dims.size()) + ", not 4", 0, kExpected};
  if (dims[0] != 1 && dims[0] >= 0)
    return Error{"input " + input.describe() + " wants a batch of " + std::to_string(dims[0]) + " pictures", 0,
                 "Export the model with a batch of 1 or an open one"};

  InputPlan plan;
  plan.type = input.type;
  // [1,3,h,3] is read as NCHW, the more common order in ONNX files
  const bool nchw = dims[1] == 3;
  if (!nchw && dims[3] != 3) return Error{"input " + input.describe() + " does not have 3 channels", 0, kExpected};
  plan.layout = nchw ? TensorLayout::Nchw : TensorLayout::Nhwc;
  const int64_t height = nchw ? dims[2] : dims[1], width = nchw ? dims[3] : dims[2];
  if (width < 0 || height < 0)
    return Error{"input " + input.describe() + " leaves its width or height open", 0,
                 "Export the model with a fixed picture size"};
  if (width == 0 || height == 0 || width > kMaxSide || height > kMaxSide)
    return Error{"input " + input.describe() + " has a picture of " + std::to_string(width) + "x" +
                     std::to_string(height),
                 0, "Each side has to be 1 to " + std::to_string(kMaxSide) + " pixels"};
  if (width * height > kMaxPixels)
    return Error{"input " + input.describe() + " has a picture of " + std::to_string(width) + "x" +
                     std::to_string(height),
                 0, "It may have " + std::to_string(kMaxPixels) + " pixels at most"};
  plan.width = static_cast<int>(width);
  plan.height = static_cast<int>(height);
  return plan;
}

} // namespace gstzc::infer
