// SPDX-License-Identifier: LGPL-2.1-or-later
// What measuring programs share: time, order statistics, and results as scripts/bench reads them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

namespace gstzc::bench {

inline uint64_t clockNs(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// The value that a share of the values does not exceed (nearest rank); 0 of none.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

inline double median(const std::vector<double> &values) { return quantile(values, 0.5); }

// The mean of the middle half: steadier than the median of a few values, and no outlier moves it far. 0 of none.
inline double middleMean(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t cut = values.size() / 4;
  const auto from = values.begin() + static_cast<ptrdiff_t>(cut), to = values.end() - static_cast<ptrdiff_t>(cut);
  return std::accumulate(from, to, 0.0) / static_cast<double>(to - from);
}

// One line of JSON for one case, to standard output; what is for people goes to standard error. `spread` is of the
// ratio, in the same run.
struct Case {
  std::string name;
  double value = 0;
  std::string unit;
  double ratio = 0;
  std::string against;
  double spread = 0;
  double limit = 0; // the largest ratio that is accepted; 0: none is claimed
};

inline void report(const Case &c) {
  std::printf(
      "{\"case\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"ratio\": %.4f, \"against\": \"%s\", \"spread\": %.4f",
      c.name.c_str(), c.value, c.unit.c_str(), c.ratio, c.against.c_str(), c.spread);
  if (c.limit > 0) std::printf(", \"limit\": %.4f", c.limit);
  std::printf("}\n");
  std::fflush(stdout);
}

} // namespace gstzc::bench
