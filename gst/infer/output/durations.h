// SPDX-License-Identifier: LGPL-2.1-or-later
// How long something takes that is done again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gstzc::infer {

// The sum of all durations and percentiles of the newest ones, in a bounded memory.
class Durations {
public:
  static constexpr size_t kNewest = 1024; // enough that the 99th percentile is not simply the longest

  // By nearest rank: the shortest of them that `percent` of all do not exceed. 0 without samples.
  struct Percentiles {
    uint64_t p50 = 0, p95 = 0, p99 = 0; // ns
  };

  void add(uint64_t ns);
  uint64_t count() const { return count_; } // of all
  uint64_t total() const { return total_; } // of all, ns
  Percentiles percentiles() const;

private:
  std::array<uint64_t, kNewest> ring_ = {};
  uint64_t count_ = 0;
  uint64_t total_ = 0;
};

} // namespace gstzc::infer
