// SPDX-License-Identifier: LGPL-2.1-or-later
// Route vulkan-bridge. The same memory cannot be imported as a dma-buf and exported for CUDA, so the device copies each
// frame: CUDA's stream signals a timeline semaphore when the frame is ready and its last copy is not read any more, the
// Vulkan queue waits for that, copies and signals, and the stream waits for it. No CPU waits, unless the semaphore
// cannot be shared.
#include "ext/cuda/routes/route.h"
#include "gstzc-config.h"

#include <cerrno>

#if GSTZC_HAVE_VULKAN
#include <chrono>
#include <mutex>
#include <thread>

#include "ext/cuda/routes/vulkan_copy.h"
#include "ext/cuda/routes/vulkan_cuda.h"
#include "ext/cuda/sync/wait_points.h"
#endif

namespace gstzc::cuda {

#if GSTZC_HAVE_VULKAN
namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned kDedicated = 1;                         // CUDA_EXTERNAL_MEMORY_DEDICATED
constexpr std::chrono::seconds kCopyDeadline{5};           // of a copy that the CPU waits for
constexpr std::chrono::milliseconds kDestroyPatience{200}; // with a copy that should be over by contract

class BridgeImport : public DeviceImport {
public:
  BridgeImport(ContextPtr context, std::unique_ptr<VulkanCopy> copy)
      : context_(std::move(context)), copy_(std::move(copy)) {}

  ~BridgeImport() override {
    // A copy that never ends keeps what it works on: destroying that would be worse than losing it.
    const auto ended = waitPoint("bridge-destroy") ? copy_->wait(last_, kDestroyPatience) : Status(Nothing{});
    if (!ended && ended.error().code == ETIMEDOUT) (void)copy_.release();
  }

  // CUDA's view of the copy, and the semaphore where that can be shared.
  Status map(const ImportSource &source) {
    auto fd = copy_->exportMemory();
    if (!fd) return fd.error();
    const ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current.error();
    const Driver &driver = context_->driver;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = {};
    memory.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    memory.handle.fd = fd->get();
    memory.size = copy_->memorySize();
    memory.flags = copy_->isDedicated() ? kDedicated : 0;
    CUexternalMemory handle = nullptr;
    if (auto imported = driver.check(driver.cuImportExternalMemory(&handle, &memory),
                                     "cuImportExternalMemory of " + std::to_string(memory.size) + " bytes of Vulkan's");
        !imported)
      return imported.error();
    (void)fd->release(); // CUDA's since then
    memory_ = ExternalMemory(context_, handle);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {};
    buffer.size = copy_->range().size;
    CUdeviceptr mapped_at = 0;
    if (auto mapped = driver.check(driver.cuExternalMemoryGetMappedBuffer(&mapped_at, memory_.get(), &buffer),
                                   "cuExternalMemoryGetMappedBuffer of " + std::to_string(buffer.size) + " bytes");
        !mapped)
      return mapped.error();
    mapped_ = DeviceMemory(context_, mapped_at);

    pointer = mapped_at;
    size = copy_->range().size;
    n_planes = source.n_planes;
    planes = source.planes;
    for (unsigned i = 0; i < n_planes; ++i) planes[i].offset -= copy_->range().begin;
    return Nothing{};
  }

  void share(ExternalSemaphore semaphore) { semaphore_ = std::move(semaphore); }
  Status useEvent() {
    auto event = newEvent(context_);
    if (!event) return event.error();
    event_ = event.take();
    return Nothing{};
  }

  uint64_t copyBytes() const override { return copy_->range().size; }

  Status refresh(CUstream stream) override {
    const std::lock_guard lock(refreshing_);
    return semaphore_ ? refreshOnDevice(stream) : refreshByHost(stream);
  }

private:
  Status refreshOnDevice(CUstream stream) {
    // Values rise in the order of the calls, whichever streams they are made for.
    if (last_ > 0 && stream != last_stream_ && waitPoint("bridge-stream-order"))
      if (auto ordered = waitOnStream(*context_, semaphore_.get(), last_, stream); !ordered) return ordered;
    last_stream_ = stream;
    uint64_t ready = last_;
    if (waitPoint("bridge-frame-ready")) {
      if (auto signalled = signalOnStream(*context_, semaphore_.get(), ready + 1, stream); !signalled) return signalled;
      last_ = ++ready;
    }
    if (auto started = copy_->start(ready, ready + 1); !started) return started;
    last_ = ready + 1;
    if (!waitPoint("bridge-copy-done")) return Nothing{};
    return waitOnStream(*context_, semaphore_.get(), last_, stream);
  }

