// SPDX-License-Identifier: LGPL-2.1-or-later
// The instance, and what the one physical device can do.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {
namespace {

char physical_device_body;

constexpr const char *kInstanceExtensions[] = {VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME,
                                               VK_KHR_EXTERNAL_MEMORY_CAPABILITIES_EXTENSION_NAME,
                                               VK_KHR_EXTERNAL_SEMAPHORE_CAPABILITIES_EXTENSION_NAME};
constexpr const char *kDeviceExtensions[] = {
    VK_KHR_EXTERNAL_MEMORY_EXTENSION_NAME,         VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
    VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME, VK_KHR_EXTERNAL_SEMAPHORE_EXTENSION_NAME,
    VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME,   VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME,
    VK_KHR_DEDICATED_ALLOCATION_EXTENSION_NAME,    VK_KHR_GET_MEMORY_REQUIREMENTS_2_EXTENSION_NAME,
    VK_KHR_BIND_MEMORY_2_EXTENSION_NAME,           VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME,
    VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME};

VkResult list(const std::vector<const char *> &names, uint32_t *count, VkExtensionProperties *out) {
  const uint32_t all = static_cast<uint32_t>(names.size());
  if (!out) {
    *count = all;
    return VK_SUCCESS;
  }
  const uint32_t n = std::min(*count, all);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(out[i].extensionName, sizeof out[i].extensionName, "%s", names[i]);
    out[i].specVersion = 1;
  }
  *count = n;
  return n < all ? VK_INCOMPLETE : VK_SUCCESS;
}

} // namespace

VkPhysicalDevice physicalDevice() { return reinterpret_cast<VkPhysicalDevice>(&physical_device_body); }

