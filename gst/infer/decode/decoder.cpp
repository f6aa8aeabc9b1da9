// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/decoder.h"

#include <algorithm>

#include "gst/infer/decode/blazeface.h"
#include "gst/infer/decode/classification.h"
#include "gst/infer/decode/detr.h"
#include "gst/infer/decode/segmentation.h"
#include "gst/infer/decode/ssd.h"
#include "gst/infer/decode/ssd_postprocess.h"
#include "gst/infer/decode/ultraface.h"
#include "gst/infer/decode/yolo.h"
#include "gst/infer/decode/yolox.h"
#include "gst/infer/decode/yunet.h"

namespace gstzc::infer {

const char *decoderName(DecoderKind kind) {
  switch (kind) {
  case DecoderKind::Auto: return "auto";
  case DecoderKind::None: return "none";
  case DecoderKind::BlazeFace: return "blazeface";
  case DecoderKind::Ssd: return "ssd";
  case DecoderKind::SsdPostprocess: return "ssd-postprocess";
  case DecoderKind::UltraFace: return "ultraface";
  case DecoderKind::YuNet: return "yunet";
  case DecoderKind::YoloV5: return "yolov5";
  case DecoderKind::YoloV8: return "yolov8";
  case DecoderKind::YoloV10: return "yolov10";
  case DecoderKind::YoloX: return "yolox";
  case DecoderKind::Detr: return "detr";
  case DecoderKind::Classification: return "classification";
  case DecoderKind::Segmentation: return "segmentation";
  }
  return "unknown";
}

namespace {

struct Family {
  DecoderKind kind;
  std::unique_ptr<Decoder> (*match)(const DecoderWishes &, const InputPlan &, const std::vector<TensorInfo> &);
  const char *(*expected)();
};

// Auto asks them in this order. Unless it is named, each only takes what no other of them would take: shapes that two
// families share are settled by the grids of the input, by names or by the number of classes, or not at all.
constexpr Family kFamilies[] = {
    {DecoderKind::BlazeFace, BlazeFaceDecoder::match, BlazeFaceDecoder::expected},
    {DecoderKind::YuNet, YuNetDecoder::match, YuNetDecoder::expected},
    {DecoderKind::SsdPostprocess, SsdPostprocessDecoder::match, SsdPostprocessDecoder::expected},
    {DecoderKind::Ssd, SsdDecoder::match, SsdDecoder::expected},
    {DecoderKind::UltraFace, UltraFaceDecoder::match, UltraFaceDecoder::expected},
    {DecoderKind::Detr, DetrDecoder::match, DetrDecoder::expected},
    {DecoderKind::YoloV5, YoloV5Decoder::match, YoloV5Decoder::expected},
    {DecoderKind::YoloV8, YoloV8Decoder::match, YoloV8Decoder::expected},
    {DecoderKind::YoloV10, YoloV10Decoder::match, YoloV10Decoder::expected},
    {DecoderKind::YoloX, YoloXDecoder::match, YoloXDecoder::expected},
    {DecoderKind::Classification, ClassificationDecoder::match, ClassificationDecoder::expected},
    {DecoderKind::Segmentation, SegmentationDecoder::match, SegmentationDecoder::expected},
};

constexpr size_t kShownOutputs = 12; // of an error: all of YuNet's

std::string describe(const DecoderWishes &wishes, const InputPlan &input, const std::vector<TensorInfo> &outputs) {
  std::string text = "a picture of " + std::to_string(input.width) + "x" + std::to_string(input.height);
  if (wishes.classes > 0) text += ", " + std::to_string(wishes.classes) + " classes";
  if (wishes.keypoints > 0) text += ", " + std::to_string(wishes.keypoints) + " keypoints";
  if (outputs.empty()) return text + " and no outputs";
  text += outputs.size() == 1 ? " and the output " : " and the outputs ";
  const size_t shown = std::min(outputs.size(), kShownOutputs);
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + outputs[i].describe();
  if (shown < outputs.size()) text += " and " + std::to_string(outputs.size() - shown) + " more";
  return text;
}

} // namespace

Result<std::unique_ptr<Decoder>> makeDecoder(const DecoderWishes &wishes, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
  if (wishes.kind == DecoderKind::None) return std::unique_ptr<Decoder>();
  std::string needs, names;
  for (const Family &family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(decoderName(family.kind));
    if (wishes.kind != DecoderKind::Auto && wishes.kind != family.kind) continue;
    if (auto decoder = family.match(wishes, input, outputs)) return decoder;
    needs = std::string(decoderName(family.kind)) + " needs " + family.expected() + ". ";
  }
  const std::string model = " a model with " + describe(wishes, input, outputs);
  const std::string raw = "decoder=none output=tensor-meta gives the tensors as they are";
  if (wishes.kind == DecoderKind::Auto)
    return Error{
        "no decoder understands" + model, 0,
        std::string(wishes.classes > 0 ? "Set decoder=" : "Set labels-file, which tells the classes, or decoder=") +
            " to one of " + names + ": where it does not fit, what it needs is said; " + raw};
  return Error{std::string("decoder=") + decoderName(wishes.kind) + " does not fit" + model, 0, needs + raw};
}

} // namespace gstzc::infer
