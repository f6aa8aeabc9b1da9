// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolox.h"

#include <array>
#include <cmath>
#include <limits>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/family.h"

namespace gstzc::infer {
namespace {

constexpr std::array<int, 3> kStrides = {8, 16, 32};
constexpr int kBox = 5, kCocoClasses = 80;

// The cell that a row belongs to.
struct Cell {
  float column = 0, row = 0, stride = 0;
};

Cell cellOf(const InputPlan &input, size_t row) {
  for (const int stride : kStrides) {
    const auto columns = static_cast<size_t>(input.width / stride), rows = static_cast<size_t>(input.height / stride);
    if (row < columns * rows)
      return {static_cast<float>(row % columns), static_cast<float>(row / columns), static_cast<float>(stride)};
    row -= columns * rows;
  }
  return {};
}

} // namespace

const char *YoloXDecoder::expected() {
  return "one output [1,N,5+classes] with N = the cells of the grids of strides 8, 16 and 32 (3549 for 416x416); the "
         "number of classes is known or 80";
}

std::unique_ptr<Decoder> YoloXDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
  const bool named = wishes.kind == DecoderKind::YoloX;
  const int64_t cells = gridCells(input, kStrides);
  if (outputs.size() != 1 || cells == 0 || !declared(outputs[0], {kAnySize, kAnySize})) return nullptr;
  const std::vector<int64_t> &dims = outputs[0].dims;
  if (dims[1] != cells && !(named && dims[1] < 0)) return nullptr;
  const auto layout = layoutOf(dims[2], kBox, {}, 0, {.classes = wishes.classes});
  if (!layout || (!named && wishes.classes <= 0 && layout->classes != kCocoClasses)) return nullptr;
  auto decoder = std::make_unique<YoloXDecoder>();
  decoder->objects_ = OutputSlot(0, outputs[0]);
  decoder->input_ = input;
  decoder->classes_ = layout->classes;
  decoder->defaults_ = {.preprocess = {.resize = ResizeMode::LetterboxTopLeft,
                                       .normalisation = normalisationFor(input, {.padding = 114, .bgr = true})},
                        .threshold = 0.3f,
                        .iou_threshold = 0.45f,
                        .labels = {}};
  return decoder;
}

Result<Findings> YoloXDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = objects_.read(outputs);
  if (!tensor) return tensor.error();
  const int64_t cells = gridCells(input_, kStrides);
  if (tensor->dim(1) != static_cast<size_t>(cells))
    return objects_.unexpected(*tensor, std::to_string(cells) + " rows for the grids of the input");
  const auto numbers = static_cast<size_t>(kBox + classes_);
  const PictureSize size(input_);
  Findings findings;
  tensor->numbers.with([&](const auto &at) {
    Candidates candidates(options.threshold);
    for (size_t row = 0; row < tensor->dim(1); ++row) {
      const float object = at(row * numbers + 4);
      if (!(object >= options.threshold)) continue;
      float best = -std::numeric_limits<float>::infinity();
      int label = 0;
      for (int c = 0; c < classes_; ++c) {
        const float score = at(row * numbers + kBox + static_cast<size_t>(c));
        if (score > best) best = score, label = c;
      }
      candidates.offer(object * best, label, row);
    }
    findings.detections = makeDetections(std::move(candidates), options, [&](size_t row, Detection &object) {
      const Cell cell = cellOf(input_, row);
      const size_t first = row * numbers;
      size.setCentred(object, (at(first) + cell.column) * cell.stride, (at(first + 1) + cell.row) * cell.stride,
                      std::exp(at(first + 2)) * cell.stride, std::exp(at(first + 3)) * cell.stride);
      return true;
    });
  });
  return findings;
}

} // namespace gstzc::infer
