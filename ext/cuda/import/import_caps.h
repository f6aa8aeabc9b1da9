// SPDX-License-Identifier: LGPL-2.1-or-later
// Caps arithmetic of dmabufcudaimport: from dma-bufs to memory:CUDAMemory and back. Pure.
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// What can leave when `caps` come in: DMA_DRM of any modifier, memory:DMABuf and system memory with a plain format,
// each as memory:CUDAMemory of the plain format. Transfer full, without duplicates.
GstCaps *importedCaps(const GstCaps *caps);

// The inverse, in the order of preference: linear DMA_DRM, memory:DMABuf with a plain format, system memory. DMA_DRM of
// any modifier only where upstream, which asks with `filter`, has nothing of these: whether the device takes a modifier
// is known with the first buffer, and a producer that can do both would not be asked again. Not yet intersected with
// `filter`, which may be null.
GstCaps *importableCaps(const GstCaps *caps, const GstCaps *filter);

// What cudadmabufexport takes to make `caps`, linear ones only. Transfer full.
GstCaps *exportedFrom(const GstCaps *caps);

// Whether fixed caps name a format that GStreamer has a name for on the device; an error says which they name.
Status haveImportableFormat(const GstCaps *caps);

GstCaps *importSinkCaps(); // pad templates, transfer full
GstCaps *importSrcCaps();

} // namespace gstzc::cuda
