// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolox.h"

#include <cmath>

namespace gstzc::infer {
namespace {

constexpr int kBox = 5;

} // namespace

const char *YoloXDecoder::expected() {
  return "one output [1,N,5+classes] with N = the cells of the grids of strides 8, 16 and 32 (3549 for 416x416); the "
         "number of classes is known or 80";
}

std::unique_ptr<Decoder> YoloXDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
  const bool named = wishes.kind == DecoderKind::YoloX;
  const int64_t cells = gridCells(input);
  if (outputs.size() != 1 || cells == 0 || !declared(outputs[0], {kAnySize, kAnySize})) return nullptr;
  const std::vector<int64_t> &dims = outputs[0].dims;
  if (dims[1] != cells && !(named && dims[1] < 0)) return nullptr;
  const auto layout = layoutOf(dims[2], kBox, {}, 0, {.classes = wishes.classes});
  if (!layout || (!named && wishes.classes <= 0 && layout->classes != kCocoClasses)) return nullptr;
  auto decoder = std::make_unique<YoloXDecoder>();
  decoder->objects_ = OutputSlot(0, outputs[0]);
  decoder->input_ = input;
  decoder->layout_ = *layout;
  decoder->defaults_ = {
      .preprocess = {.resize = ResizeMode::LetterboxTopLeft, .normalisation = {.padding = 114, .bgr = true}},
      .threshold = 0.3f,
      .iou_threshold = 0.45f,
      .labels = {}};
  return decoder;
}

Result<Findings> YoloXDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = objects_.read(outputs);
  if (!tensor) return tensor.error();
  const int64_t cells = gridCells(input_);
  if (tensor->dim(1) != static_cast<size_t>(cells))
    return objects_.unexpected(*tensor, std::to_string(cells) + " rows for the grids of the input");
  const auto numbers = static_cast<size_t>(layout_.size());
  const PictureSize size(input_);
  Findings findings;
  tensor->numbers.with([&](const auto &at) {
    Candidates candidates(options.threshold);
    const auto object_score = [&](size_t row) { return at(row * numbers + 4); };
    scanRows(at, tensor->dim(1), layout_, options.threshold, object_score, candidates);
    findings.detections = makeDetections(std::move(candidates), options, [&](size_t row, Detection &object) {
      const Cell cell = cellOf(input_, row);
      const size_t first = row * numbers;
      size.setCentred(object, (at(first) + cell.column) * cell.stride, (at(first + 1) + cell.row) * cell.stride,
                      std::exp(at(first + 2)) * cell.stride, std::exp(at(first + 3)) * cell.stride);
    });
  });
  return findings;
}

} // namespace gstzc::infer
