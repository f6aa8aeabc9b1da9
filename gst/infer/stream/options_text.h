// SPDX-License-Identifier: LGPL-2.1-or-later
// The options of a shared model in words, to say in which two users of it differ.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gst/infer/stream/runner.h"

namespace gstzc::infer {

using NamedOption = std::pair<std::string, std::string>; // a property's name where there is one, and a value in words

// All of them, always the same ones in the same order. Options that differ have different values.
std::vector<NamedOption> describeOptions(const ModelOptions &model, const ModelRunner::Options &runner);

} // namespace gstzc::infer
