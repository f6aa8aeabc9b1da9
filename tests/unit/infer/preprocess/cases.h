// SPDX-License-Identifier: LGPL-2.1-or-later
// What the preprocessing can be asked for, drawn by chance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>

#include "gst/infer/preprocess/preprocess.h"
#include "tests/reference/preprocess_reference.h"
#include "tests/unit/infer/preprocess/pictures.h"

namespace gstzc::test {

struct Case {
  Caps caps;
  int padding = 0;
  infer::InputPlan plan;
  infer::PreprocessOptions options;
  std::optional<infer::Region> region;
  GuardedMemory::Against against = GuardedMemory::Against::Back;
};

std::ostream &operator<<(std::ostream &out, const Case &c);

Case drawCase(const char *format, unsigned seed);

reference::Target targetOf(const Case &c); // as the reference takes it

double numberAt(const uint8_t *tensor, size_t i, infer::TensorType type);

// Of the colour that number i of the tensor has.
double scaleOf(const Case &c, size_t i);

} // namespace gstzc::test
