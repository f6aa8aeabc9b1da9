// SPDX-License-Identifier: LGPL-2.1-or-later
// CUDA memory of GStreamer over an import: what elements with memory:CUDAMemory caps take.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// Holds a reference; the same object for the same context. Null where there is no driver.
ContextPtr contextOf(GstCudaContext *context);

// A GstCudaAllocator (so gst_is_cuda_memory() knows its memories) whose mem_copy goes by the planes: upstream's loses
// pitch, padded heights and the last chroma byte of odd widths. So does mapping for the CPU. A copy has the layout of
// its source, because that is what the GstVideoMeta of a copied buffer says; it is of this allocator, and can be
// written, and is retired as its source. Process-wide; transfer none.
GstAllocator *importAllocator();

// On which streams a memory that has no users any more may still be read.
enum class Readers {
  OnTheStream, // the memory's own
  Anywhere,    // others had its address, and went by no rule that would keep them to it
};

// What is to be done with a memory that nobody uses any more: `free` is to be called once, on any thread, when the
// device is done with it. GStreamer's elements let go of a frame as soon as they have enqueued what reads it. Who does
// so on another stream than the memory's has to call gst_cuda_memory_sync() before, which takes the mark
// GST_CUDA_MEMORY_TRANSFER_NEED_SYNC away: a memory that bears it in the end was read on its own stream. One that
// never did tells nothing.
using Retire = std::function<void(Readers readers, std::function<void()> free)>;

// One memory over the whole import, read-only and not shared, so that whoever writes gets a copy. `info` has the true
// offsets and strides of the planes from byte 0 of the memory. `released` is called once when the last user is gone, on
// any thread: with `retire`, when that has freed the memory; without it, the memory's stream is waited for if the
// memory is marked GST_CUDA_MEMORY_TRANSFER_NEED_SYNC, as gst-cuda does.
Result<GstMemory *> wrapImport(GstCudaContext *context, GstCudaStream *stream, const GstVideoInfo &info,
                               std::shared_ptr<DeviceImport> import, std::function<void()> released,
                               Retire retire = {});

// Device memory in the layout of `info`, whatever its format; writable. `retire` as above, for it and its copies.
Result<GstMemory *> newCudaMemory(GstCudaContext *context, GstCudaStream *stream, const GstVideoInfo &info,
                                  Retire retire = {});

// Marks a memory whose content is there already as in need of synchronisation, so that it shows in the end whether it
// was read on its own stream only. Before others have it.
void watchReaders(GstMemory *memory);
// Whether the device has still to do something on the memory's stream before another may read it: the mark, where it is
// not there for watchReaders() only.
bool needsSync(GstMemory *memory);

// A tensor that lies at `pointer`, of `bytes` bytes, for who reads it as GStreamer's CUDA memory; read-only. It is
// there when `stream` has come as far as it is told now. `owner` is held until `retire` has freed the memory.
Result<GstMemory *> wrapTensor(GstCudaContext *context, GstCudaStream *stream, CUdeviceptr pointer, gsize bytes,
                               std::shared_ptr<void> owner, Retire retire);

// The import behind a memory of ours; null for others, and for copies.
std::shared_ptr<DeviceImport> importOf(GstMemory *memory);

// The frame whose dma-buf a memory is over, so that it can go on from there as what it was. Kept as long as the memory
// has users. Null for other memories, and for copies.
void setFrameOf(GstMemory *memory, GstBuffer *frame);
GstBuffer *frameOf(GstMemory *memory); // borrowed

// The bytes that hold the pixels of `info`, plane after plane. Those of formats whose rows are not made of pixels
// (tiles, palettes) are one block.
struct PixelPlane {
  gsize offset = 0; // bytes
  gsize pitch = 0;
  gsize row_bytes = 0;
  gsize rows = 0;
  gsize end() const { return offset + pitch * (rows - 1) + row_bytes; }
};
struct PixelPlanes {
  guint n = 0;
  std::array<PixelPlane, GST_VIDEO_MAX_PLANES> planes = {};
};
PixelPlanes pixelPlanes(const GstVideoInfo &info);

} // namespace gstzc::cuda
