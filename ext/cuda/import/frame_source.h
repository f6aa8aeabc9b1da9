// SPDX-License-Identifier: LGPL-2.1-or-later
// From a frame of GStreamer to what the routes import.
#pragma once

#include <gst/gst.h>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::cuda {

// Announces the buffer's memories to the import cache. Errors: a frame whose planes lie in several dma-bufs
// (EOPNOTSUPP), or not in dma-bufs at all; a closed descriptor.
Result<ImportSource> importSource(GstBuffer *buffer, const FrameLayout &layout);

// How the frame lies in memory of the device: `info`'s format and size, the planes of `import`. Errors: fewer planes
// than the format has, planes outside of the import.
Result<GstVideoInfo> importedInfo(const GstVideoInfo &info, const DeviceImport &import);

} // namespace gstzc::cuda
