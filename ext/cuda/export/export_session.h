// SPDX-License-Identifier: LGPL-2.1-or-later
// What cudadmabufexport does with one frame: from memory of a CUDA device to a dma-buf that other devices can import.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "ext/cuda/routes/import_cache.h"
#include "ext/cuda/routes/route_choice.h"
#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// The ways back, in the order of preference.
//   original       the frame came from dmabufcudaimport: it goes on as the dma-buf that it was
//   address-range  the driver gives a dma-buf of the memory itself (cuMemGetHandleForAddressRange)
//   device-copy    the device copies the frame into a dma-buf that the CPU can see; only where copies are allowed
constexpr const char *kExportRoutes[] = {"original", "address-range", "device-copy"};

// Of one context, for one element between start and stop. The streaming thread's.
class ExportSession {
public:
  struct Counters { // thread-safe
    std::atomic<uint64_t> exports{0}, hits{0}, originals{0}, copies{0}, bytes_copied{0};
  };
  struct Wishes {
    std::string route = "auto";
    bool allow_copy = false;
  };

  // Errors: the device refuses.
  static Result<std::unique_ptr<ExportSession>> open(GstCudaContext *context, Wishes wishes,
                                                     std::shared_ptr<Counters> counters);
  ~ExportSession(); // waits for copies, a tenth of a second at most; what is left then ends by itself
  ExportSession(const ExportSession &) = delete;
  ExportSession &operator=(const ExportSession &) = delete;

  GstCudaContext *context() const { return gst_context_; }

  // What downstream wants.
  struct Request {
    std::function<Result<GstBuffer *>()> acquire; // a buffer for a copy, transfer full
    bool reads_video_meta = true;                 // else it takes planes to lie where the caps' format has them
    // for fences of the frame that are not the device's: a copy waits no longer, and then says that it is none
    std::chrono::milliseconds timeout{1000};
  };
  // The frame as a buffer of dma-bufs, with its metadata, where its planes lie, and what has to be waited for before it
  // is read. It holds `frame`, which is CUDA memory of this context in the layout of its GstVideoMeta, or of `info`,
  // which is that of the caps. Error: no route is left; it lists them with their reasons.
  Result<GstBuffer *> exportFrame(GstBuffer *frame, const GstVideoInfo &info, const Request &request);

  // Of the gate: lets copies pass that wait for fences.
  void keepOpen(bool on) { gate_->keepOpen(on); } // thread-safe

  const std::vector<RouteReport> &reports() const { return reports_; }
  std::string chosen() const;
  bool trusted() const { return trusted_; } // the CPU saw the device's content in an exported memory
  bool takeChanged() { return std::exchange(changed_, false); }

private:
  struct Exported; // a memory's dma-buf
  struct Rest;
  ExportSession() = default;
  bool wanted(size_t route) const;
  void report(size_t route, RouteStage stage, const std::string &reason);
  struct Frame {
    GstBuffer *buffer;
    GstMemory *memory;
    GstVideoInfo layout;       // of the device's memory
    const GstVideoInfo *plain; // the only layout that downstream reads; null: any
  };
  Result<GstBuffer *> take(size_t route, const Frame &frame, const Request &request);
  Result<GstBuffer *> original(const Frame &frame);
  Result<GstBuffer *> addressRange(const Frame &frame);
  Result<GstBuffer *> deviceCopy(const Frame &frame, const Request &request);
  using Failure = std::shared_ptr<std::atomic<int>>; // the errno that fences ended with; null: there were none
  Result<Failure> putBehindWriters(CUstream stream, GstBuffer *frame, std::chrono::milliseconds timeout);
  Result<Exported *> exported(GstMemory *memory);
  Result<Exported *> exportMemory(GstMemory *memory);
  bool isPending(GstBuffer *frame, GstMemory *memory) const;
  Status verify(const Exported &exported, GstBuffer *frame, GstMemory *memory, const GstVideoInfo &layout);
  Status tellWhenReady(GstBuffer *buffer, GstBuffer *frame, GstMemory *memory);

  Wishes wishes_;
  std::shared_ptr<Counters> counters_;
  GstCudaContext *gst_context_ = nullptr;
  ContextPtr context_;
  std::shared_ptr<EventSource> events_;
  std::unique_ptr<RetireQueue> retire_;
  std::unique_ptr<StreamGate> gate_;
  std::unique_ptr<CachedImports> targets_; // of copies: their memory as the device sees it
  GstAllocator *allocator_ = nullptr;
  gint64 token_ = 0; // of the dma-bufs that memories have
  std::vector<RouteReport> reports_;
  int chosen_ = -1;
  bool range_wrong_ = false; // an exported memory showed something else
  bool trusted_ = false, changed_ = false;
  int checks_ = 0; // of its content
};

} // namespace gstzc::cuda
