// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/output_slot.h"

#include <algorithm>

namespace gstzc::infer {
namespace {

constexpr const char *kRemedy = "Export the model again, or take its tensors as they are with decoder=none";

std::string shown(const TensorView &view) {
  std::string text = std::string(tensorTypeName(view.type)) + " [";
  for (size_t i = 0; i < view.dims.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(view.dims[i]);
  return text + "]";
}

// Nothing where a size is negative or the bytes are too many to count.
std::optional<size_t> elements(const std::vector<int64_t> &dims, size_t bytes_each) {
  size_t count = 1;
  for (const int64_t dim : dims) {
    size_t bytes = 0;
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<size_t>(dim), &count) ||
        __builtin_mul_overflow(count, bytes_each, &bytes))
      return {};
  }
  return count;
}

} // namespace

bool declared(const TensorInfo &info, std::initializer_list<int64_t> rest) {
  if (info.type != TensorType::Float32 && info.type != TensorType::Float16) return false;
  if (info.dims.size() != rest.size() + 1) return false;
  return std::equal(rest.begin(), rest.end(), info.dims.begin() + 1,
                    [](int64_t wanted, int64_t dim) { return wanted == kAnySize || wanted == dim; });
}

int64_t gridCells(const InputPlan &input, std::span<const int> strides) {
  int64_t cells = 0;
  for (const int stride : strides) {
    if (input.width % stride != 0 || input.height % stride != 0) return 0;
    cells += int64_t{input.width / stride} * (input.height / stride);
  }
  return cells;
}

Result<OutputTensor> OutputSlot::read(const Outputs &outputs) const {
  if (index_ >= outputs.tensors.size())
    return Error{"the model gave " + std::to_string(outputs.tensors.size()) + " outputs, without " + info_.describe(),
                 0, kRemedy};
  const TensorView &view = outputs.tensors[index_];
  bool same = view.type == info_.type && view.dims.size() == info_.dims.size() && Numbers::readable(view.type) &&
              view.space == MemorySpace::Host;
  for (size_t i = 0; same && i < view.dims.size(); ++i) {
    const int64_t wanted = batched_ && i == 0 ? 1 : info_.dims[i];
    same = view.dims[i] == wanted || (wanted < 0 && view.dims[i] >= 0);
  }
  const auto count = elements(view.dims, tensorTypeSize(view.type));
  same = same && count && *count * tensorTypeSize(view.type) <= view.bytes && (*count == 0 || view.data != nullptr);
  if (!same)
    return Error{"the model gave " + shown(view) + " of " + std::to_string(view.bytes) + " bytes for its output " +
                     info_.describe(),
                 0, kRemedy};
  return OutputTensor{Numbers(view.type, view.data, *count), &view.dims};
}

Error OutputSlot::unexpected(const OutputTensor &tensor, const std::string &expected) const {
  std::string text;
  for (const int64_t dim : *tensor.dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return Error{"the model gave [" + text + "] for its output " + info_.describe() + ", which should be " + expected, 0,
               kRemedy};
}

} // namespace gstzc::infer
