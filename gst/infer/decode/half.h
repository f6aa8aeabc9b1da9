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
  // without branches, so that the loops over it become vector instructions: all ones where it is so
  const uint32_t special = -static_cast<uint32_t>(magnitude >= 31u << 23),
                 tiny = -static_cast<uint32_t>(magnitude < 1u << 23);
  // the exponents' biases are 15 and 127, the highest exponent stands for what is not finite
  const uint32_t rebias = 112u << 23;
  const uint32_t normal = magnitude + rebias + (rebias & special);
  const float fraction = static_cast<float>(static_cast<int>(half & 0x3ffu));
  const uint32_t subnormal = std::bit_cast<uint32_t>(fraction * 0x1p-24f);
  return std::bit_cast<float>(((normal & ~tiny) | (subnormal & tiny)) | sign);
}

// Whether readFloats() knows the type.
inline bool isFloat(TensorType type) { return type == TensorType::Float32 || type == TensorType::Float16; }

// Numbers `first` to `first + count` of a tensor of type Float32 or Float16; the caller has checked that they are
// there.
inline void readFloats(const TensorView &view, size_t first, size_t count, float *out) {
  if (view.type == TensorType::Float16) {
    const uint16_t *const halves = static_cast<const uint16_t *>(view.data) + first;
    // many at once: of a loop whose length it knows the compiler makes vector instructions
    constexpr size_t block = 16;
    size_t i = 0;
    for (; i + block <= count; i += block)
      for (size_t k = 0; k < block; ++k) out[i + k] = halfToFloat(halves[i + k]);
    for (; i < count; ++i) out[i] = halfToFloat(halves[i]);
  } else {
    std::copy_n(static_cast<const float *>(view.data) + first, count, out);
  }
}

} // namespace gstzc::infer
