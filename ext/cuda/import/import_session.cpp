// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/import_session.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/frame_copy.h"

namespace gstzc::cuda {
namespace {

// How long stopping waits for the device: its work is a few copies, once nothing waits for fences any more.
constexpr std::chrono::milliseconds kLongestStop{1000};
// GstVideoAlignment's masks: strides of 256 bytes, so that textures can be made of the planes
constexpr guint kStrideMask = 255;

int errorOf(const FenceResult &result) {
  return result.outcome == FenceOutcome::Signalled ? 0 : result.error != 0 ? result.error : EIO;
}

// Between the thread that hands a frame on and the one that hears of its fences.
struct Hearing {
  std::mutex mutex;
  bool gone_on = false; // the frame has
  std::optional<FenceResult> result;
};

} // namespace

Result<std::unique_ptr<ImportSession>> ImportSession::open(GstCudaContext *context, RouteWishes wishes,
                                                           std::shared_ptr<Counters> counters) {
  std::unique_ptr<ImportSession> session(new ImportSession);
  session->context_ = contextOf(context);
  if (!session->context_) return Driver::get().error();
  session->counters_ = std::move(counters);
  session->gst_context_ = GST_CUDA_CONTEXT(gst_object_ref(context));
  session->own_stream_ = gst_cuda_stream_new(context);
  if (session->own_stream_ == nullptr)
    return Error{"a stream on the CUDA device", EIO, "GST_DEBUG=cudastream:2 has the driver's reason"};
  session->readOn(nullptr);

  auto events = EventSource::create(session->context_);
  if (!events) return events.error();
  session->events_ = events.take();
  auto retire = RetireQueue::create(session->context_);
  if (!retire) return retire.error();
  session->retire_ = retire.take();
  session->gate_ = makeStreamGate(session->context_);
  session->imports_ = std::make_unique<CachedImports>(allRoutes(session->context_), std::move(wishes));
  return session;
}

ImportSession::~ImportSession() {
  if (gate_) gate_->keepOpen(true);
  if (retire_) retire_->drain(kLongestStop);
  elsewhere_->drain(kLongestStop);
  // the gate goes before what waits for it, and the streams last
  gate_.reset();
  imports_.reset();
  retire_.reset();
  elsewhere_.reset();
  events_.reset();
  gst_clear_cuda_stream(&gst_stream_);
  gst_clear_cuda_stream(&own_stream_);
  context_.reset();
  gst_clear_object(&gst_context_);
}

void ImportSession::readOn(GstCudaStream *stream) {
  GstCudaStream *chosen = stream != nullptr && stream->context == gst_context_ ? stream : own_stream_;
  gst_cuda_stream_ref(chosen);
  gst_clear_cuda_stream(&gst_stream_);
  gst_stream_ = chosen;
  stream_ = gst_cuda_stream_get_handle(chosen);
}

Status ImportSession::readIn(GstCudaContext *context) {
  if (context == gst_context_) return Nothing{};
  const ContextPtr other = contextOf(context);
  if (!other) return Driver::get().error();
  return elsewhere_->add(other);
}

void ImportSession::count(const Result<FenceResult> &end) const {
  if (!end || end->outcome == FenceOutcome::Failed)
    ++counters_->fence_errors;
  else if (end->outcome == FenceOutcome::TimedOut)
    ++counters_->fence_timeouts;
}

Result<FenceResult> ImportSession::waitHere(FrameFences fences, const Request &request) const {
  return waitForFences(std::move(fences), request.timeout, request.interrupted);
}

// Of a lost one all calls fail from then on.
Status ImportSession::contextWorks() const {
  const Driver &driver = context_->driver;
  CUresult said = CUDA_SUCCESS;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const ContextScope scope(*context_);
    said = scope.status() ? driver.cuStreamQuery(stream_) : CUDA_ERROR_INVALID_CONTEXT;
    if (said == CUDA_SUCCESS || said == CUDA_ERROR_NOT_READY) return Nothing{};
  }
  return driver.check(said, "the context on CUDA device " + std::to_string(context_->device) +
                                " does not work any more: something that ran there before has failed");
}

