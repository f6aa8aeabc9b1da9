// SPDX-License-Identifier: LGPL-2.1-or-later
// The numbers of an output tensor, whatever type they are stored in, without a copy.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gst/infer/decode/half.h"
#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

class Numbers {
public:
  Numbers() = default;
  Numbers(TensorType type, const void *data, size_t size) : type_(type), data_(data), size_(size) {}

  static bool readable(TensorType type) {
    return type == TensorType::Float32 || type == TensorType::Float16 || type == TensorType::Int32 ||
           type == TensorType::Int64 || type == TensorType::UInt8;
  }

  size_t size() const { return size_; }

  // Calls `f` with a function that gives number i as float; `f` is compiled once for each type, so that its loops do
  // not ask for the type again.
  template <typename F> decltype(auto) with(F &&f) const {
    switch (type_) {
    case TensorType::Float16:
      return f([p = static_cast<const uint16_t *>(data_)](size_t i) { return halfToFloat(p[i]); });
    case TensorType::Int32:
      return f([p = static_cast<const int32_t *>(data_)](size_t i) { return static_cast<float>(p[i]); });
    case TensorType::Int64:
      return f([p = static_cast<const int64_t *>(data_)](size_t i) { return static_cast<float>(p[i]); });
    case TensorType::UInt8:
      return f([p = static_cast<const uint8_t *>(data_)](size_t i) { return static_cast<float>(p[i]); });
    default: break;
    }
    return f([p = static_cast<const float *>(data_)](size_t i) { return p[i]; });
  }

  // One number; `i` is below size().
  float operator[](size_t i) const {
    return with([i](const auto &at) { return at(i); });
  }

private:
  TensorType type_ = TensorType::Float32;
  const void *data_ = nullptr;
  size_t size_ = 0;
};

inline float sigmoid(float logit) { return 1.0f / (1.0f + std::exp(-logit)); }

// A class's number as an index; nothing for what cannot be one.
inline std::optional<int> classIndex(float value) {
  constexpr float limit = 1 << 20;
  if (!(value > -0.5f && value < limit)) return {};
  return static_cast<int>(std::lround(value));
}

} // namespace gstzc::infer
