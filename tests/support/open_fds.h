// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <filesystem>

namespace gstzc::test {

// Descriptors that this process has open (and the one that it takes to look).
inline size_t openFds() {
  size_t n = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

} // namespace gstzc::test
