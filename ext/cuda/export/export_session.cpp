// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/export/export_session.h"

#include <cerrno>
#include <iterator>
#include <thread>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <gst/allocators/allocators.h>

#include "ext/cuda/export/export_frame.h"
#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/sync/behind.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

enum RouteIndex : size_t { kOriginal, kAddressRange, kDeviceCopy };
// That stopping waits for copies, and the first frames for their writers; and that what is left behind waits where the
// device does not get there.
constexpr std::chrono::milliseconds kPatience{100}, kLongestCopy{60'000};
constexpr int kMostChecks = 16; // frames that are compared: pictures may be too small, or too plain, to tell

// What `from` waits for, `to` waits for.
Status passFences(GstBuffer *to, GstBuffer *from) {
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(from, &state, GST_ZC_FENCE_META_API_TYPE)) {
    auto *fence = reinterpret_cast<GstZcFenceMeta *>(meta);
    if (GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(fence); event != nullptr)
      gst_buffer_add_zc_event_meta(to, event, gst_zc_fence_meta_get_sequence(fence));
    const gint fd = gst_zc_fence_meta_dup_fd(fence);
    if (fd < 0) continue;
    GError *error = nullptr;
    if (gst_buffer_add_zc_fence_meta(to, fd, gst_zc_fence_meta_get_sequence(fence), &error) == nullptr) {
      Error failed{error->message, EINVAL, ""};
      g_error_free(error);
      return failed;
    }
  }
  return Nothing{};
}

} // namespace

// Lives as long as the memory of the device: that is asked for its dma-buf once.
struct ExportSession::Exported {
  GstMemory *memory = nullptr; // all that was exported
  guint64 start = 0;           // byte of it where the memory of the device begins
  CUdeviceptr range = 0;       // what was exported
  gsize size = 0;
  ~Exported() {
    if (memory != nullptr) gst_memory_unref(memory);
  }
};

Result<std::unique_ptr<ExportSession>> ExportSession::open(GstCudaContext *context, Wishes wishes,
                                                           std::shared_ptr<Counters> counters) {
  std::unique_ptr<ExportSession> session(new ExportSession);
  session->gst_context_ = GST_CUDA_CONTEXT(gst_object_ref(context));
  session->context_ = contextOf(context);
  if (!session->context_) return Driver::get().error();
  session->wishes_ = std::move(wishes);
  session->counters_ = std::move(counters);
  auto events = EventSource::create(session->context_);
  if (!events) return events.error();
  session->events_ = events.take();
  auto retire = RetireQueue::create(session->context_);
  if (!retire) return retire.error();
  session->retire_ = retire.take();
  session->gate_ = makeStreamGate(session->context_);
  session->allocator_ = gst_dmabuf_allocator_new();
  session->token_ = gst_cuda_create_user_token();
  for (const char *name : kExportRoutes) session->reports_.push_back({name, RouteStage::NotTried, ""});
  return session;
}

// What waits for the device when it ends. A copy may wait for a writer that only goes on when others are stopped.
struct ExportSession::Rest {
  GstCudaContext *gst_context;
  ContextPtr context;
  std::shared_ptr<EventSource> events;
  std::unique_ptr<RetireQueue> retire;
  std::unique_ptr<StreamGate> gate;
  std::unique_ptr<CachedImports> targets;
  ~Rest() {
    gate.reset();
    targets.reset();
    retire.reset();
    events.reset();
    context.reset();
    gst_clear_object(&gst_context);
  }
};

ExportSession::~ExportSession() {
  if (gate_) gate_->keepOpen(true);
  gst_clear_object(&allocator_);
  auto rest = std::make_shared<Rest>(std::exchange(gst_context_, nullptr), std::move(context_), std::move(events_),
                                     std::move(retire_), std::move(gate_), std::move(targets_));
  if (!rest->retire || rest->retire->drain(kPatience)) return;
  callBehind([rest = std::move(rest)] { rest->retire->drain(kLongestCopy); });
}

std::string ExportSession::chosen() const { return chosen_ < 0 ? "" : kExportRoutes[chosen_]; }

