// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/infer/read_frame.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include <gst/video/video.h>

#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

Error notCuda(guint memory) {
  return {"memory " + std::to_string(memory) + " of the frame is not CUDA memory", 0,
          "Its producer's caps say memory:CUDAMemory: it is at fault"};
}

// What gst-cuda's own memory knows of its layout, which pitches it chose.
Result<FrameLayout> layoutOf(GstBuffer *frame, const FrameCaps &caps) {
  GstMemory *memory = gst_buffer_n_memory(frame) == 1 ? gst_buffer_peek_memory(frame, 0) : nullptr;
  if (memory == nullptr || !gst_is_cuda_memory(memory) || gst_buffer_get_video_meta(frame) != nullptr)
    return frameLayout(frame, caps);
  FrameCaps own = caps;
  const GstVideoInfo &info = GST_CUDA_MEMORY_CAST(memory)->info;
  std::copy(std::begin(info.stride), std::end(info.stride), std::begin(own.info.stride));
  std::copy(std::begin(info.offset), std::end(info.offset), std::begin(own.info.offset));
  return frameLayout(frame, own);
}

Status checkPlanes(const FrameLayout &layout, int planes) {
  const auto most = std::min<size_t>(layout.n_planes, std::size(infer::PixelPlanes().address));
  if (planes >= 0 && static_cast<size_t>(planes) <= most) return Nothing{};
  return Error{"a frame with " + std::to_string(layout.n_planes) + " planes where its format has " +
                   std::to_string(planes),
               0, "The producer's GstVideoMeta is wrong for these caps"};
}

} // namespace

Result<ReadFrame> readCudaFrame(GstBuffer *frame, const FrameCaps &caps, int planes) {
  for (guint i = 0; i < gst_buffer_n_memory(frame); ++i)
    if (!gst_is_cuda_memory(gst_buffer_peek_memory(frame, i))) return notCuda(i);
  auto layout = layoutOf(frame, caps);
  if (!layout) return layout.error();
  if (auto fits = checkPlanes(*layout, planes); !fits) return fits.error();
  ReadFrame read;
  for (int p = 0; p < planes; ++p) {
    const PlaneLayout &plane = layout->planes[static_cast<size_t>(p)];
    GstMemory *memory = gst_buffer_peek_memory(frame, plane.memory);
    GstCudaContext *context = GST_CUDA_MEMORY_CAST(memory)->context;
    if (p > 0 && context != read.context)
      return Error{"planes 0 and " + std::to_string(p) + " of the frame belong to different CUDA contexts", 0,
                   "One kernel reads them: use a producer that keeps a frame on one device, in one context"};
    read.context = context;
    const DeviceMap map(memory);
    if (!map)
      return Error{"memory " + std::to_string(plane.memory) + " of the frame cannot be mapped for the device", 0,
                   "The log category cudamemory says more"};
    read.planes.address[p] = map.address() + plane.in_memory;
    read.planes.stride[p] = plane.stride;
  }
  return read;
}

Result<ReadFrame> readDmaBufFrame(GstBuffer *frame, const FrameCaps &caps, int planes, CachedImports &imports,
                                  const RouteChoice::Check &check) {
  auto layout = frameLayout(frame, caps);
  if (!layout) return layout.error();
  if (auto fits = checkPlanes(*layout, planes); !fits) return fits.error();
  for (guint p = 0; p < layout->n_planes; ++p)
    if (layout->planes[p].fd < 0)
      return Error{"memory " + std::to_string(layout->planes[p].memory) +
                       " of the frame is no dma-buf, and cannot be " + "imported",
                   0, "Use a producer of dma-bufs, dmabufupload before this element, or preprocess-device=auto"};
  auto source = importSource(frame, *layout);
  if (!source) return source.error();
  auto import = imports.get(*source, check);
  if (!import) return import.error();
  ReadFrame read;
  read.import = import.take();
  for (size_t p = 0; p < static_cast<size_t>(planes); ++p) {
    read.planes.address[p] = read.import->pointer + read.import->planes[p].offset;
    read.planes.stride[p] = static_cast<int32_t>(read.import->planes[p].pitch);
  }
  return read;
}

Status waitForWriters(const CudaContext &context, CUstream stream, CUevent order, GstBuffer *frame) {
  bool fenced = false;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(frame, &state, GST_ZC_FENCE_META_API_TYPE)) {
    GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(reinterpret_cast<GstZcFenceMeta *>(meta));
    Status waits = Nothing{};
    if (event == nullptr || !waitForCudaEvent(context, stream, event, &waits)) continue;
    if (!waits) return waits;
    fenced = true;
  }
  // on the producer's stream there may be the next frames by now, and what they wait for
  if (fenced) return Nothing{};
  for (guint i = 0; i < gst_buffer_n_memory(frame); ++i) {
    GstMemory *memory = gst_buffer_peek_memory(frame, i);
    if (!gst_is_cuda_memory(memory) || !needsSync(memory)) continue;
    if (!waitPoint("frame-stream")) continue;
    GstCudaStream *producer = gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory));
    const CUstream written_on = producer != nullptr ? gst_cuda_stream_get_handle(producer) : nullptr;
    const ContextScope scope(context);
    if (auto current = scope.status(); !current) return current;
    const Driver &driver = context.driver;
    if (auto said = driver.check(driver.cuEventRecord(order, written_on), "cuEventRecord on the producer's stream");
        !said)
      return said;
    if (auto waits = driver.check(driver.cuStreamWaitEvent(stream, order, 0), "cuStreamWaitEvent"); !waits)
      return waits;
  }
  return Nothing{};
}

} // namespace gstzc::cuda
