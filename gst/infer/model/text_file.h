// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>

#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// The whole of a small UTF-8 file, without a byte order mark. `what` begins the errors: "labels file". Errors: cannot
// be opened (with errno), no regular file, longer than `limit` bytes, no UTF-8 (with the line), a null byte.
Result<std::string> readTextFile(const std::string &what, const std::string &path, size_t limit);

} // namespace gstzc::infer