std::vector<const char *> deviceExtensions() { // with the lock held
  std::vector<const char *> names;
  for (const char *name : kDeviceExtensions)
    if (!state().without.contains(name)) names.push_back(name);
  return names;
}

} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkEnumerateInstanceVersion(uint32_t *version) {
  *version = VK_API_VERSION_1_3;
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkEnumerateInstanceExtensionProperties(const char *layer, uint32_t *count,
                                                                          VkExtensionProperties *out) {
  if (layer) return VK_ERROR_LAYER_NOT_PRESENT;
  return list({std::begin(kInstanceExtensions), std::end(kInstanceExtensions)}, count, out);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkEnumerateInstanceLayerProperties(uint32_t *count, VkLayerProperties *) {
  *count = 0;
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *,
                                                    VkInstance *out) {
  const Lock lock(state().lock);
  if (refused("instance")) return VK_ERROR_INCOMPATIBLE_DRIVER;
  if (info->enabledLayerCount > 0) return VK_ERROR_LAYER_NOT_PRESENT;
  for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
    if (std::ranges::none_of(kInstanceExtensions,
                             [&](const char *name) { return strcmp(name, info->ppEnabledExtensionNames[i]) == 0; }))
      return VK_ERROR_EXTENSION_NOT_PRESENT;
  // what is used here of the core is of 1.1 and 1.2; without a word the instance is one of 1.0
  if (!info->pApplicationInfo || info->pApplicationInfo->apiVersion < VK_API_VERSION_1_1)
    misuse("vkCreateInstance: the functions of Vulkan 1.1 are used with an instance of 1.0");
  *out = toHandle<VkInstance>(addObject(std::make_shared<Instance>(), 0));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroyInstance(VkInstance handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  take<Instance>(handle, __func__);
  if (std::ranges::any_of(state().objects, [](const auto &entry) { return entry.second->kind == Kind::Device; }) &&
      std::ranges::none_of(state().objects, [](const auto &entry) { return entry.second->kind == Kind::Instance; }))
    misuse("vkDestroyInstance: a device of it lives");
}

SOFTVULKAN_API VkResult VKAPI_CALL vkEnumeratePhysicalDevices(VkInstance handle, uint32_t *count,
                                                              VkPhysicalDevice *out) {
  const Lock lock(state().lock);
  if (!find<Instance>(handle, __func__)) return VK_ERROR_INITIALIZATION_FAILED;
  if (refused("physical-device")) {
    *count = 0;
    return VK_SUCCESS;
  }
  if (out && *count == 0) return VK_INCOMPLETE;
  *count = 1;
  if (out) out[0] = physicalDevice();
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceProperties(VkPhysicalDevice, VkPhysicalDeviceProperties *out) {
  *out = {};
  out->apiVersion = VK_API_VERSION_1_3;
  out->driverVersion = 1;
  out->vendorID = 0x10de;
  out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  snprintf(out->deviceName, sizeof out->deviceName, "softvulkan");
  out->limits.minMemoryMapAlignment = 4096;
  out->limits.optimalBufferCopyOffsetAlignment = 1;
  out->limits.nonCoherentAtomSize = 1;
  out->limits.maxMemoryAllocationCount = 4096;
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                                              VkPhysicalDeviceProperties2 *out) {
  vkGetPhysicalDeviceProperties(device, &out->properties);
  if (auto *id =
          chainedOut<VkPhysicalDeviceIDProperties>(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)) {
    softcuda::deviceUuid(id->deviceUUID);
    memcpy(id->driverUUID, "softvulkan driver", VK_UUID_SIZE);
    memset(id->deviceLUID, 0, VK_LUID_SIZE);
    id->deviceNodeMask = 0;
    id->deviceLUIDValid = VK_FALSE;
  }
  if (auto *core = chainedOut<VkPhysicalDeviceVulkan11Properties>(
          out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES))
    softcuda::deviceUuid(core->deviceUUID);
  if (auto *timeline = chainedOut<VkPhysicalDeviceTimelineSemaphoreProperties>(
          out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES))
    timeline->maxTimelineSemaphoreValueDifference = INT32_MAX;
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceFeatures(VkPhysicalDevice, VkPhysicalDeviceFeatures *out) {
  *out = {};
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceFeatures2(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *out) {
  out->features = {};
  const Lock lock(state().lock);
  const VkBool32 timeline = !state().without.contains(VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
  if (auto *one = chainedOut<VkPhysicalDeviceTimelineSemaphoreFeatures>(
          out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES))
    one->timelineSemaphore = timeline;
  if (auto *core = chainedOut<VkPhysicalDeviceVulkan12Features>(out->pNext,
                                                                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES))
    core->timelineSemaphore = timeline;
  const VkBool32 synchronization2 = !state().without.contains(VK_KHR_SYNCHRONIZATION_2_EXTENSION_NAME);
  if (auto *one = chainedOut<VkPhysicalDeviceSynchronization2Features>(
          out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES))
    one->synchronization2 = synchronization2;
  if (auto *core = chainedOut<VkPhysicalDeviceVulkan13Features>(out->pNext,
                                                                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES))
    core->synchronization2 = synchronization2;
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice,
                                                                   VkPhysicalDeviceMemoryProperties *out) {
  *out = {};
  out->memoryHeapCount = 2;
  out->memoryHeaps[0] = {uint64_t{8} << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  out->memoryHeaps[1] = {uint64_t{8} << 30, 0};
  out->memoryTypeCount = kMemoryTypes;
  constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  out->memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  out->memoryTypes[1] = {kHost, 1};
  out->memoryTypes[2] = {kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                                    VkPhysicalDeviceMemoryProperties2 *out) {
  vkGetPhysicalDeviceMemoryProperties(device, &out->memoryProperties);
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice, uint32_t *count,
                                                                        VkQueueFamilyProperties *out) {
  if (out && *count == 0) return;
  *count = 1;
  if (out) out[0] = {VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT, 1, 64, {1, 1, 1}};
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice device, uint32_t *count,
                                                                         VkQueueFamilyProperties2 *out) {
  vkGetPhysicalDeviceQueueFamilyProperties(device, count, out ? &out->queueFamilyProperties : nullptr);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkEnumerateDeviceExtensionProperties(VkPhysicalDevice, const char *layer,
                                                                        uint32_t *count, VkExtensionProperties *out) {
  if (layer) return VK_ERROR_LAYER_NOT_PRESENT;
  const Lock lock(state().lock);
  return list(deviceExtensions(), count, out);
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceExternalBufferProperties(
    VkPhysicalDevice, const VkPhysicalDeviceExternalBufferInfo *info, VkExternalBufferProperties *out) {
  VkExternalMemoryProperties &memory = out->externalMemoryProperties;
  memory = {};
  const Lock lock(state().lock);
  if (info->handleType == kOpaqueFd)
    memory = {VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT | VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT |
                  VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT,
              kOpaqueFd, kOpaqueFd};
  else if (info->handleType == kDmabuf && !state().without.contains(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME))
    memory = {VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT, 0, kDmabuf};
}

SOFTVULKAN_API void VKAPI_CALL vkGetPhysicalDeviceExternalSemaphoreProperties(
    VkPhysicalDevice, const VkPhysicalDeviceExternalSemaphoreInfo *info, VkExternalSemaphoreProperties *out) {
  const auto *type = chained<VkSemaphoreTypeCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  const bool timeline = type && type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
  const bool opaque = info->handleType == VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  const bool sync_fd = info->handleType == VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT && !timeline;
  const VkExternalSemaphoreHandleTypeFlags types = opaque || sync_fd ? info->handleType : 0;
  out->exportFromImportedHandleTypes = out->compatibleHandleTypes = types;
  out->externalSemaphoreFeatures =
      types ? VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT | VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT : 0;
}
