// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/batch.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace gstzc::infer {

Result<std::byte *> Scratch::atLeast(size_t bytes) {
  if (bytes <= size_ && data_ != nullptr) return data_.get();
  data_.reset(); // before the new one: they may be large
  size_ = 0;
  const auto refused = [bytes] {
    return Error{"allocate " + std::to_string(bytes) + " bytes for a batch", ENOMEM, "Use a smaller batch-size"};
  };
  if (bytes > static_cast<size_t>(PTRDIFF_MAX) - kAlignment) return refused(); // no object is that large
  const size_t rounded = std::max((bytes + kAlignment - 1) / kAlignment, size_t{1}) * kAlignment;
  data_.reset(static_cast<std::byte *>(std::aligned_alloc(kAlignment, rounded)));
  if (data_ == nullptr) return refused();
  size_ = rounded;
  return data_.get();
}

int batchLimit(const InputPlan &plan, int wanted) {
  const int most = std::max(plan.batch, 1);
  return plan.open_batch ? std::clamp(wanted, 1, most) : most;
}

size_t fairShare(size_t waiting, size_t idle) {
  const size_t workers = std::max(idle, size_t{1});
  return waiting / workers + (waiting % workers != 0 ? 1 : 0);
}

Result<std::vector<Outputs>> splitOutputs(const Outputs &outputs, const std::vector<TensorInfo> &infos, int batch,
                                          int pictures) {
  if (batch == 1) return std::vector<Outputs>(static_cast<size_t>(pictures), outputs);
  std::vector<Outputs> parts(static_cast<size_t>(pictures));
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const TensorView &whole = outputs.tensors[i];
    if (whole.dims.empty() || whole.dims[0] != batch || whole.bytes % static_cast<size_t>(batch) != 0) {
      const std::string name = i < infos.size() ? infos[i].name : "output " + std::to_string(i);
      return Error{
          TensorInfo{name, whole.type, whole.dims, {}}.describe() + " cannot be shared out to the " +
              std::to_string(batch) + " pictures of a batch: its first dimension is not the batch",
          0, "Use batch-size=1 with this model, or export it with the batch as the first dimension of all outputs"};
    }
    TensorView part = whole;
    part.dims[0] = 1;
    part.bytes = whole.bytes / static_cast<size_t>(batch);
    for (Outputs &picture : parts) {
      picture.tensors.push_back(part);
      if (part.data != nullptr) part.data = static_cast<std::byte *>(part.data) + part.bytes;
    }
  }
  for (Outputs &picture : parts) picture.owner = outputs.owner;
  return parts;
}

} // namespace gstzc::infer
