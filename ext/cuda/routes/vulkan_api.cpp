// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/vulkan_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace gstzc::cuda {
namespace {

bool anyDeviceWanted() {
  const char *wanted = getenv("GSTZC_VULKAN_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "any";
}

std::string hex(const DeviceUuid &uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : uuid) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

int nearestErrno(VkResult result) {
  switch (result) {
  case VK_ERROR_OUT_OF_HOST_MEMORY:
  case VK_ERROR_OUT_OF_DEVICE_MEMORY:
  case VK_ERROR_TOO_MANY_OBJECTS: return ENOMEM;
  case VK_ERROR_DEVICE_LOST: return ENODEV;
  case VK_ERROR_EXTENSION_NOT_PRESENT:
  case VK_ERROR_FEATURE_NOT_PRESENT:
  case VK_ERROR_INCOMPATIBLE_DRIVER:
  case VK_ERROR_INVALID_EXTERNAL_HANDLE:
  case VK_ERROR_FORMAT_NOT_SUPPORTED: return EOPNOTSUPP;
  case VK_TIMEOUT: return ETIMEDOUT;
  default: return EIO;
  }
}

} // namespace

const char *vkResultName(VkResult result) {
  switch (result) {
#define NAME(r) \
  case r: return #r
    NAME(VK_SUCCESS);
    NAME(VK_NOT_READY);
    NAME(VK_TIMEOUT);
    NAME(VK_INCOMPLETE);
    NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
    NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    NAME(VK_ERROR_INITIALIZATION_FAILED);
    NAME(VK_ERROR_DEVICE_LOST);
    NAME(VK_ERROR_MEMORY_MAP_FAILED);
    NAME(VK_ERROR_LAYER_NOT_PRESENT);
    NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
    NAME(VK_ERROR_FEATURE_NOT_PRESENT);
    NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
    NAME(VK_ERROR_TOO_MANY_OBJECTS);
    NAME(VK_ERROR_FORMAT_NOT_SUPPORTED);
    NAME(VK_ERROR_FRAGMENTED_POOL);
    NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE);
    NAME(VK_ERROR_UNKNOWN);
#undef NAME
  default: return "an unknown Vulkan error";
  }
}

Result<VulkanDevicePtr> VulkanDevice::create(const DeviceUuid &uuid) { return create("libvulkan.so.1", uuid); }

Result<VulkanDevicePtr> VulkanDevice::create(const char *library, const DeviceUuid &uuid) {
  VulkanDevicePtr device(new VulkanDevice());
  if (auto opened = device->open(library, uuid); !opened) return opened.error();
  return device;
}

VulkanDevice::~VulkanDevice() {
  if (device_ != VK_NULL_HANDLE) {
    vk_.vkDeviceWaitIdle(device_);
    vk_.vkDestroyDevice(device_, nullptr);
  }
  if (instance_ != VK_NULL_HANDLE) vk_.vkDestroyInstance(instance_, nullptr);
}

Status VulkanDevice::open(const char *library, const DeviceUuid &uuid) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // never closed: drivers leave threads behind
  if (handle == nullptr) {
    const char *why = dlerror();
    return Error{std::string("opening Vulkan: ") + (why != nullptr ? why : library), ENOENT,
                 "Install the Vulkan loader (package libvulkan1) and the device's driver for it"};
  }
  vk_.vkGetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
  if (vk_.vkGetInstanceProcAddr == nullptr)
    return Error{std::string(library) + " lacks vkGetInstanceProcAddr", ENOSYS, ""};
