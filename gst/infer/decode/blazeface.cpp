// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/blazeface.h"

#include <algorithm>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/nms.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

constexpr int kFineCells = 16, kFinePerCell = 2, kCoarseCells = 8, kCoarsePerCell = 6;
static_assert(kFineCells * kFineCells * kFinePerCell == BlazeFaceDecoder::kFineAnchors);
static_assert(kCoarseCells * kCoarseCells * kCoarsePerCell + BlazeFaceDecoder::kFineAnchors ==
              BlazeFaceDecoder::kAnchors);

} // namespace

const char *BlazeFaceDecoder::expected() {
  return "a square input with outputs [1,896,1] and [1,896,16], or [1,512,1], [1,384,1], [1,512,16] and "
         "[1,384,16]";
}

std::unique_ptr<Decoder> BlazeFaceDecoder::match(const DecoderWishes &, const InputPlan &input,
                                                 const std::vector<TensorInfo> &outputs) {
  if (input.width != input.height) return nullptr;
  const auto find = [&](int anchors, int last) -> std::optional<OutputSlot> {
    const auto it = std::find_if(outputs.begin(), outputs.end(),
                                 [&](const TensorInfo &info) { return declared(info, {anchors, last}); });
    if (it == outputs.end()) return {};
    return OutputSlot(static_cast<size_t>(it - outputs.begin()), *it);
  };
  const auto parts = [&](int last) -> std::vector<Part> {
    constexpr int coarse = kAnchors - kFineAnchors;
    if (const auto all = find(kAnchors, last)) return {{*all, 0, kAnchors}};
    const auto a = find(kFineAnchors, last), b = find(coarse, last);
    if (a && b) return {{*a, 0, kFineAnchors}, {*b, kFineAnchors, coarse}};
    return {};
  };

  auto decoder = std::make_unique<BlazeFaceDecoder>();
  decoder->side_ = static_cast<float>(input.width);
  decoder->scores_ = parts(1);
  decoder->numbers_ = parts(kNumbers);
  if (decoder->scores_.empty() || decoder->numbers_.empty()) return nullptr;
  return decoder;
}

Point BlazeFaceDecoder::anchor(int i) {
  const bool fine = i < kFineAnchors;
  const int cells = fine ? kFineCells : kCoarseCells;
  const int cell = fine ? i / kFinePerCell : (i - kFineAnchors) / kCoarsePerCell;
  const float size = static_cast<float>(cells);
  return {(static_cast<float>(cell % cells) + 0.5f) / size, (static_cast<float>(cell / cells) + 0.5f) / size};
}

const FamilyDefaults &BlazeFaceDecoder::defaults() const {
  static const FamilyDefaults defaults = {
      .preprocess = {.resize = ResizeMode::Letterbox, .normalisation = evenNormalisation(127.5f, 1 / 127.5f)},
      .threshold = 0.5f,
      .iou_threshold = 0.3f,
      .labels = {"face"}};
  return defaults;
}

Result<Findings> BlazeFaceDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  std::array<float, kAnchors> raw = {};
  for (const Part &part : scores_) {
    const auto tensor = part.output.read(outputs);
    if (!tensor) return tensor.error();
    for (int i = 0; i < part.count; ++i) raw[part.first + i] = tensor->numbers[i];
  }
  std::array<OutputTensor, 2> tensors;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const auto tensor = numbers_[i].output.read(outputs);
    if (!tensor) return tensor.error();
    tensors[i] = *tensor;
  }

  std::vector<Detection> candidates;
  std::array<float, kNumbers> n;
  for (int i = 0; i < kAnchors; ++i) {
    const float score = sigmoid(raw[i]);
    if (!(score >= options.threshold)) continue; // not a number counts as no face
    const size_t part = i < numbers_[0].count ? 0 : 1;
    const auto first = static_cast<size_t>((i - numbers_[part].first) * kNumbers);
    for (size_t k = 0; k < n.size(); ++k) n[k] = tensors[part].numbers[first + k];
    const Point centre = anchor(i);
    const float x = centre.x + n[0] / side_, y = centre.y + n[1] / side_, w = n[2] / side_, h = n[3] / side_;
    Detection face;
    face.score = score;
    face.left = x - w / 2;
    face.top = y - h / 2;
    face.right = x + w / 2;
    face.bottom = y + h / 2;
    for (int k = 0; k < kKeypoints; ++k)
      face.keypoints.push_back({centre.x + n[4 + 2 * k] / side_, centre.y + n[5 + 2 * k] / side_});
    if (usable(face)) candidates.push_back(std::move(face));
  }
  Findings findings;
  findings.detections = blendOverlapping(std::move(candidates), options.iou_threshold,
                                         static_cast<size_t>(std::max(options.max_detections, 0)));
  std::erase_if(findings.detections, [](const Detection &face) { return !usable(face); }); // sums may overflow
  return findings;
}

} // namespace gstzc::infer
