// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/durations.h"

#include <algorithm>

namespace gstzc::infer {

void Durations::add(uint64_t ns) {
  ring_[count_++ % ring_.size()] = ns;
  total_ += ns;
}

Durations::Percentiles Durations::percentiles() const {
  const size_t n = static_cast<size_t>(std::min<uint64_t>(count_, ring_.size()));
  if (n == 0) return {};
  std::array<uint64_t, kNewest> sorted = ring_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n));
  const auto at = [&](size_t percent) { return sorted[(n * percent + 99) / 100 - 1]; };
  return {at(50), at(95), at(99)};
}

} // namespace gstzc::infer
