// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>

namespace gstzc::testdata {

// By operator new, in the whole program: linked in, the file counts. Nothing: a sanitizer does the allocating.
std::optional<uint64_t> allocationsSoFar();

} // namespace gstzc::testdata
