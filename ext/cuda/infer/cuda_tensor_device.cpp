// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/infer/cuda_tensor_device.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>

#include "ext/cuda/infer/calling_back.h"
#include "ext/cuda/infer/device_results.h"
#include "ext/cuda/infer/read_frame.h"
#include "ext/cuda/infer/tensor_filler.h"
#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/import_cache.h"
#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::cuda {
namespace {

using infer::TensorDevice;
using infer::TensorTarget;

// That whoever gives the device up waits for what is under way. A producer that comes before it in the pipeline may be
// stopped only after it, and its fences end then.
constexpr std::chrono::milliseconds kPatience{100};

void callBack(const TensorDevice::Done &done, Status status) {
  const CallingBack here;
  done(std::move(status));
}

struct Work {
  GstBuffer *frame = nullptr;
  FrameCaps caps;
  infer::PixelPlan plan;
  TensorTarget target;
  infer::Made when = infer::Made::Done;
  TensorDevice::Done done;

  void end(const Status &status) {
    gst_clear_buffer(&frame);
    target = {};
    callBack(done, status);
  }
};

// What the device's thread has; nobody but that thread ends it.
class Core {
public:
  Core(ContextPtr context, std::vector<std::unique_ptr<ImportRoute>> routes)
      : context_(std::move(context)), imports_(std::move(routes), {.way_out = "Set preprocess-device=cpu"}) {}

  Result<CUstream> start(GstCudaContext *gst_context);
  void add(Work work);
  void stop();
  void work(); // the thread's whole life

  // For any thread.
  DeviceResults &results() { return *results_; }
  TensorFiller &filler() { return *first_; }
  guint64 copies() const { return copies_; }
  guint64 bytesCopied() const { return bytes_copied_; }

private:
  void process(Work work);
  Result<TensorFiller *> fillerFor(const ContextPtr &context);
  Result<ReadFrame> read(const Work &work);

  const ContextPtr context_;
  CachedImports imports_;
  std::unique_ptr<DeviceResults> results_;
  std::vector<std::unique_ptr<TensorFiller>> fillers_; // of each context; the first is of context_
  TensorFiller *first_ = nullptr;
  std::atomic<guint64> copies_ = 0, bytes_copied_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> line_; // under mutex_, as the next
  bool stopping_ = false;
};

Result<CUstream> Core::start(GstCudaContext *gst_context) {
  auto filler = fillerFor(context_);
  if (!filler) return filler.error();
  auto results = DeviceResults::create(context_, gst_context, (*filler)->stream());
  if (!results) return results.error();
  results_ = results.take();
  first_ = *filler;
  return (*filler)->stream();
}

void Core::add(Work work) {
  const std::lock_guard lock(mutex_);
  line_.push_back(std::move(work));
  changed_.notify_all();
}

void Core::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

void Core::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !line_.empty(); });
    if (line_.empty()) return;
    Work next = std::move(line_.front());
    line_.pop_front();
    const bool stopping = stopping_;
    lock.unlock();
    if (stopping)
      next.end(Error{"the frame was not read", ECANCELED, ""});
    else
      process(std::move(next));
  }
}

Result<TensorFiller *> Core::fillerFor(const ContextPtr &context) {
  for (const auto &filler : fillers_)
    if (filler->context() == context) return filler.get();
  auto made = TensorFiller::create(context);
  if (!made) return made.error();
  fillers_.push_back(made.take());
  return fillers_.back().get();
}

bool isWrittenByDevice(GstBuffer *frame) {
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(frame, &state, GST_ZC_FENCE_META_API_TYPE)) {
    GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(reinterpret_cast<GstZcFenceMeta *>(meta));
    if (event != nullptr && gst_zc_device_event_get_status(event) == 0) return true;
  }
  return false;
}

Result<ReadFrame> Core::read(const Work &work) {
  if (work.caps.memory == MemoryKind::Cuda) return readCudaFrame(work.frame, work.caps, work.plan.planes);
  const auto check = [&](const ImportSource &source, DeviceImport &import) -> Result<ContentCheck> {
    // the fences that the kernel knows are over
    if (waitPoint("frame-check") && isWrittenByDevice(work.frame))
      return ContentCheck{ContentVerdict::Undecided, 0, 0, "the frame was still being written"};
    return checkContent(*context_, source, import);
  };
  return readDmaBufFrame(work.frame, work.caps, work.plan.planes, imports_, check);
}

void Core::process(Work work) {
  auto read = this->read(work);
  if (!read) return work.end(read.error());
  const ContextPtr context = read->context != nullptr ? contextOf(read->context) : context_;
  if (context == nullptr) return work.end(Error{"the frame's CUDA context has no driver", ENODEV, ""});
  if (work.target.space == infer::MemorySpace::Device && context != context_)
    return work.end(Error{"the frame is in another CUDA context than the model's tensors", 0,
                          "Set execution-provider=cpu, or give all elements of the pipeline one context"});
  auto filler = fillerFor(context);
  if (!filler) return work.end(filler.error());
  if (read->import && read->import->copyBytes() > 0) {
    ++copies_;
    bytes_copied_ += read->import->copyBytes();
  }
  (*filler)->fill(std::exchange(work.frame, nullptr), read.take(), work.plan, std::move(work.target), work.when,
                  [done = std::move(work.done)](const Status &status) { callBack(done, status); });
}

