// SPDX-License-Identifier: LGPL-2.1-or-later
// Look-up of functions: of an extension only where it is enabled, of a device only from a device.
#include <cstring>

#include "tests/softcuda/vulkan/state.h"

// vulkan_core.h declares all of these
#define GLOBAL(F)               \
  F(vkEnumerateInstanceVersion) \
  F(vkEnumerateInstanceExtensionProperties) F(vkEnumerateInstanceLayerProperties) F(vkCreateInstance)
#define OF_INSTANCE(F)                              \
  F(vkDestroyInstance)                              \
  F(vkEnumeratePhysicalDevices)                     \
  F(vkGetPhysicalDeviceProperties)                  \
  F(vkGetPhysicalDeviceProperties2)                 \
  F(vkGetPhysicalDeviceFeatures)                    \
  F(vkGetPhysicalDeviceFeatures2)                   \
  F(vkGetPhysicalDeviceMemoryProperties)            \
  F(vkGetPhysicalDeviceMemoryProperties2)           \
  F(vkGetPhysicalDeviceQueueFamilyProperties)       \
  F(vkGetPhysicalDeviceQueueFamilyProperties2)      \
  F(vkGetPhysicalDeviceExternalBufferProperties)    \
  F(vkGetPhysicalDeviceExternalSemaphoreProperties) \
  F(vkEnumerateDeviceExtensionProperties)           \
  F(vkCreateDevice)
#define OF_DEVICE(F)                \
  F(vkDestroyDevice)                \
  F(vkGetDeviceQueue)               \
  F(vkDeviceWaitIdle)               \
  F(vkQueueWaitIdle)                \
  F(vkQueueSubmit)                  \
  F(vkQueueSubmit2)                 \
  F(vkCreateBuffer)                 \
  F(vkDestroyBuffer)                \
  F(vkGetBufferMemoryRequirements)  \
  F(vkGetBufferMemoryRequirements2) \
  F(vkAllocateMemory)               \
  F(vkFreeMemory)                   \
  F(vkBindBufferMemory)             \
  F(vkBindBufferMemory2)            \
  F(vkMapMemory)                    \
  F(vkUnmapMemory)                  \
  F(vkFlushMappedMemoryRanges)      \
  F(vkInvalidateMappedMemoryRanges) \
  F(vkCreateSemaphore)              \
  F(vkDestroySemaphore)             \
  F(vkGetSemaphoreCounterValue)     \
  F(vkSignalSemaphore)              \
  F(vkWaitSemaphores)               \
  F(vkCreateFence)                  \
  F(vkDestroyFence)                 \
  F(vkResetFences)                  \
  F(vkGetFenceStatus)               \
  F(vkWaitForFences)                \
  F(vkCreateCommandPool)            \
  F(vkDestroyCommandPool)           \
  F(vkResetCommandPool)             \
  F(vkAllocateCommandBuffers)       \
  F(vkFreeCommandBuffers)           \
  F(vkResetCommandBuffer)           \
  F(vkBeginCommandBuffer)           \
  F(vkEndCommandBuffer)             \
  F(vkCmdCopyBuffer)                \
  F(vkCmdFillBuffer)                \
  F(vkCmdPipelineBarrier)           \
  F(vkCmdPipelineBarrier2)

SOFTVULKAN_API PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice, const char *);

namespace softvulkan {
namespace {

struct Entry {
  PFN_vkVoidFunction function;
  const char *extension = nullptr;
};
#define ENTRY(name) {#name, {reinterpret_cast<PFN_vkVoidFunction>(&name)}},
#define ENTRY_OF(name, extension) {#name, {reinterpret_cast<PFN_vkVoidFunction>(&name), extension}},
// functions that the core took over keep their older name where the extension is enabled
#define ENTRY_AS(alias, name, extension) {#alias, {reinterpret_cast<PFN_vkVoidFunction>(&name), extension}},

const std::map<std::string, Entry> &globals() {
  static const std::map<std::string, Entry> all = {GLOBAL(ENTRY)};
  return all;
}

const std::map<std::string, Entry> &ofInstance() {
  static const std::map<std::string, Entry> all = {
      OF_INSTANCE(ENTRY) ENTRY(vkGetDeviceProcAddr) ENTRY_AS(vkGetPhysicalDeviceProperties2KHR,
                                                             vkGetPhysicalDeviceProperties2, nullptr)
          ENTRY_AS(vkGetPhysicalDeviceExternalBufferPropertiesKHR, vkGetPhysicalDeviceExternalBufferProperties, nullptr)
              ENTRY_AS(vkGetPhysicalDeviceExternalSemaphorePropertiesKHR,
                       vkGetPhysicalDeviceExternalSemaphoreProperties, nullptr)};
  return all;
}

const std::map<std::string, Entry> &ofDevice() {
  static const std::map<std::string, Entry> all = {
      OF_DEVICE(ENTRY) ENTRY_OF(vkGetMemoryFdKHR, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME)
          ENTRY_OF(vkGetMemoryFdPropertiesKHR, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME)
              ENTRY_OF(vkGetSemaphoreFdKHR, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)
                  ENTRY_OF(vkImportSemaphoreFdKHR, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)
                      ENTRY_AS(vkWaitSemaphoresKHR, vkWaitSemaphores, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME)
                          ENTRY_AS(vkSignalSemaphoreKHR, vkSignalSemaphore, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME)
                              ENTRY_AS(vkGetSemaphoreCounterValueKHR, vkGetSemaphoreCounterValue,
                                       VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME)
                                  ENTRY_AS(vkQueueSubmit2KHR, vkQueueSubmit2, VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME)
                                      ENTRY_AS(vkCmdPipelineBarrier2KHR, vkCmdPipelineBarrier2,
                                               VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME)};
  return all;
}

PFN_vkVoidFunction in(const std::map<std::string, Entry> &table, const char *name, const Device *device) {
  const auto found = table.find(name);
  if (found == table.end()) return nullptr;
  const char *const extension = found->second.extension;
  return extension && device && !device->extensions.contains(extension) ? nullptr : found->second.function;
}

} // namespace
} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  if (strcmp(name, "vkGetInstanceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&vkGetInstanceProcAddr);
  if (const PFN_vkVoidFunction function = in(globals(), name, nullptr)) return function;
  if (!instance) return nullptr;
  const PFN_vkVoidFunction function = in(ofInstance(), name, nullptr);
  return function ? function : in(ofDevice(), name, nullptr);
}

SOFTVULKAN_API PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice handle, const char *name) {
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(&vkGetDeviceProcAddr);
  const Lock lock(state().lock);
  const auto device = find<Device>(handle, __func__);
  return device ? in(ofDevice(), name, device.get()) : nullptr;
}
