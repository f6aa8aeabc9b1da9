// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames in memory that libgbm makes for a display: in tiled and compressed layouts, which only the GPU's driver can
// lay out. Tiled: not run on hardware; the logic on a stand-in, linear ones with Mesa's library.
#pragma once

#include <memory>

#include "gst/drm/display_pool.h"
#include "gst/drm/gbm/gbm_library.h"
#include "gst/drm/kms_device.h"

namespace gstzc {

// For pools. libgbm gets an open file of the device for itself: the handles of its buffers are not those that
// framebuffers are made of, so that neither side closes the other's. A frame has the modifier of its caps, and as many
// memory planes as it should; whatever else libgbm gives is an error. Frames outlive all of this: the dma-bufs keep
// the memory.
// Errors: no libgbm, no second open file, a device libgbm has no driver for.
Result<std::shared_ptr<FrameSource>> gbmFrames(const KmsDevice &device, const Result<GbmLibrary> &library);

// Whether the display makes a framebuffer of such a frame, which is tried.
Status takesFrame(KmsDevice &device, const PoolFrame &frame, const FrameCaps &caps);

} // namespace gstzc
