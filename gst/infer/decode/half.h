// SPDX-License-Identifier: LGPL-2.1-or-later
// IEEE 754 binary16, "half", which nets made for accelerators give.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

// Exact; infinities and not-a-numbers stay what they are.
inline float halfToFloat(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  // the exponents' biases are 15 and 127; the product also makes normal numbers of subnormal ones
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
  return std::bit_cast<float>(bits | sign);
}

// Whether readFloats() knows the type.
inline bool isFloat(TensorType type) { return type == TensorType::Float32 || type == TensorType::Float16; }

// Numbers `first` to `first + count` of a tensor of type Float32 or Float16; the caller has checked that they are
// there.
inline void readFloats(const TensorView &view, size_t first, size_t count, float *out) {
  if (view.type == TensorType::Float16)
    std::transform(static_cast<const uint16_t *>(view.data) + first,
                   static_cast<const uint16_t *>(view.data) + first + count, out, halfToFloat);
  else
    std::copy_n(static_cast<const float *>(view.data) + first, count, out);
}

} // namespace gstzc::infer