bool ExportSession::wanted(size_t route) const {
  if (wishes_.route != "auto") return wishes_.route == kExportRoutes[route];
  return route != kDeviceCopy || wishes_.allow_copy;
}

void ExportSession::report(size_t route, RouteStage stage, const std::string &reason) {
  if (stage == RouteStage::Chosen && chosen_ != static_cast<int>(route)) {
    if (chosen_ >= 0) reports_[static_cast<size_t>(chosen_)].stage = RouteStage::NotTried;
    chosen_ = static_cast<int>(route);
    changed_ = true;
  }
  reports_[route].stage = stage;
  reports_[route].reason = reason;
}

Result<GstBuffer *> ExportSession::take(size_t route, const Frame &frame, const Request &request) {
  auto out = route == kOriginal       ? original(frame)
             : route == kAddressRange ? addressRange(frame)
                                      : deviceCopy(frame, request);
  // such a downstream takes all bytes for pixels, too
  if (out && frame.plain != nullptr && gst_buffer_get_size(*out) > GST_VIDEO_INFO_SIZE(frame.plain))
    gst_buffer_set_size(*out, static_cast<gssize>(GST_VIDEO_INFO_SIZE(frame.plain)));
  return out;
}

Result<GstBuffer *> ExportSession::exportFrame(GstBuffer *frame, const GstVideoInfo &info, const Request &request) {
  GstMemory *memory = gst_buffer_n_memory(frame) == 1 ? gst_buffer_peek_memory(frame, 0) : nullptr;
  if (memory == nullptr || !gst_is_cuda_memory(memory))
    return Error{"a frame of " + std::to_string(gst_buffer_n_memory(frame)) + " memories that is not one CUDA memory",
                 EINVAL, "Its producer has to keep to its memory:CUDAMemory caps"};
  const Frame one{frame, memory, deviceLayout(frame, info, memory), request.reads_video_meta ? nullptr : &info};
  std::string refused;
  for (size_t route = 0; route < std::size(kExportRoutes); ++route) {
    if (!wanted(route)) {
      if (wishes_.route == "auto") report(route, RouteStage::NotAllowed, "allow-copy is false");
    } else {
      auto out = take(route, one, request);
      if (out) {
        report(route, RouteStage::Chosen, "");
        return out;
      }
      if (reports_[route].stage != RouteStage::WrongContent)
        report(route, RouteStage::RefusedBuffer, out.error().message());
    }
    if (!reports_[route].reason.empty())
      refused += std::string("; ") + kExportRoutes[route] + ": " + reports_[route].reason;
  }
  const bool laid_out = laidOutAs(one.plain, one.layout).ok();
  std::string remedy = laid_out ? "cudadownload copies it to system memory"
                                : "For frames in plain memory use cudadownload instead, for dma-bufs a consumer that "
                                  "reads GstVideoMeta, and memory:DMABuf caps";
  if (wishes_.route != "auto")
    remedy = (laid_out ? "" : remedy + "; ") + "route=auto lets others be tried";
  else if (!wishes_.allow_copy)
    remedy = (laid_out ? "" : remedy + "; ") + "allow-copy=true lets the device copy it into one";
  return Error{"the frame cannot leave the CUDA device as a dma-buf" + refused, 0, remedy}; // each reason has its errno
}

// --- original

Result<GstBuffer *> ExportSession::original(const Frame &frame) {
  GstBuffer *before = frameOf(frame.memory);
  if (before == nullptr) return Error{"the frame did not come from dmabufcudaimport, or was copied since", 0, ""};
  const GstVideoMeta *meta = gst_buffer_get_video_meta(before);
  if (meta != nullptr && meta->format == GST_VIDEO_FORMAT_DMA_DRM)
    return Error{"the frame came with a modifier", EOPNOTSUPP, ""};
  GstVideoInfo info = frame.layout;
  if (meta != nullptr) {
    std::copy_n(meta->offset, meta->n_planes, info.offset);
    std::copy_n(meta->stride, meta->n_planes, info.stride);
    if (auto right = laidOutAs(frame.plain, info); !right) return right.error();
  }
  GstBuffer *out = gst_buffer_new();
  for (guint i = 0; i < gst_buffer_n_memory(before); ++i)
    gst_buffer_append_memory(out, gst_memory_ref(gst_buffer_peek_memory(before, i)));
  copyFrameMetadata(out, frame.buffer);
  if (meta != nullptr) setVideoMeta(out, info);
  if (waitPoint("export-original-fences"))
    if (auto passed = passFences(out, before); !passed) {
      gst_buffer_unref(out);
      return passed.error();
    }
  gst_buffer_add_parent_buffer_meta(out, frame.buffer); // the producer gets its buffer back after all who have it
  ++counters_->originals;
  return out;
}

