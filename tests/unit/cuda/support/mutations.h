// SPDX-License-Identifier: LGPL-2.1-or-later
// Shows that a wait is needed: a check that fails when it is left out. For programs on gstzccuda_mutable_dep.
#pragma once

#ifndef GSTZC_MUTATIONS
#error "link gstzccuda_mutable_dep"
#endif

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda::test {

// `wait` is left out as long as this lives.
class WithoutWait {
public:
  explicit WithoutWait(const char *wait) { skipWait(wait); }
  ~WithoutWait() { skipWait(nullptr); }
  WithoutWait(const WithoutWait &) = delete;
  WithoutWait &operator=(const WithoutWait &) = delete;
};

// `holds(patience)`: true where everything ran in the right order, as far as it shows within `patience`. It is not to
// depend on time otherwise, so that the wait is noticed on a machine of any speed: little patience where the order is
// right, because nothing shows then; much where it is wrong.
template <typename Check> void expectNoticed(const char *wait, Check holds) {
  using namespace std::chrono_literals;
  SCOPED_TRACE(std::string("wait \"") + wait + '"');
  const size_t before = timesReached(wait);
  EXPECT_TRUE(holds(std::chrono::milliseconds(50ms))) << "wrong with all waits in place";
  EXPECT_GT(timesReached(wait), before) << "the check does not come by this wait";
  const WithoutWait without(wait);
  EXPECT_FALSE(holds(std::chrono::milliseconds(30s))) << "nobody notices that it is left out";
}

} // namespace gstzc::cuda::test
