// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/ssd.h"

#include <array>
#include <cmath>

#include "gst/infer/decode/candidates.h"
#include "gst/infer/decode/class_scores.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

constexpr float kCentreVariance = 0.1f, kSizeVariance = 0.2f;
constexpr int64_t kMostRows = 1 << 20;

bool contains(const TensorInfo &info, const char *part) { return info.name.find(part) != std::string::npos; }

bool namedPriors(const TensorInfo &info) { return contains(info, "prior") || contains(info, "anchor"); }

// How many rows of priors an output has; 0 where it has none.
int64_t priorRows(const TensorInfo &info) {
  if (!isFloat(info.type)) return 0;
  const std::vector<int64_t> &dims = info.dims;
  if (declared(info, {2, kAnySize}) && dims[2] % 4 == 0) return dims[2] / 4;
  if (!namedPriors(info)) return 0;
  if (declared(info, {kAnySize, 4})) return dims[1];
  return dims.size() == 2 && dims[1] == 4 ? dims[0] : 0;
}

bool tensorFlowNames(const TensorInfo &boxes, const TensorInfo &scores) {
  return contains(boxes, "box_encodings") || contains(scores, "class_predictions") ||
         contains(scores, "convert_scores");
}

// The set that has `rows` boxes for the input; empty where none has.
std::vector<Prior> makePriors(const DecoderWishes &wishes, const InputPlan &input, int64_t rows, bool tensor_flow) {
  std::vector<std::vector<Prior>> sets;
  if (tensor_flow) sets.push_back(tensorFlowPriors(input));
  if (!tensor_flow) sets.push_back(mobileNetPriors(input));
  sets.push_back(vggPriors(input));
  // what is called the same with boxes that are decoded already is more common
  if (wishes.kind == DecoderKind::Ssd) sets.push_back(ultraFacePriors(input));
  for (std::vector<Prior> &set : sets)
    if (static_cast<int64_t>(set.size()) == rows) return std::move(set);
  return {};
}

} // namespace

const char *SsdDecoder::expected() {
  return "boxes [1,N,4] relative to priors, scores [1,N,1+classes] with the background first, and either an output "
         "with "
         "the priors ([1,2,4N], or [1,N,4] with \"prior\" or \"anchor\" in its name) or an N whose priors are known "
         "for the "
         "input: 1917 (MobileNet) and 8732 (VGG) for 300x300, TensorFlow's 1917 for 300x300 and 2034 for 320x320, and, "
         "only where decoder=ssd is set, 4420 of RFB for 320x240";
}

std::unique_ptr<Decoder> SsdDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                           const std::vector<TensorInfo> &outputs) {
  if (outputs.size() < 2 || outputs.size() > 3) return nullptr;
  auto decoder = std::make_unique<SsdDecoder>();
  int64_t rows = 0;
  if (outputs.size() == 3) {
    for (size_t i = 0; i < outputs.size() && rows == 0; ++i) {
      rows = priorRows(outputs[i]);
      if (rows <= 0) continue;
      const bool corners = declared(outputs[i], {2, kAnySize});
      decoder->form_ = corners ? PriorForm::Corners : PriorForm::Centres;
      decoder->priors_.emplace(i, outputs[i], outputs[i].dims.size() == 3);
    }
    if (rows <= 0) return nullptr;
  }
  std::optional<size_t> boxes, scores;
  int64_t all = 0;
  const auto isBoxes = [&](const TensorInfo &info) {
    return (declared(info, {kAnySize, 4}) && (rows == 0 || info.dims[1] == rows)) ||
           (rows > 0 && declared(info, {rows * 4}));
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (decoder->priors_ && decoder->priors_->index() == i) continue;
    const TensorInfo &info = outputs[i];
    if (!boxes && isBoxes(info))
      boxes = i;
    else
      scores = i;
  }
  if (!boxes || !scores) return nullptr;
  // with three classes and the background both tensors have the same shape: then only names tell
  if (isBoxes(outputs[*scores])) {
    const auto named = [&](size_t i) { return contains(outputs[i], "loc") || contains(outputs[i], "box"); };
    if (named(*boxes) == named(*scores)) return nullptr;
    if (named(*scores)) std::swap(*boxes, *scores);
  }
  const TensorInfo &b = outputs[*boxes], &s = outputs[*scores];
  if (rows == 0) rows = b.dims[1];
  if (rows < 1 || rows > kMostRows) return nullptr;
  if (declared(s, {rows, kAnySize}))
    all = s.dims[2];
  else if (declared(s, {kAnySize}) && s.dims[1] > 0 && s.dims[1] % rows == 0)
    all = s.dims[1] / rows;
  if (all < 2 || all > kMostClasses) return nullptr;
  decoder->tensor_flow_ = input.layout == TensorLayout::Nhwc || tensorFlowNames(b, s);
  if (!decoder->priors_) {
    // what is called like this has commonly been decoded in the model, see UltraFaceDecoder
    if (wishes.kind != DecoderKind::Ssd && b.name == "boxes" && s.name == "scores") return nullptr;
    decoder->made_ = makePriors(wishes, input, rows, decoder->tensor_flow_);
    if (decoder->made_.empty()) return nullptr;
  }
  decoder->boxes_ = OutputSlot(*boxes, b);
  decoder->scores_ = OutputSlot(*scores, s);
  decoder->rows_ = static_cast<size_t>(rows);
  decoder->first_label_ = firstLabel(all, wishes);
  decoder->classes_ = static_cast<int>(all) - 1 + decoder->first_label_;
  decoder->defaults_ = {.preprocess = {.normalisation = evenNormalisation(127.5f, 1 / 127.5f)},
                        .threshold = 0.5f,
                        .iou_threshold = 0.45f,
                        .labels = {}};
  return decoder;
}