Result<ImportSession::Prepared> ImportSession::prepare(const Request &request, Late late) {
  Prepared prepared;
  auto fences = frameFences(request.frame, Access::Read);
  const bool fenced = !fences || !fences->none();
  if (fenced) ++counters_->fence_waits;
  if (!fences) prepared.end = fences.error();

  // Only a frame that is complete can be compared. That is the first, and few others.
  const auto check = [&](const ImportSource &source, DeviceImport &import) -> Result<ContentCheck> {
    if (fenced && !prepared.end && waitPoint("import-first-frame"))
      prepared.end = waitHere(std::move(*fences), request);
    const bool complete = !prepared.end || (prepared.end->ok() && (*prepared.end)->outcome == FenceOutcome::Signalled);
    if (complete) return checkContent(*context_, source, import);
    ContentCheck undecided;
    undecided.reason = "the first frame's producer was not done";
    return undecided;
  };
  auto import = imports_->get(request.source, check);
  if (!import) {
    // of a lost context no route can be had, and no other remedy helps
    if (auto alive = contextWorks(); !alive) return alive.error();
    return import.error();
  }
  prepared.import = import.take();
  if (!fenced) return prepared;

  prepared.failure = std::make_shared<std::atomic<int>>(0);
  if (!prepared.end) {
    const auto hearing = std::make_shared<Hearing>();
    const auto ended = [hearing, failure = prepared.failure, late = std::move(late), timeout = request.timeout,
                        counters = counters_](const FenceResult &result) {
      *failure = errorOf(result);
      {
        const std::lock_guard lock(hearing->mutex);
        if (!hearing->gone_on) {
          hearing->result = result;
          return;
        }
      }
      if (result.outcome == FenceOutcome::Failed) ++counters->fence_errors;
      if (result.outcome == FenceOutcome::TimedOut) ++counters->fence_timeouts;
      late(result, timeout);
    };
    const auto deadline = StreamGate::Clock::now() + request.timeout;
    Status held = Nothing{};
    if (waitPoint("import-fences")) held = gate_->hold(stream_, std::move(*fences).take(), deadline, ended);
    if (!held && waitPoint("import-hold-refused")) {
      // the device cannot wait: we can
      auto again = frameFences(request.frame, Access::Read);
      prepared.end = again ? waitHere(again.take(), request) : Result<FenceResult>(again.error());
    } else {
      const std::lock_guard lock(hearing->mutex);
      hearing->gone_on = true;
      if (hearing->result) prepared.end = *hearing->result;
    }
  }
  if (prepared.end) {
    count(*prepared.end);
    *prepared.failure = prepared.end->ok() ? errorOf(**prepared.end) : prepared.end->error().code;
  }
  return prepared;
}

Retire ImportSession::retire() const {
  // Memories may outlive the session, whose end has waited for the device. What others have enqueued since is waited
  // for. The stream is the memory's, which holds it.
  return [queue = std::weak_ptr(retire_), others = std::weak_ptr(elsewhere_), known = elsewhere_->known(),
          counters = counters_, context = context_, stream = stream_](Readers readers, std::function<void()> free) {
    auto done = [counters, free = std::move(free)] {
      ++counters->retired;
      free();
    };
    const bool anywhere = readers == Readers::Anywhere;
    const auto elsewhere = others.lock();
    if (const auto alive = queue.lock(); alive && elsewhere) {
      if (!anywhere) return alive->retire(stream, std::move(done));
      const auto here = [&](std::function<void()> then) { alive->retireBehindAll(stream, std::move(then)); };
      if (elsewhere->empty() || !waitPoint("retire-contexts")) return here(std::move(done));
      return elsewhere->retire(here, std::move(done));
    }
    if (ContextScope scope(*context); scope.status() && waitPoint("retire-after-session")) {
      if (anywhere)
        context->driver.cuCtxSynchronize();
      else
        context->driver.cuStreamSynchronize(stream);
    }
    if (anywhere) known->synchronize();
    done();
  };
}

