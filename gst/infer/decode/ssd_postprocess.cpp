// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ssd_postprocess.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

enum Role : size_t { Boxes, Classes, Scores, Count, Roles };

// Index of the output of each role.
using Outs = std::array<std::optional<size_t>, Roles>;

// Whatever scopes stand before it ("model/…") and the number of an operation's output after it; a "raw_…" is another.
bool isCalled(std::string_view name, std::string_view wanted) {
  if (name.ends_with(":0")) name.remove_suffix(2);
  if (!name.ends_with(wanted)) return false;
  name.remove_suffix(wanted.size());
  return name.empty() || name.ends_with('/');
}

Outs byNames(const std::vector<TensorInfo> &outputs, const std::array<std::string_view, Roles> &names) {
  Outs outs;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t role = 0; role < Roles; ++role)
      if (!outs[role] && isCalled(outputs[i].name, names[role])) outs[role] = i;
  return outs;
}

bool isList(const TensorInfo &info) { return info.dims.size() == 2 && Numbers::readable(info.type); }

bool isCount(const TensorInfo &info) {
  const std::vector<int64_t> &dims = info.dims;
  return Numbers::readable(info.type) && (dims.size() == 1 || (dims.size() == 2 && dims[1] == 1));
}

bool integers(const TensorInfo &info) { return info.type == TensorType::Int32 || info.type == TensorType::Int64; }

Outs byShapes(const std::vector<TensorInfo> &outputs) {
  Outs outs;
  if (outputs.size() != Roles) return outs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TensorInfo &info = outputs[i];
    const bool classes =
        integers(info) || info.name.find("class") != std::string::npos || info.name.find("label") != std::string::npos;
    const Role role = declared(info, {kAnySize, 4}) ? Boxes : isCount(info) ? Count : classes ? Classes : Scores;
    if (outs[role]) return {};
    outs[role] = i;
  }
  return outs;
}

bool complete(const Outs &outs) { return outs[Boxes] && outs[Classes] && outs[Scores]; }

} // namespace

const char *SsdPostprocessDecoder::expected() {
  return "outputs called detection_boxes [1,N,4], detection_classes [1,N], detection_scores [1,N] and num_detections "
         "[1], or TFLite_Detection_PostProcess to …:3; or any four of these shapes with the classes as integers";
}

std::unique_ptr<Decoder> SsdPostprocessDecoder::match(const DecoderWishes &, const InputPlan &,
                                                      const std::vector<TensorInfo> &outputs) {
  auto decoder = std::make_unique<SsdPostprocessDecoder>();
  Outs outs = byNames(outputs, {"detection_boxes", "detection_classes", "detection_scores", "num_detections"});
  if (complete(outs))
    decoder->first_class_ = 1;
  else
    outs = byNames(outputs, {"TFLite_Detection_PostProcess", "TFLite_Detection_PostProcess:1",
                             "TFLite_Detection_PostProcess:2", "TFLite_Detection_PostProcess:3"});
  if (!complete(outs)) outs = byShapes(outputs);
  if (!complete(outs)) return nullptr;
  const TensorInfo &boxes = outputs[*outs[Boxes]], &classes = outputs[*outs[Classes]], &scores = outputs[*outs[Scores]];
  if (!declared(boxes, {kAnySize, 4}) || !isList(classes) || !isList(scores) || integers(scores)) return nullptr;
  if (classes.dims[1] != scores.dims[1] || (boxes.dims[1] != scores.dims[1] && boxes.dims[1] >= 0)) return nullptr;
  if (outs[Count] && !isCount(outputs[*outs[Count]])) return nullptr;
  decoder->boxes_ = OutputSlot(*outs[Boxes], boxes);
  decoder->classes_ = OutputSlot(*outs[Classes], classes);
  decoder->scores_ = OutputSlot(*outs[Scores], scores);
  if (outs[Count]) decoder->count_.emplace(*outs[Count], outputs[*outs[Count]]);
  decoder->defaults_ = {.preprocess = {.normalisation = evenNormalisation(127.5f, 1 / 127.5f)},
                        .threshold = 0.5f,
                        .iou_threshold = 0.45f,
                        .labels = {}};
  return decoder;
}

Result<Findings> SsdPostprocessDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto boxes = boxes_.read(outputs);
  if (!boxes) return boxes.error();
  const auto classes = classes_.read(outputs);
  if (!classes) return classes.error();
  const auto scores = scores_.read(outputs);
  if (!scores) return scores.error();
  size_t rows = boxes->dim(1);
  const std::string expected = std::to_string(rows) + " numbers, as many as there are boxes";
  if (classes->dim(1) != rows) return classes_.unexpected(*classes, expected);
  if (scores->dim(1) != rows) return scores_.unexpected(*scores, expected);
  if (count_) {
    const auto count = count_->read(outputs);
    if (!count) return count.error();
    if (count->numbers.size() < 1) return count_->unexpected(*count, "one number");
    const float valid = count->numbers[0];
    if (!(valid >= 0)) // nor where it is not a number
      rows = 0;
    else if (valid < static_cast<float>(rows))
      rows = static_cast<size_t>(valid);
  }
  Candidates candidates(options.threshold);
  for (size_t row = 0; row < rows; ++row) {
    const auto label = classIndex(classes->numbers[row]);
    if (label && *label >= first_class_) candidates.offer(scores->numbers[row], *label - first_class_, row);
  }
  const auto box = [&](size_t row, Detection &object) {
    object.top = boxes->numbers[row * 4];
    object.left = boxes->numbers[row * 4 + 1];
    object.bottom = boxes->numbers[row * 4 + 2];
    object.right = boxes->numbers[row * 4 + 3];
  };
  Findings findings;
  findings.detections = makeDetections(std::move(candidates), options, box, {}, Suppression::None);
  return findings;
}

} // namespace gstzc::infer
