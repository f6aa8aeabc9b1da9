// SPDX-License-Identifier: LGPL-2.1-or-later
// Tensors that stay with a frame. Before 1.28 GStreamer does not copy GstTensorMeta with its buffer: whatever copies a
// frame, or converts it, loses what a model said of it.
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

// From now on copies of the writable `buffer` have its GstTensorMetas, and copies of those; the bytes of the tensors
// are shared. Does nothing where GStreamer does this itself.
GSTZC_API void keepTensorsOnCopies(GstBuffer *buffer);

} // namespace gstzc
