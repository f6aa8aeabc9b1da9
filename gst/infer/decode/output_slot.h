// SPDX-License-Identifier: LGPL-2.1-or-later
// One of a model's outputs as a decoder takes it: found by its declared shape, checked when it comes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "gst/infer/decode/numbers.h"
#include "gst/infer/engine/engine.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// Any size, also one that is left open.
inline constexpr int64_t kAnySize = -1;

// Whether a tensor of floats is declared as [batch, rest…]. A size that the model leaves open only fits kAnySize.
bool declared(const TensorInfo &info, std::initializer_list<int64_t> rest);

// The tensor that came, as long as the Outputs live.
struct OutputTensor {
  Numbers numbers;
  const std::vector<int64_t> *dims = nullptr;
  size_t dim(size_t i) const { return static_cast<size_t>((*dims)[i]); }
};

class OutputSlot {
public:
  OutputSlot() = default;
  // `batched`: dimension 0 is the batch, so it is 1 when the outputs of one picture come.
  OutputSlot(size_t index, TensorInfo info, bool batched = true)
      : index_(index), info_(std::move(info)), batched_(batched) {}

  size_t index() const { return index_; }
  const TensorInfo &info() const { return info_; }

  // Error: no such tensor, another type, rank or size than declared, fewer bytes than its size needs.
  Result<OutputTensor> read(const Outputs &outputs) const;

  // The error for sizes that the model left open and that came differently than `expected`, such as "3549 rows".
  Error unexpected(const OutputTensor &tensor, const std::string &expected) const;

private:
  size_t index_ = 0;
  TensorInfo info_;
  bool batched_ = true;
};

} // namespace gstzc::infer