  // The same order with a thread that sleeps for it.
  Status refreshByHost(CUstream stream) {
    const Driver &driver = context_->driver;
    const auto deadline = Clock::now() + kCopyDeadline;
    if (waitPoint("bridge-frame-ready")) {
      if (auto recorded = driver.check(driver.cuEventRecord(event_.get(), stream), "cuEventRecord"); !recorded)
        return recorded;
      auto pause = std::chrono::microseconds(50);
      CUresult result;
      while ((result = driver.cuEventQuery(event_.get())) == CUDA_ERROR_NOT_READY) {
        if (Clock::now() > deadline)
          return Error{"the frame was not ready for its copy in " + std::to_string(kCopyDeadline.count()) + " s",
                       ETIMEDOUT, ""};
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
      }
      if (auto ended = driver.check(result, "cuEventQuery"); !ended) return ended;
    }
    // one that was late before is still on its way
    if (auto before = copy_->wait(last_, std::max(Clock::duration::zero(), deadline - Clock::now())); !before)
      return before;
    if (auto started = copy_->start(last_, last_ + 1); !started) return started;
    ++last_;
    if (!waitPoint("bridge-copy-done")) return Nothing{};
    return copy_->wait(last_, std::max(Clock::duration::zero(), deadline - Clock::now()));
  }

  // CUDA's part goes before what it is of
  const ContextPtr context_;
  std::unique_ptr<VulkanCopy> copy_;
  ExternalMemory memory_;
  DeviceMemory mapped_;
  ExternalSemaphore semaphore_;
  Event event_; // without a semaphore

  std::mutex refreshing_;
  uint64_t last_ = 0; // value of the timeline when all is done that was asked for
  CUstream last_stream_ = nullptr;
};

class VulkanBridgeRoute : public ImportRoute {
public:
  explicit VulkanBridgeRoute(ContextPtr context) : context_(std::move(context)) {}
  const char *name() const override { return "vulkan-bridge"; }
  bool copies() const override { return true; }

  Status available() override {
    const Driver &driver = context_->driver;
    if (driver.cuImportExternalMemory == nullptr || driver.cuExternalMemoryGetMappedBuffer == nullptr ||
        driver.cuDestroyExternalMemory == nullptr)
      return Error{"the CUDA driver has no external memory", ENOSYS, "Update the driver"};
    if (device_ && !device_->isLost()) return Nothing{};
    device_.reset(); // imports that are left keep a lost one
    auto uuid = uuidOf(*context_);
    if (!uuid) return uuid.error();
    auto device = VulkanDevice::create(*uuid);
    if (!device) return device.error();
    if (auto able = VulkanCopy::supported(**device); !able) return able.error();
    device_ = device.take();
    on_device_ = semaphoresShared(*context_, *device_).ok();
    return Nothing{};
  }

  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    if (auto able = available(); !able) return able.error();
    auto copy = VulkanCopy::create(device_, source);
    if (!copy) return copy.error();
    const VkSemaphore timeline = (*copy)->timeline();
    auto import = std::make_shared<BridgeImport>(context_, copy.take());
    if (auto mapped = import->map(source); !mapped) return mapped.error();
    if (on_device_) {
      auto semaphore = importTimeline(context_, device_, timeline);
      if (semaphore)
        import->share(semaphore.take());
      else
        on_device_ = false; // refused: the CPU will wait, for this import and the next
    }
    if (!on_device_)
      if (auto made = import->useEvent(); !made) return made.error();
    return std::shared_ptr<DeviceImport>(std::move(import));
  }

private:
  const ContextPtr context_;
  VulkanDevicePtr device_;
  bool on_device_ = false; // semaphores are shared
};

} // namespace

#else
namespace {

class VulkanBridgeRoute : public ImportRoute {
public:
  explicit VulkanBridgeRoute(const ContextPtr &) {}
  const char *name() const override { return "vulkan-bridge"; }
  bool copies() const override { return true; }
  Status available() override { return Error{"built without Vulkan", ENOSYS, "Build with libvulkan-dev installed"}; }
  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &) override { return available().error(); }
};

} // namespace
#endif

std::unique_ptr<ImportRoute> makeVulkanBridgeRoute(ContextPtr context) {
  return std::make_unique<VulkanBridgeRoute>(std::move(context));
}

} // namespace gstzc::cuda