#define LOOK_UP(name)                                                                   \
  vk_.name = reinterpret_cast<PFN_##name>(vk_.vkGetInstanceProcAddr(instance_, #name)); \
  if (vk_.name == nullptr) return Error{std::string(library) + " lacks " #name, ENOSYS, ""};
  GSTZC_VK_GLOBAL(LOOK_UP)

  uint32_t version = 0;
  if (vk_.vkEnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
    return Error{"the Vulkan loader is older than 1.2", EOPNOTSUPP, ""};
  VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pEngineName = "gst-zerocopy";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  if (auto made = check(vk_.vkCreateInstance(&info, nullptr, &instance_), "vkCreateInstance"); !made) {
    instance_ = VK_NULL_HANDLE;
    return Error{made.error().what, made.error().code, "A driver for Vulkan has to be installed"};
  }
  GSTZC_VK_INSTANCE(LOOK_UP)
#undef LOOK_UP
  if (auto chosen = chooseDevice(uuid); !chosen) return chosen.error();
  return createDevice();
}

Status VulkanDevice::chooseDevice(const DeviceUuid &uuid) {
  uint32_t count = 0;
  if (auto asked = check(vk_.vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
      !asked)
    return asked.error();
  std::vector<VkPhysicalDevice> devices(count);
  const VkResult result = vk_.vkEnumeratePhysicalDevices(instance_, &count, devices.data());
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return check(result, "vkEnumeratePhysicalDevices");
  devices.resize(count);

  std::string others;
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceIDProperties id = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    properties.pNext = &id;
    vk_.vkGetPhysicalDeviceProperties2(device, &properties);
    const std::string name = properties.properties.deviceName;
    if (!anyDeviceWanted() && !std::equal(uuid.begin(), uuid.end(), id.deviceUUID)) {
      others += (others.empty() ? "" : ", ") + name;
      continue;
    }
    if (properties.properties.apiVersion < VK_API_VERSION_1_2)
      return Error{"the Vulkan driver of " + name + " is older than 1.2", EOPNOTSUPP, "Update the driver"};
    physical_ = device;
    name_ = name;
    vk_.vkGetPhysicalDeviceMemoryProperties(device, &memory_);
    return Nothing{};
  }
  return Error{"Vulkan has no device with the UUID " + hex(uuid) + " of the CUDA device, only " +
                   (others.empty() ? "none at all" : others),
               ENODEV, "Install the same driver's part for Vulkan"};
}

Status VulkanDevice::createDevice() {
  uint32_t count = 0;
  vk_.vkEnumerateDeviceExtensionProperties(physical_, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  const VkResult listed = vk_.vkEnumerateDeviceExtensionProperties(physical_, nullptr, &count, extensions.data());
  if (listed != VK_SUCCESS && listed != VK_INCOMPLETE) return check(listed, "vkEnumerateDeviceExtensionProperties");
  extensions.resize(count);
  std::vector<const char *> enabled;
  const auto enable = [&](const char *name) {
    const bool there = std::any_of(extensions.begin(), extensions.end(),
                                   [&](const VkExtensionProperties &e) { return strcmp(e.extensionName, name) == 0; });
    if (there) enabled.push_back(name);
    return there;
  };
  const bool memory_fd = enable(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
  dmabuf_ = memory_fd && enable(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
  const bool semaphore_fd = enable(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
  if (enable(VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME)) foreign_family_ = VK_QUEUE_FAMILY_FOREIGN_EXT;

  // A family that only copies leaves the others to those who draw; every family that draws or computes copies, too.
  vk_.vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk_.vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
  std::optional<uint32_t> family;
  for (uint32_t i = 0; i < count; ++i) {
    constexpr VkQueueFlags kWorks = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    const VkQueueFlags flags = families[i].queueFlags;
    if (families[i].queueCount == 0 || (flags & (kWorks | VK_QUEUE_TRANSFER_BIT)) == 0) continue;
    if (!family) family = i;
    if ((flags & VK_QUEUE_TRANSFER_BIT) != 0 && (flags & kWorks) == 0) {
      family = i;
      break;
    }
  }
  if (!family) return Error{"the Vulkan device " + name_ + " has no queue that copies", EOPNOTSUPP, ""};
  family_ = *family;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceFeatures2 features = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  features.pNext = &timeline;
  vk_.vkGetPhysicalDeviceFeatures2(physical_, &features);
  if (timeline.timelineSemaphore == VK_FALSE)
    return Error{"the Vulkan device " + name_ + " has no timeline semaphores", EOPNOTSUPP, ""};
  timeline.pNext = nullptr;
  VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &timeline;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(enabled.size());
  info.ppEnabledExtensionNames = enabled.data();
  if (auto made = check(vk_.vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice of " + name_); !made) {
    device_ = VK_NULL_HANDLE;
    return made.error();
  }
  // vkDestroyDevice is the first that is needed, should another be missing
  vk_.vkDeviceWaitIdle = reinterpret_cast<PFN_vkDeviceWaitIdle>(vk_.vkGetDeviceProcAddr(device_, "vkDeviceWaitIdle"));
  vk_.vkDestroyDevice = reinterpret_cast<PFN_vkDestroyDevice>(vk_.vkGetDeviceProcAddr(device_, "vkDestroyDevice"));
  if (vk_.vkDeviceWaitIdle == nullptr || vk_.vkDestroyDevice == nullptr) {
    device_ = VK_NULL_HANDLE;
    return Error{"the Vulkan driver of " + name_ + " lacks vkDestroyDevice", ENOSYS, ""};
  }
#define LOOK_UP(name) vk_.name = reinterpret_cast<PFN_##name>(vk_.vkGetDeviceProcAddr(device_, #name));
#define REQUIRED(name) \
  LOOK_UP(name)        \
  if (vk_.name == nullptr) return Error{"the Vulkan driver of " + name_ + " lacks " #name, ENOSYS, ""};
  GSTZC_VK_DEVICE(REQUIRED)
  GSTZC_VK_EXTENSIONS(LOOK_UP)
#undef REQUIRED
#undef LOOK_UP
  dmabuf_ = dmabuf_ && vk_.vkGetMemoryFdKHR != nullptr && vk_.vkGetMemoryFdPropertiesKHR != nullptr;
  vk_.vkGetDeviceQueue(device_, family_, 0, &queue_);

  if (semaphore_fd && vk_.vkGetSemaphoreFdKHR != nullptr && vk_.vkImportSemaphoreFdKHR != nullptr) {
    VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkPhysicalDeviceExternalSemaphoreInfo asked = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO};
    asked.pNext = &type;
    asked.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
    VkExternalSemaphoreProperties answer = {VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    vk_.vkGetPhysicalDeviceExternalSemaphoreProperties(physical_, &asked, &answer);
    timeline_ = (answer.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT) != 0;

    asked.pNext = nullptr;
    asked.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
    answer = {VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
    vk_.vkGetPhysicalDeviceExternalSemaphoreProperties(physical_, &asked, &answer);
    sync_file_ = (answer.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT) != 0;
  }
  return Nothing{};
}

Status VulkanDevice::check(VkResult result, const std::string &what) {
  if (result == VK_SUCCESS) return Nothing{};
  if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
  return Error{what + ": " + vkResultName(result), nearestErrno(result), ""};
}

Status VulkanDevice::submit(const VkSubmitInfo &info) {
  const std::lock_guard lock(submitting_);
  return check(vk_.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit on " + name_);
}

std::optional<uint32_t> VulkanDevice::memoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const {
  std::optional<uint32_t> any;
  for (uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
    if ((allowed & (1u << i)) == 0) continue;
    if ((memory_.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    if (!any) any = i;
  }
  return any;
}

Result<VulkanSemaphore> newTimeline(const VulkanDevicePtr &device) {
  VkExportSemaphoreCreateInfo exported = {VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO};
  exported.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkSemaphoreTypeCreateInfo type = {VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.pNext = device->hasTimelineExport() ? &exported : nullptr;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  if (auto made = device->check(device->vk().vkCreateSemaphore(device->handle(), &info, nullptr, &semaphore),
                                "vkCreateSemaphore of a timeline");
      !made)
    return made.error();
  return VulkanSemaphore(device, semaphore);
}

Result<VulkanSemaphore> newBinarySemaphore(const VulkanDevicePtr &device) {
  VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  if (auto made = device->check(device->vk().vkCreateSemaphore(device->handle(), &info, nullptr, &semaphore),
                                "vkCreateSemaphore");
      !made)
    return made.error();
  return VulkanSemaphore(device, semaphore);
}

Result<UniqueFd> exportTimeline(const VulkanDevicePtr &device, VkSemaphore semaphore) {
  VkSemaphoreGetFdInfoKHR info = {VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR};
  info.semaphore = semaphore;
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  int fd = -1;
  if (auto made = device->check(device->vk().vkGetSemaphoreFdKHR(device->handle(), &info, &fd),
                                "vkGetSemaphoreFdKHR of a timeline");
      !made)
    return made.error();
  return UniqueFd(fd);
}

} // namespace gstzc::cuda
