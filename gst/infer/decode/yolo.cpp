// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yolo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gstzc::infer {
namespace {

constexpr int kAnchorsPerCell = 3; // of YOLOv5

// Whether there are `each` rows for each cell of one of the families' sets of grids.
bool isGrid(const InputPlan &input, int64_t rows, int each) {
  constexpr std::array<int, 5> strides = {4, 8, 16, 32, 64};
  const auto fits = [&](size_t first, size_t count) {
    return rows == each * gridCells(input, std::span<const int>(strides).subspan(first, count));
  };
  return rows > 0 && (fits(1, 3) || fits(0, 4) || fits(1, 4));
}

// The numbers of the objects in a tensor: those of a row and those of all rows may lie at any distance.
template <typename At> struct Table {
  const At &at;
  size_t row_step, number_step;
  float operator()(size_t row, int number) const {
    return at(row * row_step + static_cast<size_t>(number) * number_step);
  }
};

// The best class of each row where a number of all rows lies together: class by class, over as many rows as stay in the
// cache.
template <typename At>
void scanColumns(const At &at, size_t rows, const ObjectLayout &layout, float threshold, Candidates &candidates) {
  constexpr size_t block = 1024;
  std::array<float, block> best;
  std::array<int, block> label;
  const float below = std::nextafter(threshold, -std::numeric_limits<float>::infinity());
  for (size_t first = 0; first < rows; first += block) {
    const size_t count = std::min(block, rows - first);
    std::fill_n(best.begin(), count, below);
    std::fill_n(label.begin(), count, -1);
    for (int c = 0; c < layout.classes; ++c) {
      const size_t begin = static_cast<size_t>(layout.box + c) * rows + first;
      for (size_t i = 0; i < count; ++i) {
        const float score = at(begin + i);
        const bool better = score > best[i];
        best[i] = better ? score : best[i];
        label[i] = better ? c : label[i];
      }
    }
    for (size_t i = 0; i < count; ++i)
      if (label[i] >= 0) candidates.offer(best[i], label[i], first + i);
  }
}

// Candidates to objects; `box(row, object)` fills in the corners.
template <typename At, typename Box>
Findings detect(Candidates &&candidates, const DecodeOptions &options, const Table<At> &table,
                const ObjectLayout &layout, const PictureSize &size, const TensorView *prototypes, const Box &box,
                Suppression suppression) {
  const auto whole = [&](size_t row, Detection &object) {
    box(row, object);
    readKeypoints(layout, size, [&](int n) { return table(row, n); }, object.keypoints);
  };
  std::vector<float> coefficients;
  const auto mask = [&](size_t row, Detection &object) {
    object.mask = readMask(layout, *prototypes, [&](int n) { return table(row, n); }, object, coefficients);
  };
  Findings findings;
  findings.detections = makeDetections(std::move(candidates), options, whole,
                                       prototypes != nullptr ? FinishRow(mask) : FinishRow(), suppression);
  return findings;
}

} // namespace

void YoloDecoder::use(const HeadOutputs &head, const ObjectLayout &layout, const InputPlan &input) {
  head_ = head;
  layout_ = layout;
  size_ = PictureSize(input);
  defaults_ = yoloDefaults();
}

const char *YoloV5Decoder::expected() {
  return "one output [1,N,5+classes] with N = 3 anchors for each cell of the grids of strides 8, 16 and 32 (25200 for "
         "640x640) or, since it is asked for by name, any N";
}

std::unique_ptr<Decoder> YoloV5Decoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                              const std::vector<TensorInfo> &outputs) {
  const auto head = findHead(input, outputs);
  if (!head) return nullptr;
  const std::vector<int64_t> &dims = head->objects.info().dims;
  const bool named = wishes.kind == DecoderKind::YoloV5;
  if (!named && !isGrid(input, dims[1], kAnchorsPerCell)) return nullptr;
  const auto layout = layoutOf(dims[2], 5, {}, head->coefficients, wishes);
  if (!layout) return nullptr;
  auto decoder = std::make_unique<YoloV5Decoder>();
  decoder->use(*head, *layout, input);
  return decoder;
}

Result<Findings> YoloV5Decoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = head_.objects.read(outputs);
  if (!tensor) return tensor.error();
  const auto prototypes = head_.readPrototypes(outputs);
  if (!prototypes) return prototypes.error();
  return tensor->numbers.with([&](const auto &at) {
    const Table<std::decay_t<decltype(at)>> table{at, static_cast<size_t>(layout_.size()), 1};
    Candidates candidates(options.threshold);
    scanRows(at, tensor->dim(1), layout_, options.threshold, [&](size_t row) { return table(row, 4); }, candidates);
    const auto box = [&](size_t row, Detection &object) {
      size_.setCentred(object, table(row, 0), table(row, 1), table(row, 2), table(row, 3));
    };
    return detect(std::move(candidates), options, table, layout_, size_, *prototypes, box, Suppression::PerClass);
  });
}

