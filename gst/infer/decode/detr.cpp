// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/detr.h"

#include <algorithm>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/grids.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

constexpr int64_t kQueriesWithNoObject = 100, kMostQueries = 1000;
constexpr int kBox = 4;
constexpr int64_t kAsYoloV10 = 2; // classes with which the joined tensor has the shape of a YOLOv10 head

FamilyDefaults detrDefaults(bool image_net) {
  return {.preprocess = {.normalisation = image_net ? imageNetNormalisation() : evenNormalisation(0, 1 / 255.0f)},
          .threshold = 0.5f,
          .iou_threshold = 0.5f,
          .labels = {}};
}

bool isOne(const std::string &name, std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(), [&](const char *n) { return name == n; });
}

} // namespace

const char *DetrDecoder::expected() {
  return "outputs called logits or pred_logits [1,Q,classes (+1)] and pred_boxes or boxes [1,Q,4], or labels and dets; "
         "or one [1,Q,4+classes] of at most 1000 queries where the number of classes is known";
}

std::unique_ptr<Decoder> DetrDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                            const std::vector<TensorInfo> &outputs) {
  const bool named = wishes.kind == DecoderKind::Detr;
  auto decoder = std::make_unique<DetrDecoder>();
  if (outputs.size() == 1 && declared(outputs[0], {kAnySize, kAnySize})) {
    const int64_t queries = outputs[0].dims[1], classes = outputs[0].dims[2] - kBox;
    if (classes < 1 || classes > kMostClasses || (wishes.classes > 0 && classes != wishes.classes)) return nullptr;
    const bool known = wishes.classes > 0 && wishes.keypoints <= 0 && queries > 0 && queries <= kMostQueries &&
                       queries != gridCells(input) && classes != kAsYoloV10;
    if (!named && !known) return nullptr;
    decoder->joined_ = true;
    decoder->form_ = ScoreForm::Probabilities;
    decoder->classes_ = static_cast<int>(classes);
    decoder->scores_ = decoder->boxes_ = OutputSlot(0, outputs[0]);
    decoder->defaults_ = detrDefaults(false);
    return decoder;
  }
  std::optional<size_t> scores, boxes;
  bool rf = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string &name = outputs[i].name;
    if (!declared(outputs[i], {kAnySize, kAnySize})) continue;
    if (isOne(name, {"logits", "pred_logits", "labels"})) scores = i;
    if (isOne(name, {"pred_boxes", "boxes", "dets"})) boxes = i;
    rf = rf || name == "dets";
  }
  // asked for by name, two outputs are told apart by their shapes as long as one cannot be the other
  if (named && (!scores || !boxes) && outputs.size() == 2) {
    for (const size_t b : {size_t{0}, size_t{1}}) {
      if (!declared(outputs[b], {kAnySize, kBox}) || !declared(outputs[1 - b], {kAnySize, kAnySize}) ||
          outputs[1 - b].dims[2] == kBox)
        continue;
      boxes = b;
      scores = 1 - b;
    }
  }
  if (!scores || !boxes || !declared(outputs[*boxes], {kAnySize, kBox})) return nullptr;
  const int64_t queries = outputs[*scores].dims[1], all = outputs[*scores].dims[2];
  if (queries != outputs[*boxes].dims[1] || all < 1 || all > kMostClasses) return nullptr;
  bool one_more = queries == kQueriesWithNoObject && !rf;
  if (wishes.classes > 0) {
    if (all != wishes.classes && all != wishes.classes + 1) return nullptr;
    one_more = all == wishes.classes + 1;
  }
  if (one_more && all < 2) return nullptr;
  const bool no_object = one_more && !rf; // RF-DETR's last one is not trained
  decoder->form_ = no_object ? ScoreForm::Softmax : ScoreForm::Sigmoid;
  decoder->classes_ = static_cast<int>(all) - (one_more ? 1 : 0);
  decoder->scores_ = OutputSlot(*scores, outputs[*scores]);
  decoder->boxes_ = OutputSlot(*boxes, outputs[*boxes]);
  decoder->defaults_ = detrDefaults(no_object || rf);
  return decoder;
}

Result<Findings> DetrDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto scores = scores_.read(outputs);
  if (!scores) return scores.error();
  const auto boxes = boxes_.read(outputs);
  if (!boxes) return boxes.error();
  const size_t queries = scores->dim(1), size = boxes->dim(2);
  if (boxes->dim(1) != queries)
    return boxes_.unexpected(*boxes, std::to_string(queries) + " rows, as many as there are scores");
  Candidates candidates(options.threshold);
  const size_t first = joined_ ? kBox : 0;
  offerObjects(scores->numbers, {queries, scores->dim(2), first, static_cast<size_t>(classes_), form_, 0},
               options.threshold, candidates);
  const auto box = [&](size_t row, Detection &object) {
    const auto b = [&](size_t n) { return boxes->numbers[row * size + n]; };
    object.left = b(0) - b(2) / 2;
    object.top = b(1) - b(3) / 2;
    object.right = b(0) + b(2) / 2;
    object.bottom = b(1) + b(3) / 2;
  };
  Findings findings;
  findings.detections = makeDetections(std::move(candidates), options, box, {}, Suppression::None);
  return findings;
}

} // namespace gstzc::infer