Result<GstZcDeviceEvent *> ImportSession::markBusy(GstMemory *memory, std::shared_ptr<std::atomic<int>> failure) {
  if (waitPoint("import-need-sync")) GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  return events_->record(stream_, std::move(failure));
}

Result<ImportSession::Imported> ImportSession::wrap(const Prepared &prepared, GstBuffer *frame,
                                                    const GstVideoInfo &info) {
  const auto laid_out = importedInfo(info, *prepared.import);
  if (!laid_out) return laid_out.error();
  auto memory = wrapImport(
      gst_context_, gst_stream_, *laid_out, prepared.import,
      [frame = gst_buffer_ref(frame)] { gst_buffer_unref(frame); }, retire());
  if (!memory) {
    gst_buffer_unref(frame); // nobody else does
    return memory.error();
  }
  setFrameOf(*memory, frame);
  Imported imported = {*memory, *laid_out, nullptr};

  // from here on the memory holds the frame, whatever fails
  const auto failed = [&](const Error &error) {
    gst_memory_unref(*memory);
    return error;
  };
  if (prepared.import->refreshes() && waitPoint("import-refresh")) {
    ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return failed(current.error());
    if (auto fresh = prepared.import->refresh(stream_); !fresh) return failed(fresh.error());
  }
  if (prepared.import->copyBytes() > 0) {
    ++counters_->copies;
    counters_->bytes_copied += prepared.import->copyBytes();
  }
  const bool pending = prepared.failure && !prepared.end;
  const bool incomplete = prepared.failure && *prepared.failure != 0; // passed on all the same
  const bool refreshed = prepared.import->refreshes() && waitPoint("import-copy-event");
  if (!pending && !incomplete && !refreshed) {
    if (!isOwn()) watchReaders(*memory);
    return imported;
  }
  auto event = markBusy(*memory, prepared.failure);
  if (!event) return failed(event.error());
  imported.event = *event;
  return imported;
}

Result<ImportSession::Imported> ImportSession::copyFromHost(GstBuffer *frame, const FrameCaps &caps,
                                                            const std::function<bool()> &interrupted) {
  Imported imported;
  imported.info = caps.info;
  GstVideoAlignment alignment;
  gst_video_alignment_reset(&alignment);
  for (guint &mask : alignment.stride_align) mask = kStrideMask;
  if (!gst_video_info_align(&imported.info, &alignment)) return Error{"a layout for a copy of the frame", EINVAL, ""};
  auto memory = newCudaMemory(gst_context_, gst_stream_, imported.info, retire());
  if (!memory) return memory.error();
  imported.memory = *memory;

  GstBuffer *copy = gst_buffer_new();
  gst_buffer_append_memory(copy, gst_memory_ref(*memory));
  const GstVideoInfo *info = &imported.info;
  gst_buffer_add_video_meta_full(copy, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                 GST_VIDEO_INFO_WIDTH(info), GST_VIDEO_INFO_HEIGHT(info), GST_VIDEO_INFO_N_PLANES(info),
                                 info->offset, info->stride);
  auto bytes = copyFrame(copy, caps, frame, caps, interrupted);
  gst_buffer_unref(copy);
  if (bytes && !DeviceMap(*memory)) // what the CPU wrote goes to the device now
    bytes = Error{"copy a frame to the CUDA device", EIO, "GST_DEBUG=zccudamemory:2 has the driver's reason"};
  if (!bytes) {
    gst_memory_unref(*memory);
    return bytes.error();
  }
  if (!isOwn()) watchReaders(*memory);
  ++counters_->copies;
  counters_->bytes_copied += *bytes;
  return imported;
}

} // namespace gstzc::cuda