const char *YoloV8Decoder::expected() {
  return "an output [1,4+classes,N] with N = the cells of the grids of strides 8, 16 and 32 (8400 for 640x640), or "
         "[1,N,4+classes] where the number of classes is known; for poses with keypoints after the classes, whose "
         "number is known; for instance masks with coefficients after them and prototypes [1,P,height/4,width/4]";
}

std::unique_ptr<Decoder> YoloV8Decoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                              const std::vector<TensorInfo> &outputs) {
  const auto head = findHead(input, outputs);
  if (!head) return nullptr;
  const std::vector<int64_t> &dims = head->objects.info().dims;
  const bool named = wishes.kind == DecoderKind::YoloV8;
  const auto layout = [&](int64_t numbers) { return layoutOf(numbers, 4, {}, head->coefficients, wishes); };
  auto decoder = std::make_unique<YoloV8Decoder>();
  if (isGrid(input, dims[2], 1) || (named && dims[2] < 0)) {
    const auto found = layout(dims[1]);
    if (!found) return nullptr;
    decoder->use(*head, *found, input);
  } else if (isGrid(input, dims[1], 1) || (named && dims[1] < 0)) {
    const auto found = layout(dims[2]);
    if (!found) return nullptr;
    const bool known = wishes.classes > 0 || found->classes == kCocoClasses || head->prototypes;
    if (!named && !known) return nullptr;
    decoder->use(*head, *found, input);
    decoder->rows_ = true;
  } else {
    return nullptr;
  }
  return decoder;
}

Result<Findings> YoloV8Decoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = head_.objects.read(outputs);
  if (!tensor) return tensor.error();
  const auto prototypes = head_.readPrototypes(outputs);
  if (!prototypes) return prototypes.error();
  return tensor->numbers.with([&](const auto &at) {
    const size_t rows = tensor->dim(rows_ ? 1 : 2), numbers = tensor->dim(rows_ ? 2 : 1);
    const Table<std::decay_t<decltype(at)>> table{at, rows_ ? numbers : 1, rows_ ? 1 : rows};
    Candidates candidates(options.threshold);
    if (rows_)
      scanRows(at, rows, layout_, -1, [](size_t) { return 1.0f; }, candidates);
    else
      scanColumns(at, rows, layout_, options.threshold, candidates);
    const auto box = [&](size_t row, Detection &object) {
      size_.setCentred(object, table(row, 0), table(row, 1), table(row, 2), table(row, 3));
    };
    return detect(std::move(candidates), options, table, layout_, size_, *prototypes, box, Suppression::PerClass);
  });
}

const char *YoloV10Decoder::expected() {
  return "an output [1,N,6] of at most 1000 objects: left, top, right, bottom, score, class (then keypoints, whose "
         "number is known, or coefficients of masks with prototypes [1,P,height/4,width/4])";
}

std::unique_ptr<Decoder> YoloV10Decoder::match(const DecoderWishes &wishes, const InputPlan &input,
                                               const std::vector<TensorInfo> &outputs) {
  const auto head = findHead(input, outputs);
  if (!head) return nullptr;
  const std::vector<int64_t> &dims = head->objects.info().dims;
  if (wishes.kind != DecoderKind::YoloV10) {
    const bool grid = isGrid(input, dims[1], 1) || isGrid(input, dims[1], kAnchorsPerCell);
    if (dims[1] < 1 || dims[1] > kMostObjects || grid) return nullptr;
  }
  const auto layout = layoutOf(dims[2], 6, 0, head->coefficients, wishes);
  if (!layout) return nullptr;
  auto decoder = std::make_unique<YoloV10Decoder>();
  decoder->use(*head, *layout, input);
  return decoder;
}

Result<Findings> YoloV10Decoder::decode(const Outputs &outputs, const DecodeOptions &options) const {
  const auto tensor = head_.objects.read(outputs);
  if (!tensor) return tensor.error();
  const auto prototypes = head_.readPrototypes(outputs);
  if (!prototypes) return prototypes.error();
  return tensor->numbers.with([&](const auto &at) {
    const Table<std::decay_t<decltype(at)>> table{at, static_cast<size_t>(layout_.size()), 1};
    Candidates candidates(options.threshold);
    for (size_t row = 0; row < tensor->dim(1); ++row)
      if (const auto label = classIndex(table(row, 5))) candidates.offer(table(row, 4), *label, row);
    const auto box = [&](size_t row, Detection &object) {
      object.left = table(row, 0) / size_.width;
      object.top = table(row, 1) / size_.height;
      object.right = table(row, 2) / size_.width;
      object.bottom = table(row, 3) / size_.height;
    };
    return detect(std::move(candidates), options, table, layout_, size_, *prototypes, box, Suppression::None);
  });
}

} // namespace gstzc::infer
