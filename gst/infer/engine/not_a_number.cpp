// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/not_a_number.h"

#include <cstdint>

namespace gstzc::infer {
namespace {

// Bits without the sign above `infinity` are a NaN. Without a branch in the loop, so that it is vectorised; in blocks,
// so that it ends early.
template <typename T> bool anyAbove(const void *data, size_t n, T infinity, T magnitude) {
  constexpr size_t block = 4096;
  const T *const bits = static_cast<const T *>(data);
  for (size_t i = 0; i < n; i += block) {
    const size_t end = n - i < block ? n : i + block;
    T above = 0;
    for (size_t k = i; k < end; ++k) above |= static_cast<T>((bits[k] & magnitude) > infinity);
    if (above != 0) return true;
  }
  return false;
}

} // namespace

std::optional<size_t> firstNotANumber(const Outputs &outputs) {
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const TensorView &view = outputs.tensors[i];
    if (view.space != MemorySpace::Host || view.data == nullptr) continue;
    if (view.type == TensorType::Float32 && anyAbove<uint32_t>(view.data, view.bytes / 4, 0x7f800000u, 0x7fffffffu))
      return i;
    if (view.type == TensorType::Float16 && anyAbove<uint16_t>(view.data, view.bytes / 2, 0x7c00u, 0x7fffu)) return i;
  }
  return {};
}

} // namespace gstzc::infer
