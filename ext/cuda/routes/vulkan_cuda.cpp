// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/vulkan_cuda.h"

#include <cerrno>
#include <cstring>

namespace gstzc::cuda {

Result<DeviceUuid> uuidOf(const CudaContext &context) {
  const Driver &driver = context.driver;
  if (driver.cuDeviceGetUuid == nullptr)
    return Error{"the CUDA driver has no cuDeviceGetUuid", ENOSYS, "Update the driver"};
  CUuuid raw = {};
  if (auto asked = driver.check(driver.cuDeviceGetUuid(&raw, context.device), "cuDeviceGetUuid"); !asked)
    return asked.error();
  DeviceUuid uuid;
  static_assert(sizeof raw.bytes == sizeof uuid);
  memcpy(uuid.data(), raw.bytes, sizeof uuid);
  return uuid;
}

Status semaphoresShared(const CudaContext &context, const VulkanDevice &device) {
  const Driver &driver = context.driver;
  if (driver.cuImportExternalSemaphore == nullptr || driver.cuDestroyExternalSemaphore == nullptr ||
      driver.cuWaitExternalSemaphoresAsync == nullptr || driver.cuSignalExternalSemaphoresAsync == nullptr)
    return Error{"the CUDA driver has no external semaphores", ENOSYS, "Update the driver"};
  if (driver.attribute(context.device, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) == 0)
    return Error{"the CUDA device takes no timeline semaphores", EOPNOTSUPP, ""};
  if (!device.hasTimelineExport())
    return Error{"the Vulkan device " + device.name() + " exports no timeline semaphores", EOPNOTSUPP, ""};
  return Nothing{};
}

Result<ExternalSemaphore> importTimeline(const ContextPtr &context, const VulkanDevicePtr &device,
                                         VkSemaphore semaphore) {
  auto fd = exportTimeline(device, semaphore);
  if (!fd) return fd.error();
  const ContextScope scope(*context);
  if (auto current = scope.status(); !current) return current.error();
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC description = {};
  description.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
  description.handle.fd = fd->get();
  CUexternalSemaphore handle = nullptr;
  const Driver &driver = context->driver;
  if (auto imported = driver.check(driver.cuImportExternalSemaphore(&handle, &description),
                                   "cuImportExternalSemaphore of a timeline semaphore");
      !imported)
    return imported.error();
  (void)fd->release(); // CUDA's since then
  return ExternalSemaphore(context, handle);
}

Status waitOnStream(const CudaContext &context, CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS parameters = {};
  parameters.params.fence.value = value;
  return context.driver.check(context.driver.cuWaitExternalSemaphoresAsync(&semaphore, &parameters, 1, stream),
                              "cuWaitExternalSemaphoresAsync");
}

Status signalOnStream(const CudaContext &context, CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS parameters = {};
  parameters.params.fence.value = value;
  return context.driver.check(context.driver.cuSignalExternalSemaphoresAsync(&semaphore, &parameters, 1, stream),
                              "cuSignalExternalSemaphoresAsync");
}

} // namespace gstzc::cuda
