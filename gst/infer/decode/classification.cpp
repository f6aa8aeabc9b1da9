// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/classification.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gst/infer/decode/half.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

constexpr int64_t kMaxClasses = 1 << 20;
constexpr double kSumSlack = 0.01; // what a thousand rounded half-precision scores may miss 1 by
// So many logits hardly ever all lie in 0..1: they are what a sigmoid gives for each.
constexpr size_t kFewClasses = 16;

// Where the classes are among the dimensions, 0 where the shape is another.
size_t classDimension(const std::vector<int64_t> &dims) {
  if (dims.size() == 2) return 1;
  if (dims.size() != 4) return 0;
  if (dims[2] == 1 && dims[3] == 1) return 1;
  return dims[1] == 1 && dims[2] == 1 ? 3 : 0;
}

std::vector<float> scoresOf(const TensorView &view, size_t count) {
  std::vector<float> scores(count);
  if (view.type == TensorType::UInt8) {
    const uint8_t *const bytes = static_cast<const uint8_t *>(view.data);
    std::transform(bytes, bytes + count, scores.begin(), [](uint8_t byte) { return static_cast<float>(byte) / 255; });
    return scores;
  }
  readFloats(view, 0, count, scores.data());
  bool probabilities = true;
  double sum = 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (const float score : scores) {
    if (!std::isfinite(score)) continue;
    probabilities = probabilities && score >= 0 && score <= 1;
    sum += score;
    highest = std::max(highest, score);
  }
  if (probabilities && (std::abs(sum - 1) <= kSumSlack || count >= kFewClasses)) return scores;
  // relative to the highest, so that no exponential overflows
  sum = 0;
  for (float &score : scores) {
    if (!std::isfinite(score)) continue;
    score = std::exp(score - highest);
    sum += score;
  }
  for (float &score : scores) score = static_cast<float>(score / sum);
  return scores;
}

} // namespace

const char *ClassificationDecoder::expected() {
  return "one output [1,C], [1,C,1,1] or [1,1,1,C] of float32, float16 or uint8 with C classes, 2 or more, and as many "
         "labels as classes if there are labels";
}

std::unique_ptr<Decoder> ClassificationDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                                      const std::vector<TensorInfo> &outputs) {
  if (outputs.size() != 1) return nullptr;
  const TensorInfo &output = outputs[0];
  const std::vector<int64_t> &dims = output.dims;
  if (!isFloat(output.type) && output.type != TensorType::UInt8) return nullptr;
  const size_t at = classDimension(dims);
  if (at == 0 || !(dims[0] < 0 || dims[0] == 1 || dims[0] == input.batch)) return nullptr;
  const int64_t classes = dims[at];
  const bool named = wishes.kind == DecoderKind::Classification;
  if (classes >= 0 ? classes < 2 || classes > kMaxClasses : !named) return nullptr;
  if (!named && wishes.classes > 0 && wishes.classes != classes) return nullptr;
  if (!named && wishes.classes == 0 && dims[0] < 0 && classes <= 7) return nullptr;

  auto decoder = std::make_unique<ClassificationDecoder>();
  decoder->output_ = OutputSlot(0, output);
  decoder->classes_ = static_cast<int>(std::max<int64_t>(classes, 0));
  decoder->defaults_ = {.preprocess = {.resize = ResizeMode::Crop, .normalisation = commonNormalisation(input)},
                        .threshold = 0.1f};
  return decoder;
}

Result<Findings> ClassificationDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = output_.read(outputs);
  if (!tensor) return tensor.error();
  Findings findings;
  const std::vector<float> scores = scoresOf(outputs.tensors[output_.index()], tensor->numbers.size());
  std::vector<Classification> &found = findings.classifications;
  for (size_t i = 0; i < scores.size(); ++i)
    if (std::isfinite(scores[i]) && scores[i] >= options.threshold) found.push_back({scores[i], static_cast<int>(i)});
  const size_t most = std::min(found.size(), static_cast<size_t>(std::max(options.max_detections, 0)));
  std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(most), found.end(),
                    [](const Classification &a, const Classification &b) {
                      return a.score != b.score ? a.score > b.score : a.label < b.label;
                    });
  found.resize(most);
  return findings;
}

} // namespace gstzc::infer
