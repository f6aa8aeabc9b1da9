// SPDX-License-Identifier: LGPL-2.1-or-later
// Caps arithmetic of dmabufupload: from ordinary formats to linear DMA_DRM and back.
#pragma once

#include <gst/gst.h>

namespace gstzc {

// What can leave when `caps` come in: system memory as linear DMA_DRM; DMA_DRM of any modifier as it is; memory:DMABuf
// with a plain format as linear DMA_DRM, or as it is. Order is kept. Returns (transfer full) caps without duplicates.
GstCaps *uploadedCaps(const GstCaps *caps);

// The inverse: what may come in for `caps` to leave. Without a copy first: DMA_DRM, then plain memory:DMABuf, then
// system memory.
GstCaps *uploadableCaps(const GstCaps *caps);

GstCaps *uploadSinkCaps(); // pad templates, transfer full
GstCaps *uploadSrcCaps();

} // namespace gstzc