bool isPrimary(const CudaContext &context) {
  const Driver &driver = context.driver;
  CUcontext primary = nullptr;
  unsigned flags = 0;
  int active = 0;
  if (driver.cuDevicePrimaryCtxRetain == nullptr || driver.cuDevicePrimaryCtxRelease == nullptr ||
      driver.cuDevicePrimaryCtxGetState == nullptr)
    return false;
  // to retain it would make it, which takes a while and memory
  if (driver.cuDevicePrimaryCtxGetState(context.device, &flags, &active) != CUDA_SUCCESS || active == 0) return false;
  if (driver.cuDevicePrimaryCtxRetain(&primary, context.device) != CUDA_SUCCESS) return false;
  driver.cuDevicePrimaryCtxRelease(context.device);
  return primary == context.handle;
}

class CudaTensorDevice : public TensorDevice, public std::enable_shared_from_this<CudaTensorDevice> {
public:
  // Shared with the thread, which outlives the device where that has to go at once.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool given_up = false; // nobody but the thread has the core
    bool over = false;
  };

  static Result<std::shared_ptr<TensorDevice>> create(ContextPtr context, const MakeRoutes &routes,
                                                      GstCudaContext *gst_context);
  CudaTensorDevice(ContextPtr context, std::shared_ptr<Core> core, CUstream stream, std::string name)
      : context_(std::move(context)), core_(std::move(core)), stream_(stream), name_(std::move(name)) {}
  ~CudaTensorDevice() override;

  std::string name() const override { return name_; }
  Status accepts(const FrameCaps &) override { return Nothing{}; } // of the formats, whoever makes the plans knows
  bool waitsFor(GstZcDeviceEvent *event) const override { return isCudaEvent(event); }
  Status fill(GstBuffer *frame, const FrameCaps &caps, const infer::PixelPlan &plan, TensorTarget target,
              infer::Made when, Done done) override {
    if (when == infer::Made::OnStream && target.space != infer::MemorySpace::Device)
      return Error{"a tensor in host memory, for who reads it on the device's stream", EINVAL, ""};
    core_->add({gst_buffer_ref(frame), caps, plan, std::move(target), when, std::move(done)});
    return Nothing{};
  }
  void toHost(infer::Outputs tensors, Came came) override {
    core_->results().toHost(core_->filler(), std::move(tensors), std::move(came));
  }
  Result<std::vector<infer::BufferRef>> share(const infer::Outputs &tensors) override {
    return core_->results().share(core_->filler(), tensors, shared_from_this());
  }
  Result<std::shared_ptr<void>> newHostMemory(size_t bytes) override {
    auto made = allocPinned(context_, bytes);
    if (!made) return made.error();
    auto owner = std::make_shared<PinnedMemory>(made.take());
    void *const data = owner->get();
    return std::shared_ptr<void>(std::move(owner), data);
  }
  Result<std::shared_ptr<void>> newDeviceMemory(size_t bytes) override {
    auto made = allocDevice(context_, bytes);
    if (!made) return made.error();
    auto owner = std::make_shared<DeviceMemory>(made.take());
    void *const data = reinterpret_cast<void *>(owner->get());
    return std::shared_ptr<void>(std::move(owner), data);
  }
  void *stream() const override { return stream_; }
  int libraryDevice() const override { return library_device_; }
  guint64 copies() const override { return core_->copies(); }
  guint64 bytesCopied() const override { return core_->bytesCopied(); }

private:
  Status startThread();

  const ContextPtr context_;
  std::shared_ptr<Core> core_;
  const CUstream stream_;
  const std::string name_;
  const int library_device_ = isPrimary(*context_) ? context_->device : -1;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

Status CudaTensorDevice::startThread() {
  // signals are the application's: its handlers run on its threads
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int code = 0;
  try {
    thread_ = std::thread([core = core_, shared = shared_]() mutable {
      core->work();
      std::unique_lock lock(shared->mutex);
      shared->changed.wait(lock, [&] { return shared->given_up; });
      lock.unlock();
      core.reset(); // which waits for what is under way, and must not do so on a thread that it waits for
      lock.lock();
      shared->over = true;
      shared->changed.notify_all();
    });
    pthread_setname_np(thread_.native_handle(), "fenceinfer-cuda");
  } catch (const std::system_error &error) {
    code = error.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != 0) return Error{"start the thread for CUDA", code, "The process may be out of threads"};
  return Nothing{};
}

CudaTensorDevice::~CudaTensorDevice() {
  core_->stop();
  core_.reset();
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->given_up = true;
    shared_->changed.notify_all();
  }
  bool over = false;
  if (!CallingBack::now()) { // else it would wait for itself
    std::unique_lock lock(shared_->mutex);
    over = shared_->changed.wait_for(lock, kPatience, [this] { return shared_->over; });
  }
  if (over)
    thread_.join();
  else
    thread_.detach();
}

std::string nameOf(const CudaContext &context) {
  char model[128] = "";
  context.driver.cuDeviceGetName(model, sizeof model, context.device);
  return "CUDA device " + std::to_string(context.device) + " (" + model + ")";
}

Result<std::shared_ptr<TensorDevice>> CudaTensorDevice::create(ContextPtr context, const MakeRoutes &routes,
                                                               GstCudaContext *gst_context) {
  auto core = std::make_shared<Core>(context, routes(context));
  auto stream = core->start(gst_context);
  if (!stream) {
    Error error = stream.error();
    error.what = nameOf(*context) + ": " + error.what;
    return error;
  }
  auto device = std::make_shared<CudaTensorDevice>(context, std::move(core), *stream, nameOf(*context));
  if (auto started = device->startThread(); !started) return started.error();
  return std::shared_ptr<TensorDevice>(std::move(device));
}

} // namespace

Result<std::shared_ptr<TensorDevice>> makeCudaTensorDevice(ContextPtr context, const MakeRoutes &routes,
                                                           GstCudaContext *gst_context) {
  return CudaTensorDevice::create(std::move(context), routes, gst_context);
}

} // namespace gstzc::cuda
