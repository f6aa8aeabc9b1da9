// SPDX-License-Identifier: LGPL-2.1-or-later
// A buffer that metadata can be added to without touching its memory.
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

// A buffer that metadata can be added to, with the same GstMemory objects. Takes `buffer` and gives it back where it is
// writable; else gives a new GstBuffer that holds the old one by a GstParentBufferMeta, so that its pool gets it back
// only when the new one is gone.
GSTZC_API GstBuffer *writableShallow(GstBuffer *buffer);

} // namespace gstzc
