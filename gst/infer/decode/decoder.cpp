// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/decoder.h"

#include "gst/infer/decode/blazeface.h"

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

Result<std::unique_ptr<Decoder>> makeDecoder(const DecoderWishes &wishes, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
  const DecoderKind kind = wishes.kind;
  // one family so far, so Auto and its name look at the same shapes
  if (auto decoder = BlazeFaceDecoder::match(input, outputs)) return std::unique_ptr<Decoder>(std::move(decoder));
  std::string shapes;
  for (const TensorInfo &output : outputs) shapes += (shapes.empty() ? "" : ", ") + output.describe();
  const std::string size = std::to_string(input.width) + "x" + std::to_string(input.height);
  return Error{std::string(kind == DecoderKind::Auto ? "no decoder understands" : "decoder=blazeface does not fit") +
                   " a model with a picture of " + size + " and the outputs " + shapes,
               0, std::string("blazeface understands ") + BlazeFaceDecoder::expectedShapes()};
}

} // namespace gstzc::infer
