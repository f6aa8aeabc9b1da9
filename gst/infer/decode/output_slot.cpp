// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/output_slot.h"

#include <algorithm>

namespace gstzc::infer {
namespace {

constexpr const char *kRemedy = "Export the model again, or take its tensors as they are with decoder=none";

} // namespace

bool declared(const TensorInfo &info, std::initializer_list<int64_t> rest) {
  if (!isFloat(info.type) || info.dims.size() != rest.size() + 1) return false;
  return std::equal(rest.begin(), rest.end(), info.dims.begin() + 1,
                    [](int64_t wanted, int64_t dim) { return wanted == kAnySize || wanted == dim; });
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
  const auto bytes = tensorBytes(view.type, view.dims);
  same = same && bytes && *bytes <= view.bytes && (*bytes == 0 || view.data != nullptr);
  if (!same)
    return Error{"the model gave " + describeTensor(view.type, view.dims) + " of " + std::to_string(view.bytes) +
                     " bytes for its output " + info_.describe(),
                 0, kRemedy};
  return OutputTensor{Numbers(view.type, view.data, *bytes / tensorTypeSize(view.type)), &view.dims};
}

Error OutputSlot::unexpected(const OutputTensor &tensor, const std::string &expected) const {
  return Error{"the model gave " + describeTensor(info_.type, *tensor.dims) + " for its output " + info_.describe() +
                   ", which should be " + expected,
               0, kRemedy};
}

} // namespace gstzc::infer
