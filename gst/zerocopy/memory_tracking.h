// SPDX-License-Identifier: LGPL-2.1-or-later
// GstMemory objects of dma-bufs, as the import cache has to know of them.
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// The identity of the dma-buf behind a memory, whose existence ImportCache::process() knows of from now on until the
// memory is freed. To be called for each memory of each frame before its buffer is looked up in the cache; after the
// first time that is a system call and a look at the memory, which is then known to have kept its dma-buf.
// Parts made by gst_memory_share() count as their parent. Thread-safe. Errors: no dma-buf memory, a closed descriptor
// (EBADF).
GSTZC_API Result<BufferId> trackMemory(GstMemory *memory);

// The same for a dma-buf memory whose identity has been asked for just now.
GSTZC_API void trackMemory(GstMemory *memory, const BufferId &id);

} // namespace gstzc
