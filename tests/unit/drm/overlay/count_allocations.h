// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>

namespace gstzc::testdata {

// By operator new, in the whole program: linked in, the file counts. Nothing: a sanitizer does the allocating.
std::optional<uint64_t> allocationsSoFar();

// While it lives what its thread allocates is not counted.
class Uncounted {
public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted &) = delete;
  Uncounted &operator=(const Uncounted &) = delete;
};

} // namespace gstzc::testdata
