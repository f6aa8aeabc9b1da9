// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <optional>

#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

// The first of the floating-point tensors in host memory that has a NaN; infinities are none.
std::optional<size_t> firstNotANumber(const Outputs &outputs);

} // namespace gstzc::infer
