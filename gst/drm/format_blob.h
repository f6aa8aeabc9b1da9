// SPDX-License-Identifier: LGPL-2.1-or-later
// The IN_FORMATS blob of a plane.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "gst/drm/kms_types.h"

namespace gstzc {

// Pairs of format and modifier in the blob's order of formats, and with a format in its order of modifiers. Each entry
// of modifiers covers a window of 64 formats from its own offset on. Nothing: not a blob of version 1, tables that do
// not lie between its head and its end, or more entries than any driver has (4096 formats, 8192 modifiers). Formats
// without any modifier are left out, so are DRM_FORMAT_MOD_INVALID and fourcc 0: a blob without a pair says no more
// than the absence of the property, which is an empty list here. Any bytes may be given.
std::optional<std::vector<DrmFormat>> parseInFormats(const void *data, size_t size);

} // namespace gstzc
