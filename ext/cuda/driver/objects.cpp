// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/driver/objects.h"

#include <cerrno>
#include <cstring>

namespace gstzc::cuda {
namespace {

// Runs `make` with the context current and owns what it made.
template <typename Owner, typename H, typename Make>
Result<Owner> made(const ContextPtr &context, const std::string &what, Make make) {
  ContextScope scope(*context);
  if (auto current = scope.status(); !current) return current.error();
  H handle{};
  if (auto status = context->driver.check(make(&handle), what); !status) return status.error();
  return Owner(context, handle);
}

} // namespace

Result<std::shared_ptr<const CudaContext>> CudaContext::create(int ordinal) {
  auto loaded = Driver::get();
  if (!loaded) return loaded.error();
  const Driver &driver = **loaded;
  int count = 0;
  if (auto status = driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"); !status) return status.error();
  if (ordinal < 0 || ordinal >= count)
    return Error{"CUDA device " + std::to_string(ordinal), ENODEV, "There are " + std::to_string(count) + ", from 0"};
  CUdevice device = 0;
  CUcontext handle = nullptr;
  const std::string what = "of CUDA device " + std::to_string(ordinal);
  if (auto status = driver.check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet " + what); !status)
    return status.error();
  // who waits for the device sleeps
  if (auto status = driver.check(driver.cuCtxCreate(&handle, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, device),
                                 "cuCtxCreate " + what);
      !status)
    return status.error();
  CUcontext popped = nullptr;
  driver.cuCtxPopCurrent(&popped); // it was made current
  std::shared_ptr<void> keep(handle, [&driver](void *h) { driver.cuCtxDestroy(static_cast<CUcontext>(h)); });
  return std::make_shared<const CudaContext>(driver, handle, device, std::move(keep));
}

Result<Stream> newStream(const ContextPtr &context) {
  return made<Stream, CUstream>(context, "cuStreamCreate", [&](CUstream *handle) {
    return context->driver.cuStreamCreate(handle, CU_STREAM_NON_BLOCKING);
  });
}

Result<Event> newEvent(const ContextPtr &context) {
  return made<Event, CUevent>(context, "cuEventCreate", [&](CUevent *handle) {
    return context->driver.cuEventCreate(handle, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  });
}

Result<DeviceMemory> allocDevice(const ContextPtr &context, size_t bytes) {
  return made<DeviceMemory, CUdeviceptr>(
      context, "cuMemAlloc of " + std::to_string(bytes) + " bytes",
      [&](CUdeviceptr *handle) { return context->driver.cuMemAlloc(handle, bytes); });
}

Result<PinnedMemory> allocPinned(const ContextPtr &context, size_t bytes) {
  auto memory =
      made<PinnedMemory, void *>(context, "cuMemHostAlloc of " + std::to_string(bytes) + " bytes", [&](void **handle) {
        return context->driver.cuMemHostAlloc(handle, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
      });
  if (memory) std::memset(memory->get(), 0, bytes);
  return memory;
}

} // namespace gstzc::cuda
