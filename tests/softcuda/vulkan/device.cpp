// SPDX-License-Identifier: LGPL-2.1-or-later
// The logical device and its queue's thread.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {

std::vector<const char *> deviceExtensions();

namespace {

// The queue's handle is the device's, told apart by its lowest bit.
constexpr uintptr_t kQueueBit = 1;

bool readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, 2) > 0;
}

// Waits for what a batch waits for; false: the device is given up. Without the lock.
bool waitForStart(const DevicePtr &device, Batch &batch) {
  for (Batch::Wait &wait : batch.waits)
    while (wait.payload ? !wait.payload->wait(wait.value, std::chrono::milliseconds(2))
                        : wait.sync_fd >= 0 && !readable(wait.sync_fd)) {
      const Lock lock(state().lock);
      if (device->stop || device->lost) return false;
    }
  return true;
}

void finish(Lock &, Batch &batch) {
  for (Batch::Wait &wait : batch.waits)
    if (wait.sync_fd >= 0) close(wait.sync_fd);
  for (Batch::Signal &signal : batch.signals) {
    std::vector<int> exported = std::move(signal.semaphore->exported);
    signal.semaphore->exported.clear();
    if (!exported.empty()) {
      for (const int fd : exported) {
        constexpr uint64_t kOne = 1;
        if (write(fd, &kOne, sizeof kOne) != sizeof kOne) misuse("a fence of our own could not be written");
        close(fd);
      }
    } else if (!signal.semaphore->payload->signal(signal.value)) {
      misuse("vkQueueSubmit: a semaphore at %llu was signalled with %llu",
             static_cast<unsigned long long>(signal.semaphore->payload->value()),
             static_cast<unsigned long long>(signal.value));
    }
  }
  if (batch.fence) batch.fence->signalled = true;
  for (const ObjectPtr &object : batch.uses) object->pending--;
}

void work(const DevicePtr &device) {
  Lock lock(state().lock);
  for (;;) {
    state().changed.wait(lock, [&] { return device->stop || !device->queue.empty(); });
    if (device->queue.empty()) return;
    Batch &batch = device->queue.front();
    lock.unlock();
    const bool started = waitForStart(device, batch);
    if (started) {
      if (const auto delay = softcuda::operationDelay(); delay.count() > 0) std::this_thread::sleep_for(delay);
      for (const auto &command : batch.commands) command();
    }
    lock.lock();
    finish(lock, batch);
    batch.commands.clear();
    device->queue.pop_front();
    state().changed.notify_all();
  }
}

} // namespace

VkQueue queueOf(uintptr_t device) { return toHandle<VkQueue>(device | kQueueBit); }
uintptr_t deviceOfQueue(VkQueue queue) { return number(queue) & ~kQueueBit; }

void startQueue(const DevicePtr &device) {
  device->thread = std::thread([device] { work(device); });
}

void stopQueue(Lock &lock, const DevicePtr &device) {
  device->stop = true;
  state().changed.notify_all();
  std::thread thread = std::move(device->thread);
  lock.unlock();
  if (thread.joinable()) thread.join();
  lock.lock();
}

} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                  const VkAllocationCallbacks *, VkDevice *out) {
  const Lock lock(state().lock);
  if (physical != physicalDevice()) misuse("vkCreateDevice: of no physical device");
  if (refused("device")) return VK_ERROR_INITIALIZATION_FAILED;
  auto device = std::make_shared<Device>();
  const std::vector<const char *> known = deviceExtensions();
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
    const char *const name = info->ppEnabledExtensionNames[i];
    if (std::ranges::none_of(known, [=](const char *other) { return strcmp(name, other) == 0; }))
      return VK_ERROR_EXTENSION_NOT_PRESENT;
    device->extensions.insert(name);
  }
  if (info->queueCreateInfoCount != 1 || info->pQueueCreateInfos[0].queueFamilyIndex != 0 ||
      info->pQueueCreateInfos[0].queueCount != 1)
    misuse("vkCreateDevice: there is one queue family with one queue");
  if (const auto *one = chained<VkPhysicalDeviceTimelineSemaphoreFeatures>(
          info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES))
    device->timeline_semaphores = one->timelineSemaphore;
  if (const auto *core =
          chained<VkPhysicalDeviceVulkan12Features>(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES))
    device->timeline_semaphores = core->timelineSemaphore;
  if (const auto *one = chained<VkPhysicalDeviceSynchronization2Features>(
          info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES))
    device->synchronization2 = one->synchronization2;
  if (const auto *core =
          chained<VkPhysicalDeviceVulkan13Features>(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES))
    device->synchronization2 = core->synchronization2;
  if (device->timeline_semaphores && state().without.contains(VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME))
    return VK_ERROR_FEATURE_NOT_PRESENT;
  startQueue(device);
  *out = toHandle<VkDevice>(addObject(device, 0));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroyDevice(VkDevice handle, const VkAllocationCallbacks *) {
  Lock lock(state().lock);
  const auto device = take<Device>(handle, __func__);
  if (!device) return;
  if (!device->queue.empty()) misuse("vkDestroyDevice: the queue works");
  for (const auto &[number_of, object] : state().objects)
    if (object->device == number(handle)) misuse("vkDestroyDevice: a %s of it lives", kindName(object->kind));
  stopQueue(lock, device);
}

SOFTVULKAN_API void VKAPI_CALL vkGetDeviceQueue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
  const Lock lock(state().lock);
  if (family != 0 || index != 0) misuse("vkGetDeviceQueue: of a queue that was not made");
  if (find<Device>(handle, __func__)) *out = queueOf(number(handle));
}

SOFTVULKAN_API VkResult VKAPI_CALL vkDeviceWaitIdle(VkDevice handle) {
  Lock lock(state().lock);
  const auto device = find<Device>(handle, __func__);
  if (!device) return VK_ERROR_DEVICE_LOST;
  state().changed.wait(lock, [&] { return device->queue.empty() || device->lost; });
  return device->lost ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkQueueWaitIdle(VkQueue queue) {
  return vkDeviceWaitIdle(toHandle<VkDevice>(deviceOfQueue(queue)));
}
