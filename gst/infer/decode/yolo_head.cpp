// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolo_head.h"

namespace gstzc::infer {
namespace {

// More numbers for an object than any model has.
constexpr int64_t kMostNumbers = 1 << 16;

constexpr int kPrototypeStride = 4;

bool arePrototypes(const InputPlan &input, const TensorInfo &info) {
  const auto covers = [](int64_t dim, int side) { return dim < 0 || dim == side / kPrototypeStride; };
  return declared(info, {kAnySize, kAnySize, kAnySize}) && info.dims[1] > 0 && info.dims[1] < kMostNumbers &&
         covers(info.dims[2], input.height) && covers(info.dims[3], input.width);
}

} // namespace

std::optional<ObjectLayout> layoutOf(int64_t size, int box, std::optional<int> fixed_classes, int coefficients,
                                     const DecoderWishes &wishes) {
  if (size > kMostNumbers || wishes.classes > kMostNumbers || wishes.keypoints > kMostNumbers) return {};
  ObjectLayout layout;
  layout.box = box;
  layout.coefficients = coefficients;
  layout.classes = fixed_classes.value_or(wishes.classes);
  if (wishes.keypoints > 0) {
    layout.keypoints = wishes.keypoints;
    layout.keypoint_values = wishes.keypoint_values;
    if (layout.keypoint_values != 0 && layout.keypoint_values != 2 && layout.keypoint_values != 3) return {};
  }
  if (fixed_classes || wishes.classes > 0) {
    const int64_t rest = size - box - layout.classes - coefficients;
    if (layout.keypoints > 0 && layout.keypoint_values == 0) {
      if (rest == int64_t{2} * layout.keypoints) layout.keypoint_values = 2;
      if (rest == int64_t{3} * layout.keypoints) layout.keypoint_values = 3;
    }
    if (rest != int64_t{layout.keypoints} * layout.keypoint_values) return {};
  } else {
    if (layout.keypoints > 0 && layout.keypoint_values == 0) return {};
    layout.classes = static_cast<int>(size - box - coefficients - int64_t{layout.keypoints} * layout.keypoint_values);
  }
  if (layout.classes < (fixed_classes ? 0 : 1) || layout.size() != size) return {};
  return layout;
}

std::optional<HeadOutputs> findHead(const InputPlan &input, const std::vector<TensorInfo> &outputs) {
  std::optional<OutputSlot> objects, prototypes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo &info = outputs[i];
    if (info.dims.size() == 5) continue;
    if (!objects && declared(info, {kAnySize, kAnySize})) {
      objects.emplace(i, info);
    } else if (!prototypes && arePrototypes(input, info)) {
      prototypes.emplace(i, info);
    } else {
      return {};
    }
  }
  if (!objects) return {};
  return HeadOutputs{*objects, prototypes, prototypes ? static_cast<int>(prototypes->info().dims[1]) : 0};
}

Result<const TensorView *> HeadOutputs::readPrototypes(const Outputs &outputs) const {
  if (!prototypes) return static_cast<const TensorView *>(nullptr);
  const auto tensor = prototypes->read(outputs);
  if (!tensor) return tensor.error();
  return static_cast<const TensorView *>(&outputs.tensors[prototypes->index()]);
}

FamilyDefaults yoloDefaults() {
  constexpr float scale = 1.0f / 255.0f;
  return {.preprocess = {.resize = ResizeMode::Letterbox,
                         .normalisation = {.scale = {scale, scale, scale}, .padding = 114}},
          .threshold = 0.25f,
          .iou_threshold = 0.45f,
          .labels = {}};
}

} // namespace gstzc::infer
