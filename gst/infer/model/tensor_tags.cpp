// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/tensor_tags.h"

#include <string_view>

#include "gst/infer/decode/yolo.h"

namespace gstzc::infer {
namespace {

constexpr const char *kSsdGroup = "ssd-mobilenet-v1-variant-1-out";
constexpr const char *kSsdBoxes = "ssd-mobilenet-v1-variant-1-out-boxes";
constexpr const char *kUltraFaceGroup = "ultra-lightweight-face-detection-rfb-320-v1-variant-1-out";
constexpr const char *kUltraFaceScores = "ultra-lightweight-face-detection-rfb-320-v1-variant-1-out-scores";
constexpr const char *kMasksGroup = "yolo-v8-segmentation-out";

// The registry has no group for a tensor that is alone; decoders ask for one of the same name.
TensorTag alone(const char *id, bool column_major = false) { return {id, id, column_major}; }

// detection_boxes:0 and its like.
TensorTag ssdTag(const TensorInfo &output) {
  const std::string_view name = output.name;
  if (name.starts_with("detection_boxes")) return {kSsdBoxes, kSsdGroup, false};
  if (name.starts_with("detection_classes")) return {"ssd-mobilenet-v1-variant-1-out-classes", kSsdGroup, false};
  if (name.starts_with("detection_scores")) return {"ssd-mobilenet-v1-variant-1-out-scores", kSsdGroup, false};
  if (name.starts_with("num_detections")) return {"generic-variant-1-out-count", kSsdGroup, false};
  return {};
}

// Of the faces: the same decoder takes SSD models of more classes.
TensorTag ultraFaceTag(const TensorInfo &output, int classes) {
  if (output.dims.empty() || classes != 1) return {};
  if (output.dims.back() == 2) return {kUltraFaceScores, kUltraFaceGroup, false};
  if (output.dims.back() == 4) return {kSsdBoxes, kUltraFaceGroup, false};
  return {};
}

// [1,numbers,candidates], with masks also prototypes of rank 4. Those who read these ids know nothing of
// [1,candidates,numbers].
TensorTag yoloV8Tag(const TensorInfo &output, bool masks, int keypoints, bool turned) {
  if (turned) return {};
  if (masks && output.dims.size() == 4) return {"yolo-v8-segmentation-out-protos", kMasksGroup, true};
  if (output.dims.size() != 3) return {};
  if (masks) return {"yolo-v8-segmentation-out-detections", kMasksGroup, true};
  return alone(keypoints > 0 ? "yolo-v8-pose-out" : "yolo-v8-out", true);
}

} // namespace

// YOLOX has none here: "yolox-out" is of boxes in pixels, which its raw grid does not have.
std::vector<TensorTag> defaultTags(const Decoder *decoder, const std::vector<TensorInfo> &outputs, int keypoints,
                                   bool softmaxed) {
  const std::string_view name = decoder != nullptr ? decoder->name() : decoderName(DecoderKind::None);
  const auto is = [&](DecoderKind kind) { return name == decoderName(kind); };
  bool masks = false;
  for (const TensorInfo &output : outputs) masks = masks || output.dims.size() == 4;
  const auto *const yolo = dynamic_cast<const YoloV8Decoder *>(decoder);
  const bool turned = yolo != nullptr && yolo->turned();

  std::vector<TensorTag> tags;
  for (const TensorInfo &output : outputs) {
    TensorTag tag;
    if (is(DecoderKind::None) || is(DecoderKind::SsdPostprocess))
      tag = ssdTag(output);
    else if (is(DecoderKind::UltraFace))
      tag = ultraFaceTag(output, decoder->classes());
    else if (is(DecoderKind::YoloV8))
      tag = yoloV8Tag(output, masks, keypoints, turned);
    else if (is(DecoderKind::YoloV10) && output.dims.size() == 3 && output.dims[2] == 6)
      tag = alone("yolo-26-end2end-out");
    else if (is(DecoderKind::Classification) && outputs.size() == 1)
      tag = alone(softmaxed ? "classification-generic-softmaxed-out" : "classification-generic-out");
    tags.push_back(std::move(tag));
  }
  return tags;
}

} // namespace gstzc::infer
