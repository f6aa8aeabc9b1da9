// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ultraface.h"

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/class_scores.h"
#include "gst/infer/decode/priors.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {

const char *UltraFaceDecoder::expected() {
  return "two outputs \"scores\" [1,N,1+classes], background first, and \"boxes\" [1,N,4], corners; other names only "
         "for "
         "two classes and the N that RFB has for the input (4420 for 320x240)";
}

std::unique_ptr<Decoder> UltraFaceDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                                 const std::vector<TensorInfo> &outputs) {
  if (outputs.size() != 2) return nullptr;
  for (const size_t s : {size_t{0}, size_t{1}}) {
    const TensorInfo &scores = outputs[s], &boxes = outputs[1 - s];
    if (!declared(scores, {kAnySize, kAnySize}) || !declared(boxes, {kAnySize, 4})) continue;
    const int64_t all = scores.dims[2];
    if (scores.dims[1] != boxes.dims[1] || all < 2 || all > kMostClasses) continue;
    const bool names = scores.name == "scores" && boxes.name == "boxes";
    const bool named = names || (wishes.kind == DecoderKind::UltraFace && all != 4); // of 4 only names can tell
    const bool fits = all == 2 && scores.dims[1] == static_cast<int64_t>(ultraFacePriors(input).size());
    if (!named && !fits) continue;
    auto decoder = std::make_unique<UltraFaceDecoder>();
    decoder->scores_ = OutputSlot(s, scores);
    decoder->boxes_ = OutputSlot(1 - s, boxes);
    decoder->first_label_ = firstLabel(all, wishes);
    decoder->classes_ = static_cast<int>(all) - 1 + decoder->first_label_;
    const bool faces = decoder->classes_ == 1;
    decoder->defaults_ = {.preprocess = {.normalisation = evenNormalisation(127, 1 / 128.0f)},
                          .threshold = faces ? 0.7f : 0.5f,
                          .iou_threshold = faces ? 0.3f : 0.45f,
                          .labels = {}};
    if (faces) decoder->defaults_.labels = {"face"};
    return decoder;
  }
  return nullptr;
}

Result<Findings> UltraFaceDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto scores = scores_.read(outputs);
  if (!scores) return scores.error();
  const auto boxes = boxes_.read(outputs);
  if (!boxes) return boxes.error();
  if (boxes->dim(1) != scores->dim(1))
    return boxes_.unexpected(*boxes, std::to_string(scores->dim(1)) + " rows, as many as there are scores");
  Candidates candidates(options.threshold);
  const size_t all = scores->dim(2);
  offerObjects(scores->numbers, {scores->dim(1), all, 1, all - 1, ScoreForm::Probabilities, first_label_},
               options.threshold, candidates);
  Findings findings;
  boxes->numbers.with([&](const auto &at) {
    findings.detections = makeDetections(std::move(candidates), options, [&](size_t row, Detection &object) {
      object.left = at(row * 4);
      object.top = at(row * 4 + 1);
      object.right = at(row * 4 + 2);
      object.bottom = at(row * 4 + 3);
    });
  });
  return findings;
}

} // namespace gstzc::infer
