// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decoder.h"

#include <algorithm>

#include "gst/infer/blazeface.h"

namespace gstzc::infer {

float intersectionOverUnion(const Detection &a, const Detection &b) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const float both = width * height;
  const float either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

Result<std::unique_ptr<Decoder>> makeDecoder(DecoderKind kind, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
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