// --- address-range

Result<ExportSession::Exported *> ExportSession::exportMemory(GstMemory *memory) {
  const Driver &driver = context_->driver;
  if (driver.cuMemGetHandleForAddressRange == nullptr || driver.cuMemGetAddressRange == nullptr)
    return Error{"the driver has no cuMemGetHandleForAddressRange", ENOSYS, "It came with CUDA 11.7"};
  if (driver.attribute(context_->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0)
    return Error{"the device cannot make dma-bufs of its memory (attribute 124)", ENOSYS, ""};
  const DeviceMap map(memory);
  if (!map) return Error{"map the frame for the CUDA device", EIO, ""};
  ContextScope scope(*context_);
  if (auto current = scope.status(); !current) return current.error();
  CUdeviceptr base = 0;
  size_t allocated = 0;
  if (auto found = driver.check(driver.cuMemGetAddressRange(&base, &allocated, map.address()), "cuMemGetAddressRange");
      !found)
    return found.error();
  // whole pages of the host, which a small allocation may share with others: those are not given away
  const auto page = static_cast<CUdeviceptr>(sysconf(_SC_PAGESIZE));
  auto exported = std::make_unique<Exported>();
  exported->range = map.address() / page * page;
  const CUdeviceptr end = (map.address() + memory->size + page - 1) / page * page;
  exported->size = end - exported->range;
  exported->start = map.address() - exported->range;
  if (exported->range < base || end > base + allocated)
    return Error{"the memory shares a page with other memory of the device", EINVAL, ""};
  int fd = -1;
  const std::string what = "cuMemGetHandleForAddressRange of " + std::to_string(exported->size) + " bytes";
  if (auto got = driver.check(driver.cuMemGetHandleForAddressRange(&fd, exported->range, exported->size,
                                                                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                              what);
      !got)
    return got.error();
  exported->memory = gst_dmabuf_allocator_alloc(allocator_, fd, exported->size);
  if (exported->memory == nullptr) return Error{"a memory over the device's dma-buf", EINVAL, ""};
  ++counters_->exports;
  auto *kept = exported.release();
  gst_cuda_memory_set_token_data(GST_CUDA_MEMORY_CAST(memory), token_, kept,
                                 [](gpointer data) { delete static_cast<Exported *>(data); });
  return kept;
}

// Whether somebody still writes the frame, on the device or elsewhere.
bool ExportSession::isPending(GstBuffer *frame, GstMemory *memory) const {
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(frame, &state, GST_ZC_FENCE_META_API_TYPE)) {
    auto *fence = reinterpret_cast<GstZcFenceMeta *>(meta);
    if (GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(fence);
        event != nullptr && gst_zc_device_event_get_status(event) == 0)
      return true;
    const UniqueFd fd(gst_zc_fence_meta_dup_fd(fence));
    pollfd request = {fd.get(), POLLIN, 0};
    if (fd.isValid() && poll(&request, 1, 0) == 0) return true;
  }
  if (!needsSync(memory)) return false;
  const ContextScope scope(*context_);
  return scope.status() && context_->driver.cuStreamQuery(streamOf(memory)) == CUDA_ERROR_NOT_READY;
}

// The dma-buf that the driver gave shows what the device has, in one of the first frames that is complete: to compare
// another would find differences that are none, and wait for its writer. The CPU cannot look into memory of many
// devices.
Status ExportSession::verify(const Exported &exported, GstBuffer *frame, GstMemory *memory,
                             const GstVideoInfo &layout) {
  if (trusted_ || checks_ >= kMostChecks) return Nothing{};
  ++checks_;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (waitPoint("export-check") && isPending(frame, memory)) {
    if (std::chrono::steady_clock::now() >= end) return Nothing{};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ImportSource source;
  source.fd = gst_dmabuf_memory_get_fd(exported.memory);
  source.size = exported.size;
  source.width = static_cast<uint32_t>(GST_VIDEO_INFO_WIDTH(&layout));
  source.height = static_cast<uint32_t>(GST_VIDEO_INFO_HEIGHT(&layout));
  const PixelPlanes pixels = pixelPlanes(layout);
  DeviceImport device;
  device.pointer = exported.range;
  device.size = exported.size;
  source.n_planes = device.n_planes = std::min(pixels.n, kMaxImportPlanes);
  for (guint p = 0; p < source.n_planes; ++p)
    source.planes[p] = device.planes[p] = {
        pixels.planes[p].offset + exported.start, static_cast<uint32_t>(pixels.planes[p].pitch),
        static_cast<uint32_t>(pixels.planes[p].rows), static_cast<uint32_t>(pixels.planes[p].row_bytes)};
  auto check = checkContent(*context_, source, device);
  if (!check) return check.error();
  if (check->verdict == ContentVerdict::Different) {
    range_wrong_ = true;
    const Error wrong{"the dma-buf shows other bytes than the device, from byte " +
                          std::to_string(check->first_difference) + " on",
                      EIO, ""};
    report(kAddressRange, RouteStage::WrongContent, wrong.message());
    return wrong;
  }
  if (check->verdict == ContentVerdict::Same) trusted_ = changed_ = true;
  return Nothing{};
}

Result<ExportSession::Exported *> ExportSession::exported(GstMemory *memory) {
  if (range_wrong_) return Error{reports_[kAddressRange].reason, 0, ""};
  gpointer known = gst_cuda_memory_get_token_data(GST_CUDA_MEMORY_CAST(memory), token_);
  if (known == nullptr) return exportMemory(memory);
  ++counters_->hits;
  return static_cast<Exported *>(known);
}

Result<GstBuffer *> ExportSession::addressRange(const Frame &frame) {
  if (auto right = laidOutAs(frame.plain, frame.layout); !right) return right.error();
  auto whole = exported(frame.memory);
  if (!whole) return whole.error();
  if (auto right = verify(**whole, frame.buffer, frame.memory, frame.layout); !right) return right.error();
  GstBuffer *out = gst_buffer_new();
  copyFrameMetadata(out, frame.buffer);
  GstVideoInfo info = frame.layout;
  if (frame.plain != nullptr) { // a view: the exported memory is others' too
    const auto begin = static_cast<gssize>((*whole)->start),
               size = static_cast<gssize>(GST_VIDEO_INFO_SIZE(frame.plain));
    gst_buffer_append_memory(out, gst_memory_share((*whole)->memory, begin, size));
  } else {
    gst_buffer_append_memory(out, gst_memory_ref((*whole)->memory));
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) info.offset[p] += (*whole)->start;
  }
  setVideoMeta(out, info);
  gst_buffer_add_parent_buffer_meta(out, frame.buffer); // its memory is not used for another frame meanwhile
  if (auto told = tellWhenReady(out, frame.buffer, frame.memory); !told) {
    gst_buffer_unref(out);
    return told.error();
  }
  return out;
}

// What the device has still to do in the frame.
Status ExportSession::tellWhenReady(GstBuffer *buffer, GstBuffer *frame, GstMemory *memory) {
  if (waitPoint("export-range-fences"))
    if (auto passed = passFences(buffer, frame); !passed) return passed;
  if (!needsSync(memory)) return Nothing{};
  if (!waitPoint("export-event")) return Nothing{};
  auto event = events_->record(streamOf(memory), nullptr);
  if (!event) return event.error();
  gst_buffer_add_zc_event_meta(buffer, *event, 0);
  gst_zc_device_event_unref(*event);
  return Nothing{};
}

} // namespace gstzc::cuda
