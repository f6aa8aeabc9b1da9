// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/export/export_session.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <gst/allocators/allocators.h>

#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/host_register_target.h"
#include "ext/cuda/sync/behind.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

enum RouteIndex : size_t { kOriginal, kAddressRange, kDeviceCopy };
// That stopping waits for copies, and the first frames for their writers; and that what is left behind waits where the
// device does not get there.
constexpr std::chrono::milliseconds kPatience{100}, kLongestCopy{60'000};
constexpr int kMostChecks = 16; // frames that are compared: pictures may be too small, or too plain, to tell

CUstream streamOf(GstMemory *memory) {
  return gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)));
}

// Where the planes lie: as the buffer says, else its memory.
GstVideoInfo layoutOf(GstBuffer *frame, const GstVideoInfo &caps, GstMemory *memory) {
  GstVideoInfo layout = GST_CUDA_MEMORY_CAST(memory)->info;
  if (GST_VIDEO_INFO_FORMAT(&layout) != GST_VIDEO_INFO_FORMAT(&caps)) layout = caps;
  if (const GstVideoMeta *meta = gst_buffer_get_video_meta(frame); meta != nullptr)
    for (guint p = 0; p < meta->n_planes && p < GST_VIDEO_MAX_PLANES; ++p) {
      layout.offset[p] = meta->offset[p];
      layout.stride[p] = meta->stride[p];
    }
  return layout;
}

std::string listOf(const GstVideoInfo &info) {
  std::string offsets, strides;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    offsets += (p > 0 ? ", " : "") + std::to_string(info.offset[p]);
    strides += (p > 0 ? ", " : "") + std::to_string(info.stride[p]);
  }
  return "strides " + strides + " and offsets " + offsets;
}

// For who reads no GstVideoMeta, and takes planes to lie where the caps' format has them.
Status laidOutAs(const GstVideoInfo *plain, const GstVideoInfo &layout) {
  bool same = true;
  for (guint p = 0; plain != nullptr && p < GST_VIDEO_INFO_N_PLANES(plain); ++p)
    same = same && layout.offset[p] == plain->offset[p] && layout.stride[p] == plain->stride[p];
  if (same) return Nothing{};
  return Error{"the planes have " + listOf(layout) + ", and downstream, which does not read GstVideoMeta, expects " +
                   listOf(*plain),
               0, ""};
}

void addVideoMeta(GstBuffer *buffer, const GstVideoInfo &info) {
  if (const GstVideoMeta *old = gst_buffer_get_video_meta(buffer); old != nullptr)
    gst_buffer_remove_meta(buffer, reinterpret_cast<GstMeta *>(const_cast<GstVideoMeta *>(old)));
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&info),
                                 GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info),
                                 GST_VIDEO_INFO_N_PLANES(&info), info.offset, info.stride);
}

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

struct ExportSession::Frame {
  GstBuffer *buffer;
  GstMemory *memory;
  GstVideoInfo layout;       // of the device's memory
  const GstVideoInfo *plain; // the only layout that downstream reads; null: any
};

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
  const Frame one{frame, memory, layoutOf(frame, info, memory), request.reads_video_meta ? nullptr : &info};
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
  if (meta != nullptr) addVideoMeta(out, info);
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
  addVideoMeta(out, info);
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

// --- device-copy

bool isCudaEvent(GstZcDeviceEvent *event) {
  return std::strcmp(gst_zc_device_event_get_kind(event), kCudaEventKind) == 0;
}

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
