// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/segmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "gst/infer/decode/half.h"
#include "gst/infer/decode/training.h"

namespace gstzc::infer {
namespace {

constexpr int64_t kMaxSide = 16384; // of the grid

// Which dimension is which; classes 0 where there is none.
struct Shape {
  size_t rows = 0, columns = 0, classes = 0;
};

// All readings of a shape, the likelier one first.
std::vector<Shape> readings(const TensorInfo &output, TensorLayout input) {
  const std::vector<int64_t> &dims = output.dims;
  if (dims.size() == 3) return {{1, 2, 0}};
  if (dims.size() != 4) return {};
  std::vector<Shape> shapes;
  const auto add = [&](size_t rows, size_t columns, size_t classes) {
    if (dims[classes] == 1)
      shapes.push_back({rows, columns, 0});
    else if (isFloat(output.type))
      shapes.push_back({rows, columns, classes});
  };
  if (input == TensorLayout::Nhwc) add(1, 2, 3);
  add(2, 3, 1);
  if (input == TensorLayout::Nchw) add(1, 2, 3);
  return shapes;
}

// Whether `count` places of an axis are one for every `step` pixels, however the model rounds at the edge.
bool divides(int64_t count, int pixels, int64_t step) {
  return count < 0 || (count >= pixels / step && count <= (pixels + step - 1) / step + 1);
}

bool dividesPicture(int64_t rows, int64_t columns, const InputPlan &input) {
  for (int64_t step = 1; step <= 8; ++step)
    if (divides(rows, input.height, step) && divides(columns, input.width, step)) return true;
  return false;
}

bool sideFits(int64_t side) { return side < 0 || (side >= 2 && side <= kMaxSide); }

// The highest of `classes` scores of each of `count` places. `scores` holds one place after the other.
void bestOfPixels(const float *scores, size_t count, size_t classes, uint8_t *out) {
  for (size_t i = 0; i < count; ++i, scores += classes) {
    float best = -std::numeric_limits<float>::infinity();
    uint8_t best_class = SegmentationDecoder::kNoClass;
    for (size_t c = 0; c < classes; ++c) {
      const bool better = scores[c] > best; // never where it is not a number
      best = better ? scores[c] : best;
      best_class = better ? static_cast<uint8_t>(c) : best_class;
    }
    out[i] = best_class;
  }
}

// Places that are looked at together, so that their best scores stay in the nearest cache.
constexpr size_t kBlock = 1024;

void bestOfPlanes(const TensorView &view, size_t places, size_t classes, uint8_t *out) {
  std::array<float, kBlock> best, scores = {};
  std::array<int32_t, kBlock> best_class; // as wide as the scores: the loop below becomes vector instructions
  for (size_t first = 0; first < places; first += kBlock) {
    const size_t count = std::min(kBlock, places - first);
    best.fill(-std::numeric_limits<float>::infinity());
    best_class.fill(SegmentationDecoder::kNoClass);
    for (size_t c = 0; c < classes; ++c) {
      readFloats(view, c * places + first, count, scores.data());
      for (size_t i = 0; i < kBlock; ++i) { // past `count` too: a length that the compiler knows
        const bool better = scores[i] > best[i];
        best[i] = better ? scores[i] : best[i];
        best_class[i] = better ? static_cast<int32_t>(c) : best_class[i];
      }
    }
    std::transform(best_class.begin(), best_class.begin() + static_cast<ptrdiff_t>(count), out + first,
                   [](int32_t c) { return static_cast<uint8_t>(c); });
  }
}

void bestOfPixels(const TensorView &view, size_t places, size_t classes, uint8_t *out) {
  if (view.type == TensorType::Float32) {
    bestOfPixels(static_cast<const float *>(view.data), places, classes, out);
    return;
  }
  std::vector<float> scores(kBlock * classes);
  for (size_t first = 0; first < places; first += kBlock) {
    const size_t count = std::min(kBlock, places - first);
    readFloats(view, first * classes, count * classes, scores.data());
    bestOfPixels(scores.data(), count, classes, out + first);
  }
}

template <typename T> void classesOf(const TensorView &view, std::vector<uint8_t> &out) {
  const T *const in = static_cast<const T *>(view.data);
  std::transform(in, in + out.size(), out.begin(), [](T value) {
    return value >= T{0} && value < T{SegmentationDecoder::kNoClass} ? static_cast<uint8_t>(value)
                                                                     : SegmentationDecoder::kNoClass;
  });
}

void classesOfFloats(const TensorView &view, float threshold, std::vector<uint8_t> &out) {
  std::vector<float> values(out.size());
  readFloats(view, 0, values.size(), values.data());
  bool whole = true, probabilities = true;
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    whole = whole && v == std::trunc(v);
    probabilities = probabilities && v >= 0 && v <= 1;
  }
  std::transform(values.begin(), values.end(), out.begin(), [&](float v) -> uint8_t {
    if (std::isnan(v)) return SegmentationDecoder::kNoClass;
    if (whole) return v >= 0 && v < SegmentationDecoder::kNoClass ? static_cast<uint8_t>(v) : uint8_t{255};
    return (probabilities ? v : sigmoid(v)) >= threshold ? 1 : 0;
  });
}

} // namespace

