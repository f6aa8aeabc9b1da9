// SPDX-License-Identifier: LGPL-2.1-or-later
// How often a test repeats what only repetition can show. Under valgrind and ThreadSanitizer a program runs 5 to 50
// times slower: there GSTZC_TEST_SCALE=N says to do an Nth of it.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace gstzc::test {

// `often`, or the Nth part of it, but at least once.
inline int rounds(int often) {
  const char *text = std::getenv("GSTZC_TEST_SCALE");
  const int scale = text != nullptr ? std::atoi(text) : 1;
  return std::max(1, often / std::max(1, scale));
}

} // namespace gstzc::test
