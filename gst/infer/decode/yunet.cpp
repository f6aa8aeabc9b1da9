// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yunet.h"

#include <algorithm>
#include <cmath>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/yolo_head.h"

namespace gstzc::infer {
namespace {

constexpr int kPointNumbers = 2 * YuNetDecoder::kKeypoints;

float unit(float score) { return std::clamp(score, 0.0f, 1.0f); } // keeps what is not a number

} // namespace

const char *YuNetDecoder::expected() {
  return "an input whose sides are multiples of 32 and twelve outputs, for each of the strides 8, 16 and 32 with its N "
         "cells: cls_ and obj_ [1,N,1], bbox_ [1,N,4], kps_ [1,N,10]";
}

std::unique_ptr<Decoder> YuNetDecoder::match(const DecoderWishes &, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs) {
  if (outputs.size() != 4 * kStrides.size() || gridCells(input) == 0) return nullptr;
  auto decoder = std::make_unique<YuNetDecoder>();
  decoder->input_ = input;
  decoder->defaults_ = {
      .preprocess = {.normalisation = {.bgr = true}}, .threshold = 0.6f, .iou_threshold = 0.3f, .labels = {"face"}};
  std::vector<bool> taken(outputs.size(), false);
  const auto find = [&](const char *name, int stride, int last) -> std::optional<OutputSlot> {
    const int64_t cells = gridCells(input, {&stride, 1});
    const std::string full = std::string(name) + "_" + std::to_string(stride);
    std::optional<size_t> found;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (taken[i] || !declared(outputs[i], {kAnySize, last})) continue;
      const int64_t rows = outputs[i].dims[1];
      if (outputs[i].name == full && (rows == cells || rows < 0)) {
        found = i;
        break;
      }
      if (!found && rows == cells) found = i;
    }
    if (!found) return {};
    taken[*found] = true;
    return OutputSlot(*found, outputs[*found]);
  };
  for (size_t g = 0; g < kStrides.size(); ++g) {
    const auto cls = find("cls", kStrides[g], 1), obj = find("obj", kStrides[g], 1);
    const auto bbox = find("bbox", kStrides[g], 4), kps = find("kps", kStrides[g], kPointNumbers);
    if (!cls || !obj || !bbox || !kps) return nullptr;
    decoder->grids_[g] = {*cls, *obj, *bbox, *kps};
  }
  return decoder;
}

Result<Findings> YuNetDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  struct Part {
    OutputTensor bbox, kps;
  };
  std::array<Part, kStrides.size()> parts;
  Candidates candidates(options.threshold);
  size_t first = 0;
  for (size_t g = 0; g < kStrides.size(); ++g) {
    const Grid &grid = grids_[g];
    const auto cells = static_cast<size_t>(gridCells(input_, {&kStrides[g], 1}));
    std::array<OutputTensor, 4> tensors;
    const std::array<const OutputSlot *, 4> slots = {&grid.cls, &grid.obj, &grid.bbox, &grid.kps};
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto tensor = slots[i]->read(outputs);
      if (!tensor) return tensor.error();
      if (tensor->dim(1) != cells)
        return slots[i]->unexpected(*tensor, std::to_string(cells) + " rows for the grid of stride " +
                                                 std::to_string(kStrides[g]));
      tensors[i] = *tensor;
    }
    for (size_t i = 0; i < cells; ++i)
      candidates.offer(std::sqrt(unit(tensors[0].numbers[i]) * unit(tensors[1].numbers[i])), 0, first + i);
    parts[g] = {tensors[2], tensors[3]};
    first += cells;
  }

  const PictureSize size(input_);
  Findings findings;
  findings.detections = makeDetections(std::move(candidates), options, [&](size_t row, Detection &face) {
    const Cell cell = cellOf(input_, row);
    const Part &part = parts[cell.grid];
    const auto b = [&](size_t n) { return part.bbox.numbers[cell.index * 4 + n]; };
    const auto k = [&](size_t n) { return part.kps.numbers[cell.index * kPointNumbers + n]; };
    const float s = cell.stride;
    size.setCentred(face, (b(0) + cell.column) * s, (b(1) + cell.row) * s, std::exp(b(2)) * s, std::exp(b(3)) * s);
    for (size_t n = 0; n < kPointNumbers; n += 2)
      face.keypoints.push_back({(k(n) + cell.column) * s / size.width, (k(n + 1) + cell.row) * s / size.height});
  });
  return findings;
}

} // namespace gstzc::infer
