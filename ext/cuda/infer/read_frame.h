// SPDX-License-Identifier: LGPL-2.1-or-later
// Where the planes of a frame are for a kernel: frames in CUDA memory, and frames in dma-bufs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/routes/import_cache.h"
#include "gst/infer/preprocess/pixel_layout.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::cuda {

// For work that is enqueued now; `keep` until that is done, and the frame.
struct ReadFrame {
  infer::PixelPlanes planes;
  GstCudaContext *context = nullptr;    // of CUDA memory, borrowed from it; null: a dma-buf's
  std::shared_ptr<DeviceImport> import; // of a dma-buf
};

// The first `planes` planes of a frame in CUDA memory, with the strides and offsets of its GstVideoMeta; without one,
// of the memory itself. Errors: memory of another kind, planes in memories of different contexts, more than a kernel
// takes.
Result<ReadFrame> readCudaFrame(GstBuffer *frame, const FrameCaps &caps, int planes);

// Of a frame in dma-bufs; what it is in the device's memory comes from `imports`. Errors: other memory, planes in
// several buffers, what the routes say.
Result<ReadFrame> readDmaBufFrame(GstBuffer *frame, const FrameCaps &caps, int planes, CachedImports &imports,
                                  const RouteChoice::Check &check);

// Has `stream`, of the frame's context, wait for whoever still writes the frame on the device: for the fences that
// travel with it; and where there are none, for the streams of memories that GStreamer marked as not synchronised.
// `order` is an event to do it with.
Status waitForWriters(const CudaContext &context, CUstream stream, CUevent order, GstBuffer *frame);

} // namespace gstzc::cuda
