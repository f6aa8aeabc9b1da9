// SPDX-License-Identifier: LGPL-2.1-or-later
// Vulkan, looked up at run time, and a device of it that is a CUDA device, too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan_core.h>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::cuda {

#define GSTZC_VK_GLOBAL(F)      \
  F(vkEnumerateInstanceVersion) \
  F(vkCreateInstance)

#define GSTZC_VK_INSTANCE(F)                        \
  F(vkDestroyInstance)                              \
  F(vkEnumeratePhysicalDevices)                     \
  F(vkEnumerateDeviceExtensionProperties)           \
  F(vkGetPhysicalDeviceProperties2)                 \
  F(vkGetPhysicalDeviceFeatures2)                   \
  F(vkGetPhysicalDeviceMemoryProperties)            \
  F(vkGetPhysicalDeviceQueueFamilyProperties)       \
  F(vkGetPhysicalDeviceExternalBufferProperties)    \
  F(vkGetPhysicalDeviceExternalSemaphoreProperties) \
  F(vkCreateDevice)                                 \
  F(vkGetDeviceProcAddr)

#define GSTZC_VK_DEVICE(F)          \
  F(vkDestroyDevice)                \
  F(vkDeviceWaitIdle)               \
  F(vkGetDeviceQueue)               \
  F(vkQueueSubmit)                  \
  F(vkCreateBuffer)                 \
  F(vkDestroyBuffer)                \
  F(vkGetBufferMemoryRequirements2) \
  F(vkAllocateMemory)               \
  F(vkFreeMemory)                   \
  F(vkBindBufferMemory)             \
  F(vkCreateCommandPool)            \
  F(vkDestroyCommandPool)           \
  F(vkAllocateCommandBuffers)       \
  F(vkBeginCommandBuffer)           \
  F(vkEndCommandBuffer)             \
  F(vkCmdPipelineBarrier)           \
  F(vkCmdCopyBuffer)                \
  F(vkCreateSemaphore)              \
  F(vkDestroySemaphore)             \
  F(vkGetSemaphoreCounterValue)     \
  F(vkWaitSemaphores)               \
  F(vkSignalSemaphore)

// of device extensions; null where the device does not have them
#define GSTZC_VK_EXTENSIONS(F)  \
  F(vkGetMemoryFdKHR)           \
  F(vkGetMemoryFdPropertiesKHR) \
  F(vkGetSemaphoreFdKHR)        \
  F(vkImportSemaphoreFdKHR)

struct VulkanTable {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define GSTZC_VK_MEMBER(name) PFN_##name name = nullptr;
  GSTZC_VK_GLOBAL(GSTZC_VK_MEMBER)
  GSTZC_VK_INSTANCE(GSTZC_VK_MEMBER)
  GSTZC_VK_DEVICE(GSTZC_VK_MEMBER)
  GSTZC_VK_EXTENSIONS(GSTZC_VK_MEMBER)
#undef GSTZC_VK_MEMBER
};

const char *vkResultName(VkResult result); // "VK_ERROR_DEVICE_LOST"

using DeviceUuid = std::array<uint8_t, VK_UUID_SIZE>;

// A logical device with one queue that copies. Shared by what is made of it; thread-safe.
class VulkanDevice {
public:
  // Opens libvulkan and the device with this UUID. Errors: ENOENT without the library; ENODEV where no device of it is
  // that one. GSTZC_VULKAN_DEVICE=any takes any device: for tests, where the CUDA device is none.
  static Result<std::shared_ptr<VulkanDevice>> create(const DeviceUuid &uuid);
  // The same, with a library of another name.
  static Result<std::shared_ptr<VulkanDevice>> create(const char *library, const DeviceUuid &uuid);
  ~VulkanDevice(); // what was made of it is gone, and nothing is pending
  VulkanDevice(const VulkanDevice &) = delete;
  VulkanDevice &operator=(const VulkanDevice &) = delete;

  const VulkanTable &vk() const { return vk_; }
  VkDevice handle() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  uint32_t family() const { return family_; }
  const std::string &name() const { return name_; }
  // The family that buffers of other drivers belong to meanwhile.
  uint32_t foreignFamily() const { return foreign_family_; }

  bool importsDmabufs() const { return dmabuf_; }      // VK_EXT_external_memory_dma_buf
  bool hasTimelineExport() const { return timeline_; } // as opaque descriptors
  bool importsSyncFiles() const { return sync_file_; } // into binary semaphores

  // Success, or an Error "vkQueueSubmit: VK_ERROR_DEVICE_LOST" with the nearest errno (ENOMEM, ENODEV, EOPNOTSUPP,
  // EIO).
  Status check(VkResult result, const std::string &what);
  bool isLost() const { return lost_; } // some call said so: it will not come back

  Status submit(const VkSubmitInfo &info); // takes the queue for the call

  // Of the allowed types one with these properties if there is any, else any.
  std::optional<uint32_t> memoryType(uint32_t allowed, VkMemoryPropertyFlags wanted) const;

private:
  VulkanDevice() = default;
  Status open(const char *library, const DeviceUuid &uuid);
  Status chooseDevice(const DeviceUuid &uuid);
  Status createDevice();

  VulkanTable vk_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0, foreign_family_ = VK_QUEUE_FAMILY_EXTERNAL;
  VkPhysicalDeviceMemoryProperties memory_ = {};
  std::string name_;
  bool dmabuf_ = false, timeline_ = false, sync_file_ = false;
  std::atomic<bool> lost_ = false;
  std::mutex submitting_;
};
using VulkanDevicePtr = std::shared_ptr<VulkanDevice>;

// Move-only owner of an object of a device; `Destroy` is a member of VulkanTable.
template <typename H, auto Destroy> class VkOwned {
public:
  VkOwned() = default;
  VkOwned(VulkanDevicePtr device, H handle) : device_(std::move(device)), handle_(handle) {}
  VkOwned(VkOwned &&other) noexcept
      : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, H(VK_NULL_HANDLE))) {}
  VkOwned &operator=(VkOwned &&other) noexcept {
    if (this != &other) {
      reset();
      device_ = std::move(other.device_);
      handle_ = std::exchange(other.handle_, H(VK_NULL_HANDLE));
    }
    return *this;
  }
  VkOwned(const VkOwned &) = delete;
  VkOwned &operator=(const VkOwned &) = delete;
  ~VkOwned() { reset(); }

  H get() const { return handle_; }
  void reset() {
    if (handle_ != H(VK_NULL_HANDLE)) (device_->vk().*Destroy)(device_->handle(), handle_, nullptr);
    handle_ = H(VK_NULL_HANDLE);
    device_.reset();
  }

private:
  VulkanDevicePtr device_;
  H handle_ = H(VK_NULL_HANDLE);
};

using VulkanBuffer = VkOwned<VkBuffer, &VulkanTable::vkDestroyBuffer>;
using VulkanMemory = VkOwned<VkDeviceMemory, &VulkanTable::vkFreeMemory>;
using VulkanCommandPool = VkOwned<VkCommandPool, &VulkanTable::vkDestroyCommandPool>;
using VulkanSemaphore = VkOwned<VkSemaphore, &VulkanTable::vkDestroySemaphore>;

// A timeline semaphore, exportable where the device can.
Result<VulkanSemaphore> newTimeline(const VulkanDevicePtr &device);
Result<VulkanSemaphore> newBinarySemaphore(const VulkanDevicePtr &device);
Result<UniqueFd> exportTimeline(const VulkanDevicePtr &device, VkSemaphore semaphore); // OPAQUE_FD

} // namespace gstzc::cuda
