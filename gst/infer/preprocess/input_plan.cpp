// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/input_plan.h"

#include <algorithm>

namespace gstzc::infer {
namespace {

// Larger than any model's; one picture stays below 200 MB and a run below 1 GiB.
constexpr int64_t kMaxPixels = 16 << 20, kMaxBytes = int64_t{1} << 30;

constexpr const char *kExpected = "fenceinfer feeds models with one input of shape [batch,3,height,width] or "
                                  "[batch,height,width,3], 1 channel instead of 3 for grey, of float32, float16, uint8 "
                                  "or int8";

constexpr const char *layoutName(TensorLayout layout) { return layout == TensorLayout::Nchw ? "NCHW" : "NHWC"; }

std::string sizeText(int64_t width, int64_t height) { return std::to_string(width) + "x" + std::to_string(height); }

Error wrong(const TensorInfo &input, const std::string &what, const std::string &remedy = kExpected) {
  return Error{"input " + input.describe() + " " + what, 0, remedy};
}

bool isPictureType(TensorType type) {
  return type == TensorType::Float32 || type == TensorType::Float16 || type == TensorType::UInt8 ||
         type == TensorType::Int8;
}

// [1,3,h,3] and the like can be both: then it is the wish, without one NCHW, the more common order in ONNX files.
Result<TensorLayout> layoutOf(const TensorInfo &input, const InputWishes &wishes) {
  const auto channels = [&](size_t at) { return input.dims[at] == 1 || input.dims[at] == 3; };
  const bool nchw = channels(1), nhwc = channels(3);
  if (wishes.layout) {
    if (*wishes.layout == TensorLayout::Nchw ? nchw : nhwc) return *wishes.layout;
    return wrong(input, std::string("does not have 1 or 3 channels where ") + layoutName(*wishes.layout) + " has them",
                 "Correct the dims of its modelinfo file");
  }
  if (nchw) return TensorLayout::Nchw;
  if (nhwc) return TensorLayout::Nhwc;
  return wrong(input, "does not have 1 or 3 channels");
}

// One side of the picture: what the model fixes, else the wish.
Result<int64_t> sideOf(const TensorInfo &input, int64_t fixed, int wish, const char *side) {
  if (fixed >= 0 && wish > 0 && fixed != wish)
    return wrong(input, std::string("fixes its ") + side + ", " + std::to_string(wish) + " is asked for",
                 "Set input-width and input-height to what the model has, or to 0, and so in its modelinfo file");
  if (fixed < 0 && wish <= 0)
    return wrong(input, std::string("leaves its ") + side + " open",
                 "Set input-width and input-height to the size that it is trained for");
  return fixed >= 0 ? fixed : wish;
}

} // namespace

std::vector<int64_t> InputPlan::dims(int pictures) const {
  if (layout == TensorLayout::Nchw) return {pictures, channels, height, width};
  return {pictures, height, width, channels};
}

size_t InputPlan::bytes() const { return size_t{1} * channels * width * height * tensorTypeSize(type); }

Result<InputPlan> planInput(const std::vector<TensorInfo> &inputs, const InputWishes &wishes) {
  if (inputs.size() != 1) {
    std::string names;
    for (const TensorInfo &input : inputs) names += (names.empty() ? ": " : ", ") + input.describe();
    return Error{"the model has " + std::to_string(inputs.size()) + " inputs" + names, 0, kExpected};
  }
  const TensorInfo &input = inputs[0];
  const std::vector<int64_t> &dims = input.dims;
  if (!isPictureType(input.type)) return wrong(input, "has a type that pictures are not converted to");
  if (dims.size() != 4) return wrong(input, "has rank " + std::to_string(dims.size()) + ", not 4");
  auto layout = layoutOf(input, wishes);
  if (!layout) return layout.error();
  const bool nchw = *layout == TensorLayout::Nchw;
  auto height = sideOf(input, dims[nchw ? 2 : 1], wishes.height, "height");
  if (!height) return height.error();
  auto width = sideOf(input, dims[nchw ? 3 : 2], wishes.width, "width");
  if (!width) return width.error();
  if (*width == 0 || *height == 0 || *width > kMaxPictureSide || *height > kMaxPictureSide)
    return wrong(input, "has a picture of " + sizeText(*width, *height),
                 "Each side has to be 1 to " + std::to_string(kMaxPictureSide) + " pixels");
  if (*width * *height > kMaxPixels)
    return wrong(input, "has a picture of " + sizeText(*width, *height),
                 "It may have " + std::to_string(kMaxPixels) + " pixels at most");

  InputPlan plan;
  plan.type = input.type;
  plan.layout = *layout;
  plan.channels = static_cast<int>(dims[nchw ? 1 : 3]);
  plan.width = static_cast<int>(*width);
  plan.height = static_cast<int>(*height);
  plan.open_batch = dims[0] < 0;
  const int64_t batch = plan.open_batch ? std::max(1, wishes.batch) : dims[0];
  const int64_t most = kMaxBytes / static_cast<int64_t>(plan.bytes());
  if (batch < 1 || batch > most)
    return wrong(input, "has a batch of " + std::to_string(batch) + " pictures of " + sizeText(plan.width, plan.height),
                 "1 to " + std::to_string(most) + " of them are put into one run");
  plan.batch = static_cast<int>(batch);
  return plan;
}

} // namespace gstzc::infer
