// SPDX-License-Identifier: LGPL-2.1-or-later
// The IN_FORMATS blob of a plane.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "gst/drm/kms_types.h"

namespace gstzc {

// Pairs of format and modifier in the blob's order of formats. Each entry of modifiers covers a window of 64 formats
// from its own offset. Nothing: not a blob of version 1, or one whose tables end past its size. Formats without any
// modifier are left out, so is DRM_FORMAT_MOD_INVALID.
std::optional<std::vector<DrmFormat>> parseInFormats(const void *data, size_t size);

} // namespace gstzc