Result<Findings> SsdDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto boxes = boxes_.read(outputs);
  if (!boxes) return boxes.error();
  const auto scores = scores_.read(outputs);
  if (!scores) return scores.error();
  OutputTensor priors;
  if (priors_) {
    const auto tensor = priors_->read(outputs);
    if (!tensor) return tensor.error();
    priors = *tensor;
  }

  // by x and y: 0, 1
  const std::array<size_t, 2> axis = tensor_flow_ ? std::array<size_t, 2>{1, 0} : std::array<size_t, 2>{0, 1};
  std::array<float, 4> variances = {kCentreVariance, kCentreVariance, kSizeVariance, kSizeVariance};
  const auto priorOf = [&](size_t row) -> Prior {
    const auto p = [&](size_t n) { return priors.numbers[row * 4 + n]; };
    switch (form_) {
    case PriorForm::Made: break;
    case PriorForm::Centres: return {p(axis[0]), p(axis[1]), p(2 + axis[0]), p(2 + axis[1])};
    case PriorForm::Corners:
      for (size_t n = 0; n < 4; ++n) variances[n] = priors.numbers[(rows_ + row) * 4 + n];
      return {(p(0) + p(2)) / 2, (p(1) + p(3)) / 2, p(2) - p(0), p(3) - p(1)};
    }
    return made_[row];
  };
  const auto box = [&](size_t row, Detection &object) {
    const Prior prior = priorOf(row);
    const auto b = [&](size_t n) { return boxes->numbers[row * 4 + n]; };
    const float cx = prior.cx + variances[axis[0]] * b(axis[0]) * prior.width;
    const float cy = prior.cy + variances[axis[1]] * b(axis[1]) * prior.height;
    const float w = prior.width * std::exp(variances[2 + axis[0]] * b(2 + axis[0]));
    const float h = prior.height * std::exp(variances[2 + axis[1]] * b(2 + axis[1]));
    object.left = cx - w / 2;
    object.top = cy - h / 2;
    object.right = cx + w / 2;
    object.bottom = cy + h / 2;
  };
  Candidates candidates(options.threshold);
  const ScoreForm form = areProbabilities(scores->numbers) ? ScoreForm::Probabilities
                         : tensor_flow_                    ? ScoreForm::Sigmoid
                                                           : ScoreForm::Softmax;
  const size_t all = scores->numbers.size() / rows_;
  offerObjects(scores->numbers, {rows_, all, 1, all - 1, form, first_label_}, options.threshold, candidates);
  Findings findings;
  findings.detections = makeDetections(std::move(candidates), options, box);
  return findings;
}

} // namespace gstzc::infer
