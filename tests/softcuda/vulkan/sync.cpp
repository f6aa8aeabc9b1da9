// SPDX-License-Identifier: LGPL-2.1-or-later
// Semaphores, with their payloads from and for others, and fences.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {

Semaphore::~Semaphore() {
  if (sync_fd >= 0) close(sync_fd);
  for (const int fd : exported) close(fd);
}

namespace {

constexpr auto kOpaqueSemaphore = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
constexpr auto kSyncFd = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;

std::chrono::nanoseconds patience(uint64_t timeout) {
  return std::chrono::nanoseconds(std::min<uint64_t>(timeout, uint64_t{INT64_MAX} / 4));
}

// A descriptor that becomes readable with the next signal, which the semaphore itself then does not get.
int exportSyncFd(Semaphore &semaphore) {
  if (semaphore.payload->wait(0, std::chrono::nanoseconds(0))) { // signalled already: as if it had been waited for
    semaphore.will_be_signalled = false;
    return eventfd(1, EFD_CLOEXEC);
  }
  if (!semaphore.will_be_signalled) {
    misuse("vkGetSemaphoreFdKHR: nothing will signal the semaphore");
    return -1;
  }
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return -1;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  semaphore.exported.push_back(own);
  semaphore.will_be_signalled = false;
  return fd;
}

} // namespace
} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateSemaphore(VkDevice handle, const VkSemaphoreCreateInfo *info,
                                                     const VkAllocationCallbacks *, VkSemaphore *out) {
  const Lock lock(state().lock);
  const auto device = find<Device>(handle, __func__);
  if (!device) return VK_ERROR_UNKNOWN;
  auto semaphore = std::make_shared<Semaphore>();
  uint64_t value = 0;
  if (const auto *type =
          chained<VkSemaphoreTypeCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO)) {
    semaphore->timeline = type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
    value = semaphore->timeline ? type->initialValue : 0;
  }
  if (semaphore->timeline && !device->timeline_semaphores)
    misuse("vkCreateSemaphore: the device was made without the feature timelineSemaphore");
  if (const auto *exports =
          chained<VkExportSemaphoreCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO))
    semaphore->exports = exports->handleTypes;
  if (semaphore->exports && !hasExtension(*device, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME, __func__))
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (semaphore->timeline && (semaphore->exports & kSyncFd)) misuse("vkCreateSemaphore: a timeline has no sync_file");
  semaphore->payload = softcuda::SharedSemaphore::create(semaphore->timeline, value);
  if (!semaphore->payload) return VK_ERROR_OUT_OF_HOST_MEMORY;
  *out = toHandle<VkSemaphore>(addObject(semaphore, number(handle)));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroySemaphore(VkDevice, VkSemaphore handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  take<Semaphore>(handle, __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkGetSemaphoreFdKHR(VkDevice, const VkSemaphoreGetFdInfoKHR *info, int *out) {
  const Lock lock(state().lock);
  const auto semaphore = find<Semaphore>(info->semaphore, __func__);
  if (!semaphore) return VK_ERROR_UNKNOWN;
  if ((semaphore->exports & static_cast<VkExternalSemaphoreHandleTypeFlags>(info->handleType)) == 0) {
    misuse("vkGetSemaphoreFdKHR: the semaphore was not made to be exported so");
    return VK_ERROR_UNKNOWN;
  }
  semaphore->shared = semaphore->shared || info->handleType == kOpaqueSemaphore;
  *out = info->handleType == kSyncFd ? exportSyncFd(*semaphore) : semaphore->payload->duplicate();
  return *out < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
}

// Takes the descriptor if it succeeds.
SOFTVULKAN_API VkResult VKAPI_CALL vkImportSemaphoreFdKHR(VkDevice handle, const VkImportSemaphoreFdInfoKHR *info) {
  const Lock lock(state().lock);
  const auto device = find<Device>(handle, __func__);
  const auto semaphore = find<Semaphore>(info->semaphore, __func__);
  if (!device || !semaphore || !hasExtension(*device, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME, __func__))
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (semaphore->pending > 0) misuse("vkImportSemaphoreFdKHR: the queue uses the semaphore");
  if (info->handleType == kSyncFd) {
    if (semaphore->timeline || !(info->flags & VK_SEMAPHORE_IMPORT_TEMPORARY_BIT))
      misuse("vkImportSemaphoreFdKHR: a sync_file is imported temporarily, into a binary semaphore");
    if (refused("sync-fd-import")) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    // -1 means a fence that is over
    if (info->fd != -1 && (!softcuda::isOpen(info->fd) || softcuda::opaqueKind(info->fd) != softcuda::Opaque::No))
      return VK_ERROR_INVALID_EXTERNAL_HANDLE;
    if (semaphore->sync_fd >= 0) close(semaphore->sync_fd);
    semaphore->temporary = true;
    semaphore->sync_fd = info->fd;
    return VK_SUCCESS;
  }
  auto payload = softcuda::SharedSemaphore::open(info->fd);
  if (info->handleType != kOpaqueSemaphore || !payload || payload->timeline() != semaphore->timeline)
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  semaphore->payload = std::move(payload);
  semaphore->shared = true;
  close(info->fd);
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkGetSemaphoreCounterValue(VkDevice, VkSemaphore handle, uint64_t *value) {
  const Lock lock(state().lock);
  const auto semaphore = find<Semaphore>(handle, __func__);
  if (!semaphore) return VK_ERROR_UNKNOWN;
  if (!semaphore->timeline) misuse("vkGetSemaphoreCounterValue: of a binary semaphore");
  *value = semaphore->payload->value();
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkSignalSemaphore(VkDevice, const VkSemaphoreSignalInfo *info) {
  const Lock lock(state().lock);
  const auto semaphore = find<Semaphore>(info->semaphore, __func__);
  if (!semaphore) return VK_ERROR_UNKNOWN;
  if (!semaphore->timeline || !semaphore->payload->signal(info->value))
    misuse("vkSignalSemaphore: of a binary semaphore, or with a value that it has reached");
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkWaitSemaphores(VkDevice, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
  const auto deadline = std::chrono::steady_clock::now() + patience(timeout);
  std::vector<std::shared_ptr<softcuda::SharedSemaphore>> payloads;
  {
    const Lock lock(state().lock);
    for (uint32_t i = 0; i < info->semaphoreCount; i++) {
      const auto semaphore = find<Semaphore>(info->pSemaphores[i], __func__);
      if (!semaphore) return VK_ERROR_UNKNOWN;
      if (!semaphore->timeline) {
        misuse("vkWaitSemaphores: for a binary semaphore");
        return VK_ERROR_UNKNOWN;
      }
      payloads.push_back(semaphore->payload);
    }
  }
  const bool any = info->flags & VK_SEMAPHORE_WAIT_ANY_BIT;
  for (;;) {
    uint32_t reached = 0;
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
      if (payloads[i]->value() >= info->pValues[i]) reached++;
    if (reached == info->semaphoreCount || (any && reached > 0)) return VK_SUCCESS;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return VK_TIMEOUT;
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
      if (payloads[i]->value() < info->pValues[i])
        payloads[i]->wait(info->pValues[i], std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(5)));
  }
}

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateFence(VkDevice handle, const VkFenceCreateInfo *info,
                                                 const VkAllocationCallbacks *, VkFence *out) {
  const Lock lock(state().lock);
  if (!find<Device>(handle, __func__)) return VK_ERROR_UNKNOWN;
  auto fence = std::make_shared<Fence>();
  fence->signalled = info->flags & VK_FENCE_CREATE_SIGNALED_BIT;
  *out = toHandle<VkFence>(addObject(fence, number(handle)));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroyFence(VkDevice, VkFence handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  take<Fence>(handle, __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkResetFences(VkDevice, uint32_t count, const VkFence *handles) {
  const Lock lock(state().lock);
  for (uint32_t i = 0; i < count; i++) {
    const auto fence = find<Fence>(handles[i], __func__);
    if (!fence) return VK_ERROR_UNKNOWN;
    if (fence->pending > 0) misuse("vkResetFences: the queue uses the fence");
    fence->signalled = false;
  }
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkGetFenceStatus(VkDevice device_handle, VkFence handle) {
  const Lock lock(state().lock);
  const auto device = find<Device>(device_handle, __func__);
  const auto fence = find<Fence>(handle, __func__);
  if (!device || !fence || device->lost) return VK_ERROR_DEVICE_LOST;
  return fence->signalled ? VK_SUCCESS : VK_NOT_READY;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkWaitForFences(VkDevice device_handle, uint32_t count, const VkFence *handles,
                                                   VkBool32 all, uint64_t timeout) {
  Lock lock(state().lock);
  const auto device = find<Device>(device_handle, __func__);
  std::vector<std::shared_ptr<Fence>> fences;
  for (uint32_t i = 0; i < count; i++) {
    fences.push_back(find<Fence>(handles[i], __func__));
    if (!fences.back()) return VK_ERROR_UNKNOWN;
  }
  if (!device) return VK_ERROR_DEVICE_LOST;
  const auto over = [&] {
    const auto signalled = [](const auto &fence) { return fence->signalled; };
    return device->lost || (all ? std::ranges::all_of(fences, signalled) : std::ranges::any_of(fences, signalled));
  };
  if (!state().changed.wait_for(lock, patience(timeout), over)) return VK_TIMEOUT;
  return device->lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}
