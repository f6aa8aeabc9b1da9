// SPDX-License-Identifier: LGPL-2.1-or-later
// For what has to be quick, on a machine that does other things, too: it is, where one of several tries was.
#pragma once

#include <algorithm>
#include <chrono>

#include "tests/support/scale.h"

namespace gstzc::test {

constexpr int kTries = 5;

// Not where everything takes many times as long.
inline bool measuresTime() { return rounds(10) == 10; }

// The shortest that `measure` returned, a duration; no more tries after one that is short enough.
template <typename Measure> std::chrono::milliseconds quickest(std::chrono::milliseconds enough, Measure measure) {
  auto best = std::chrono::milliseconds::max();
  for (int i = 0; i < (measuresTime() ? kTries : 1) && best > enough; ++i)
    best = std::min(best, std::chrono::duration_cast<std::chrono::milliseconds>(measure()));
  return best;
}

} // namespace gstzc::test