const char *SegmentationDecoder::expected() {
  return "scores [1,C,h,w] or [1,h,w,C] of float32 or float16 with 2 to 255 classes, or classes [1,h,w], [1,1,h,w] or "
         "[1,h,w,1] of int32, int64, uint8, float32 or float16; without being named, only with h and w as the input's "
         "or evenly down to an eighth of them, and no single floating point number for each place";
}

std::unique_ptr<Decoder> SegmentationDecoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                                    const std::vector<TensorInfo> &outputs) {
  if (outputs.empty()) return nullptr;
  const TensorInfo &output = outputs[0];
  const std::vector<int64_t> &dims = output.dims;
  const bool floats = isFloat(output.type), named = wishes.kind == DecoderKind::Segmentation;
  if (!floats && output.type != TensorType::Int64 && output.type != TensorType::Int32 &&
      output.type != TensorType::UInt8)
    return nullptr;
  if (dims.empty() || !(dims[0] < 0 || dims[0] == 1 || dims[0] == input.batch)) return nullptr;
  const bool alike = std::all_of(outputs.begin(), outputs.end(), [&](const TensorInfo &other) {
    return other.type == output.type && other.dims == dims;
  });
  if (!named && !alike) return nullptr;

  const auto possible = [&](const Shape &shape) {
    if (!sideFits(dims[shape.rows]) || !sideFits(dims[shape.columns])) return false;
    if (shape.classes == 0) return named || !floats;
    const int64_t classes = dims[shape.classes];
    if (classes < 2 || classes > kMaxClasses) return false;
    return named || classes == wishes.classes || (classes != input.channels && wishes.classes == 0);
  };
  std::vector<Shape> shapes = readings(output, input.layout);
  std::erase_if(shapes, [&](const Shape &shape) { return !possible(shape); });
  auto found = std::find_if(shapes.begin(), shapes.end(), [&](const Shape &shape) {
    return dividesPicture(dims[shape.rows], dims[shape.columns], input);
  });
  if (found == shapes.end() && named) found = shapes.begin();
  if (found == shapes.end()) return nullptr;

  auto decoder = std::make_unique<SegmentationDecoder>();
  decoder->output_ = OutputSlot(0, output);
  decoder->row_dim_ = found->rows;
  decoder->column_dim_ = found->columns;
  decoder->class_dim_ = found->classes;
  decoder->classes_ = found->classes > 0 ? static_cast<int>(dims[found->classes]) : 0;
  decoder->defaults_ = {.preprocess = {.resize = ResizeMode::Stretch, .normalisation = commonNormalisation(input)},
                        .threshold = 0.5f};
  return decoder;
}

Result<Findings> SegmentationDecoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = output_.read(outputs);
  if (!tensor) return tensor.error();
  const size_t rows = tensor->dim(row_dim_), columns = tensor->dim(column_dim_), most = static_cast<size_t>(kMaxSide);
  if (tensor->numbers.size() == 0 || rows > most || columns > most)
    return output_.unexpected(*tensor, "a map of 1 to " + std::to_string(most) + " places a side");
  const TensorView &view = outputs.tensors[output_.index()];
  ClassMap map;
  map.width = static_cast<int>(columns);
  map.height = static_cast<int>(rows);
  map.classes.resize(rows * columns);
  const size_t places = map.classes.size(), classes = static_cast<size_t>(classes_);
  if (class_dim_ == 1)
    bestOfPlanes(view, places, classes, map.classes.data());
  else if (class_dim_ == 3)
    bestOfPixels(view, places, classes, map.classes.data());
  else if (view.type == TensorType::Int64)
    classesOf<int64_t>(view, map.classes);
  else if (view.type == TensorType::Int32)
    classesOf<int32_t>(view, map.classes);
  else if (view.type == TensorType::UInt8)
    classesOf<uint8_t>(view, map.classes);
  else
    classesOfFloats(view, options.threshold, map.classes);
  Findings findings;
  findings.segmentation = std::move(map);
  return findings;
}

} // namespace gstzc::infer
