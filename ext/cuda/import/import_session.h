// SPDX-License-Identifier: LGPL-2.1-or-later
// What dmabufcudaimport has on a device between start and stop, and the steps that a frame takes there.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

#include "ext/cuda/import/reader_contexts.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/routes/import_cache.h"
#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::cuda {

// The streaming thread's, but for what is said to be thread-safe.
class ImportSession {
public:
  struct Counters { // thread-safe
    std::atomic<uint64_t> copies{0}, bytes_copied{0}, retired{0};
    std::atomic<uint64_t> fence_waits{0}, fence_timeouts{0}, fence_errors{0};
  };
  // How fences ended that were still pending when the frame went on; on any thread, and quick.
  using Late = std::function<void(const FenceResult &, std::chrono::milliseconds timeout)>;

  // A stream and all else on the context. Errors: the device refuses; a route that does not exist.
  static Result<std::unique_ptr<ImportSession>> open(GstCudaContext *context, RouteWishes wishes,
                                                     std::shared_ptr<Counters> counters);
  // Lets everything pass that waits, and waits for the device, a second at most: what is left then is kept until the
  // device is done or lost. Memories that others still have stay good.
  ~ImportSession();
  ImportSession(const ImportSession &) = delete;
  ImportSession &operator=(const ImportSession &) = delete;

  // For one frame: its import, and the wait for its fences on the device.
  struct Request {
    GstBuffer *frame = nullptr; // borrowed
    ImportSource source;
    std::chrono::milliseconds timeout{0}; // for its fences, from now
    std::function<bool()> interrupted;    // looked at where the streaming thread has to sleep
  };
  struct Prepared {
    std::shared_ptr<DeviceImport> import;
    // How the fences ended, where that is known now; an error: they could not be waited for. Nothing: the device waits.
    std::optional<Result<FenceResult>> end;
    std::shared_ptr<std::atomic<int>> failure; // errno of the fences; of those that end later, too. Null: none at all
  };
  Result<Prepared> prepare(const Request &request, Late late);

  // After prepare(): copies what has to be copied, and makes the frame's memory, which holds the frame until the device
  // is done. Where the device has still something to do for it the memory is marked as in need of synchronisation, and
  // there is an event.
  struct Imported {
    GstMemory *memory = nullptr;       // transfer full
    GstVideoInfo info = {};            // where its planes lie
    GstZcDeviceEvent *event = nullptr; // transfer full; null: ready
  };
  Result<Imported> wrap(const Prepared &prepared, GstBuffer *frame, const GstVideoInfo &info);

  // The stream that frames are given out on from now on: that on which downstream reads, so that nobody has to wait
  // between the two. Null, or one of another context: the session's own. Frames keep theirs.
  void readOn(GstCudaStream *stream);

  // Frames are read in this context, too: one of another device, or of somebody who has his own. Where it does not show
  // that a frame was read on its own stream only, it is kept until this context is done as well. To the session's end.
  // Of its own context nothing changes.
  Status readIn(GstCudaContext *context);

  // A frame in memory that is no dma-buf, copied with the CPU; counted. Its fences have to be over.
  Result<Imported> copyFromHost(GstBuffer *frame, const FrameCaps &caps, const std::function<bool()> &interrupted);

  // Of the gate: lets pass what waits for fences.
  void keepOpen(bool on) { gate_->keepOpen(on); }           // thread-safe
  void open() { gate_->open(); }                            // thread-safe
  size_t pendingFences() const { return gate_->pending(); } // thread-safe
  size_t pendingFrames() const {                            // thread-safe
    return std::max(retire_->pending(), elsewhere_->pending());
  }
  CachedImports &imports() { return *imports_; }
  const char *gateName() const { return gate_->name(); }
  const ContextPtr &context() const { return context_; }

private:
  ImportSession() = default;
  Result<GstZcDeviceEvent *> markBusy(GstMemory *memory, std::shared_ptr<std::atomic<int>> failure);
  Status contextWorks() const;
  Retire retire() const;
  bool isOwn() const { return gst_stream_ == own_stream_; }
  void count(const Result<FenceResult> &end) const;
  Result<FenceResult> waitHere(FrameFences fences, const Request &request) const;

  GstCudaContext *gst_context_ = nullptr;
  GstCudaStream *own_stream_ = nullptr, *gst_stream_ = nullptr; // the second is that of the frames
  CUstream stream_ = nullptr;
  ContextPtr context_;
  std::shared_ptr<Counters> counters_;
  std::shared_ptr<EventSource> events_;
  std::shared_ptr<RetireQueue> retire_;
  std::shared_ptr<ReaderContexts> elsewhere_ = std::make_shared<ReaderContexts>();
  std::unique_ptr<StreamGate> gate_;
  std::unique_ptr<CachedImports> imports_;
};

} // namespace gstzc::cuda
