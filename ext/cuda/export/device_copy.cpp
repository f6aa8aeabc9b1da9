// SPDX-License-Identifier: LGPL-2.1-or-later
// The route device-copy: the device copies the frame into a dma-buf that the CPU can see.
#include <cerrno>
#include <utility>

#include "ext/cuda/export/export_frame.h"
#include "ext/cuda/export/export_session.h"
#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/routes/host_register_target.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

// The device's events of which nobody knows yet that the work before them went well: who has the copy learns it.
void passUnfinishedEvents(GstBuffer *copy, GstBuffer *frame) {
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(frame, &state, GST_ZC_FENCE_META_API_TYPE)) {
    auto *fence = reinterpret_cast<GstZcFenceMeta *>(meta);
    GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(fence);
    if (event != nullptr && isCudaEvent(event) && gst_zc_device_event_get_status(event) != 1)
      gst_buffer_add_zc_event_meta(copy, event, gst_zc_fence_meta_get_sequence(fence));
  }
}

} // namespace

// What is enqueued from now on comes after everybody who still writes the frame: the device's events as events, what
// is none (an eventfd, a sync_file) by way of the gate.
Result<ExportSession::Failure> ExportSession::putBehindWriters(CUstream stream, GstBuffer *frame,
                                                               std::chrono::milliseconds timeout) {
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(frame, &state, GST_ZC_FENCE_META_API_TYPE))
    if (GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(reinterpret_cast<GstZcFenceMeta *>(meta))) {
      Status waited = Nothing{};
      if (waitPoint("export-copy") && waitForCudaEvent(*context_, stream, event, &waited) && !waited)
        return waited.error();
    }
  auto fences = frameFences(frame, Access::Read, isCudaEvent);
  if (!fences) return fences.error();
  if (fences->none()) return Failure{};
  const auto failure = std::make_shared<std::atomic<int>>(0);
  const auto ended = [failure](const FenceResult &result) {
    if (result.outcome != FenceOutcome::Signalled) *failure = result.error != 0 ? result.error : EIO;
  };
  if (waitPoint("export-copy-fences")) {
    const auto deadline = StreamGate::Clock::now() + timeout;
    if (auto held = gate_->hold(stream, std::move(*fences).take(), deadline, ended); !held) return held.error();
  }
  return failure;
}

Result<GstBuffer *> ExportSession::deviceCopy(const Frame &one, const Request &request) {
  const auto &[frame, memory, layout, plain] = one;
  if (!targets_) {
    std::vector<std::unique_ptr<ImportRoute>> routes;
    routes.push_back(makeHostRegisterTarget(context_)); // dma-bufs that anybody can import, and the CPU can see
    targets_ = std::make_unique<CachedImports>(std::move(routes), RouteWishes{});
  }
  auto target = request.acquire();
  if (!target) return target.error();
  const auto failed = [&](const Error &error) {
    gst_buffer_unref(*target);
    return error;
  };
  FrameCaps caps;
  caps.memory = MemoryKind::DmaBuf;
  caps.fourcc = gst_video_dma_drm_fourcc_from_format(GST_VIDEO_INFO_FORMAT(&layout));
  // with the target's own strides, or none
  gst_video_info_set_format(&caps.info, GST_VIDEO_INFO_FORMAT(&layout),
                            static_cast<guint>(GST_VIDEO_INFO_WIDTH(&layout)),
                            static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&layout)));
  const auto planes = frameLayout(*target, caps);
  if (!planes) return failed(planes.error());
  GstVideoInfo there = caps.info;
  for (guint p = 0; p < planes->n_planes; ++p) {
    there.offset[p] = planes->planes[p].offset;
    there.stride[p] = planes->planes[p].stride;
  }
  if (auto right = laidOutAs(plain, there); !right) return failed(right.error());
  const auto source = importSource(*target, *planes);
  if (!source) return failed(source.error());
  const auto unchecked = [](const ImportSource &, DeviceImport &) -> Result<ContentCheck> { return ContentCheck{}; };
  auto import = targets_->get(*source, unchecked);
  if (!import) return failed(import.error());

  const DeviceMap map(memory);
  if (!map) return failed({"map the frame for the CUDA device", EIO, ""});
  ContextScope scope(*context_);
  if (auto current = scope.status(); !current) return failed(current.error());
  const CUstream stream = streamOf(memory);
  const auto failure = putBehindWriters(stream, frame, request.timeout);
  if (!failure) return failed(failure.error());
  const PixelPlanes from = pixelPlanes(layout);
  uint64_t bytes = 0;
  for (guint p = 0; p < from.n; ++p) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = map.address() + from.planes[p].offset;
    copy.srcPitch = from.planes[p].pitch;
    copy.dstDevice = (*import)->pointer + (*import)->planes[p].offset;
    copy.dstPitch = (*import)->planes[p].pitch;
    copy.WidthInBytes = from.planes[p].row_bytes;
    copy.Height = from.planes[p].rows;
    if (auto copied = context_->driver.check(context_->driver.cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync");
        !copied) {
      // the planes before it are on their way, behind what the stream waits for
      retire_->retire(stream, [frame = gst_buffer_ref(frame), to = *target, keep = *import] {
        gst_buffer_unref(to);
        gst_buffer_unref(frame);
      });
      return copied.error();
    }
    bytes += copy.WidthInBytes * copy.Height;
  }
  // A target that comes back early is written again by a later copy on this stream, or waited for by its event.
  retire_->retire(stream, [frame = gst_buffer_ref(frame), keep = *import] { gst_buffer_unref(frame); });
  copyFrameMetadata(*target, frame);
  passUnfinishedEvents(*target, frame);
  auto event = events_->record(stream, *failure);
  if (!event) return failed(event.error());
  gst_buffer_add_zc_event_meta(*target, *event, 0);
  gst_zc_device_event_unref(*event);
  ++counters_->copies;
  counters_->bytes_copied += bytes;
  return *target;
}

} // namespace gstzc::cuda
