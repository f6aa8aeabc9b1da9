// SPDX-License-Identifier: LGPL-2.1-or-later
// For tests of the stand-in for libvulkan: a device of it and short ways to its objects.
#pragma once

#include <string>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop_test.h"
#include "tests/softcuda/vulkan/softvulkan.h"

namespace gstzc::test {

inline void *libvulkan() {
  static void *const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}
#define SOFTVK(name)                               \
  (reinterpret_cast<decltype(&softvulkan_##name)>( \
      gstzc::test::libvulkan() ? dlsym(gstzc::test::libvulkan(), "softvulkan_" #name) : nullptr))
// A function of the device, and one of the instance.
#define VKD(name) (reinterpret_cast<PFN_##name>(device_function_(device_, #name)))
#define VKI(name) (reinterpret_cast<PFN_##name>(instance_function_(instance_, #name)))
#define VK_OK(call) ASSERT_EQ(call, VK_SUCCESS)

constexpr auto kOpaqueMemory = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
constexpr auto kDmabufMemory = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;
constexpr auto kOpaqueSemaphore = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
constexpr auto kSyncFile = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;

class VulkanTest : public InteropTest {
protected:
  void SetUp() override {
    InteropTest::SetUp();
    if (IsSkipped()) return;
    if (!SOFTVK(live)) GTEST_SKIP() << "libvulkan.so.1 is not the stand-in";
    SOFTVK(forget_misuses)();
    instance_function_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(libvulkan(), "vkGetInstanceProcAddr"));
    ASSERT_NE(instance_function_, nullptr);
    makeInstance();
    ASSERT_EQ(makeDevice(), VK_SUCCESS);
  }
  void TearDown() override {
    if (SOFTVK(live)) {
      SOFTVK(refuse)(nullptr);
      SOFTVK(without)(nullptr);
      if (device_) VKD(vkDestroyDevice)(device_, nullptr);
      if (instance_) VKI(vkDestroyInstance)(instance_, nullptr);
      EXPECT_EQ(SOFTVK(live)(), 0u);
      EXPECT_EQ(SOFTVK(misuses)(), 0u) << SOFTVK(misuse_list)();
    }
    InteropTest::TearDown();
  }
  static uint64_t takeVulkanMisuses() {
    const uint64_t count = SOFTVK(misuses)();
    SOFTVK(forget_misuses)();
    return count;
  }

  void makeInstance() {
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    ASSERT_EQ(VKI(vkCreateInstance)(&info, nullptr, &instance_), VK_SUCCESS);
    uint32_t count = 1;
    ASSERT_EQ(VKI(vkEnumeratePhysicalDevices)(instance_, &count, &physical_), VK_SUCCESS);
    device_function_ = VKI(vkGetDeviceProcAddr);
  }
  VkResult makeDevice(std::vector<const char *> extensions = {
                          VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME,
                          VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME, VK_EXT_QUEUE_FAMILY_FOREIGN_EXTENSION_NAME}) {
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    timeline.timelineSemaphore = VK_TRUE;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = &timeline;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    const VkResult result = VKI(vkCreateDevice)(physical_, &info, nullptr, &device_);
    if (result == VK_SUCCESS) VKD(vkGetDeviceQueue)(device_, 0, 0, &queue_);
    return result;
  }

  VkBuffer makeBuffer(uint64_t size, VkExternalMemoryHandleTypeFlags external) {
    VkExternalMemoryBufferCreateInfo types{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
    types.handleTypes = external;
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.pNext = external ? &types : nullptr;
    info.size = size;
    info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    VkBuffer buffer = VK_NULL_HANDLE;
    EXPECT_EQ(VKD(vkCreateBuffer)(device_, &info, nullptr, &buffer), VK_SUCCESS);
    return buffer;
  }
  VkResult allocate(VkDeviceMemory *memory, uint64_t size, uint32_t type, const void *next) {
    VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    info.pNext = next;
    info.allocationSize = size;
    info.memoryTypeIndex = type;
    return VKD(vkAllocateMemory)(device_, &info, nullptr, memory);
  }
  VkResult importDmabuf(VkDeviceMemory *memory, int fd, uint64_t size, uint32_t type = 1) { // takes it if it succeeds
    VkImportMemoryFdInfoKHR import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
    import.handleType = kDmabufMemory;
    import.fd = fd;
    return allocate(memory, size, type, &import);
  }
  VkDeviceMemory allocateExportable(uint64_t size, VkBuffer of = VK_NULL_HANDLE) {
    VkMemoryDedicatedAllocateInfo dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
    dedicated.buffer = of;
    VkExportMemoryAllocateInfo exports{VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO};
    exports.pNext = of ? &dedicated : nullptr;
    exports.handleTypes = kOpaqueMemory;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    EXPECT_EQ(allocate(&memory, size, 0, &exports), VK_SUCCESS);
    return memory;
  }
  int exportMemory(VkDeviceMemory memory) {
    VkMemoryGetFdInfoKHR info{VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR};
    info.memory = memory;
    info.handleType = kOpaqueMemory;
    int fd = -1;
    return VKD(vkGetMemoryFdKHR)(device_, &info, &fd) == VK_SUCCESS ? fd : -1;
  }

  VkSemaphore makeSemaphore(bool timeline, VkExternalSemaphoreHandleTypeFlags exported = 0) {
    VkExportSemaphoreCreateInfo exports{VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO};
    exports.handleTypes = exported;
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.pNext = exported ? &exports : nullptr;
    type.semaphoreType = timeline ? VK_SEMAPHORE_TYPE_TIMELINE : VK_SEMAPHORE_TYPE_BINARY;
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    info.pNext = &type;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    EXPECT_EQ(VKD(vkCreateSemaphore)(device_, &info, nullptr, &semaphore), VK_SUCCESS);
    return semaphore;
  }
  int exportSemaphore(VkSemaphore semaphore, VkExternalSemaphoreHandleTypeFlagBits type) {
    VkSemaphoreGetFdInfoKHR info{VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR};
    info.semaphore = semaphore;
    info.handleType = type;
    int fd = -1;
    return VKD(vkGetSemaphoreFdKHR)(device_, &info, &fd) == VK_SUCCESS ? fd : -1;
  }
  VkResult importSyncFile(VkSemaphore semaphore, int fd,
                          VkSemaphoreImportFlags flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT) {
    VkImportSemaphoreFdInfoKHR info{VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR};
    info.semaphore = semaphore;
    info.flags = flags;
    info.handleType = kSyncFile;
    info.fd = fd;
    return VKD(vkImportSemaphoreFdKHR)(device_, &info);
  }
  VkFence makeFence() {
    const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence = VK_NULL_HANDLE;
    EXPECT_EQ(VKD(vkCreateFence)(device_, &info, nullptr, &fence), VK_SUCCESS);
    return fence;
  }
  VkResult waitFor(VkFence fence) {
    return VKD(vkWaitForFences)(device_, 1, &fence, VK_TRUE,
                                static_cast<uint64_t>(std::chrono::nanoseconds(kPatience).count()));
  }

  struct Submission {
    std::vector<VkCommandBuffer> commands;
    VkSemaphore wait = VK_NULL_HANDLE, signal = VK_NULL_HANDLE;
    uint64_t wait_value = 0, signal_value = 0;
  };
  VkResult submit(const Submission &what, VkFence fence = VK_NULL_HANDLE) {
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &what.wait_value;
    values.pSignalSemaphoreValues = &what.signal_value;
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.pNext = &values;
    info.waitSemaphoreCount = what.wait ? 1 : 0;
    info.pWaitSemaphores = &what.wait;
    info.pWaitDstStageMask = &stage;
    info.commandBufferCount = static_cast<uint32_t>(what.commands.size());
    info.pCommandBuffers = what.commands.data();
    info.signalSemaphoreCount = what.signal ? 1 : 0;
    info.pSignalSemaphores = &what.signal;
    return VKD(vkQueueSubmit)(queue_, 1, &info, fence);
  }

  PFN_vkGetInstanceProcAddr instance_function_ = nullptr;
  PFN_vkGetDeviceProcAddr device_function_ = nullptr;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
};

// A picture's way: a buffer on a dma-buf, one on memory that CUDA can have, and the commands that copy between them.
class VulkanCopyTest : public VulkanTest {
protected:
  static constexpr uint64_t kBytes = 3 * kMegabyte;

  void TearDown() override {
    if (pool_) VKD(vkDestroyCommandPool)(device_, pool_, nullptr);
    for (const VkBuffer buffer : {source_, target_})
      if (buffer) VKD(vkDestroyBuffer)(device_, buffer, nullptr);
    for (const VkDeviceMemory memory : {source_memory_, target_memory_})
      if (memory) VKD(vkFreeMemory)(device_, memory, nullptr);
    VulkanTest::TearDown();
  }
  void makeBuffers(int dmabuf) {
    source_ = makeBuffer(kBytes, kDmabufMemory);
    target_ = makeBuffer(kBytes, kOpaqueMemory);
    UniqueFd fd = UniqueFd::duplicate(dmabuf);
    ASSERT_EQ(importDmabuf(&source_memory_, fd.get(), kBytes), VK_SUCCESS);
    (void)fd.release();
    target_memory_ = allocateExportable(kBytes, target_);
    ASSERT_EQ(VKD(vkBindBufferMemory)(device_, source_, source_memory_, 0), VK_SUCCESS);
    ASSERT_EQ(VKD(vkBindBufferMemory)(device_, target_, target_memory_, 0), VK_SUCCESS);
  }
  void begin(VkCommandBufferUsageFlags usage = 0) {
    if (!pool_) {
      const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
      ASSERT_EQ(VKD(vkCreateCommandPool)(device_, &pool, nullptr, &pool_), VK_SUCCESS);
    }
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = pool_;
    info.commandBufferCount = 1;
    ASSERT_EQ(VKD(vkAllocateCommandBuffers)(device_, &info, &commands_), VK_SUCCESS);
    VkCommandBufferBeginInfo how{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    how.flags = usage;
    ASSERT_EQ(VKD(vkBeginCommandBuffer)(commands_, &how), VK_SUCCESS);
  }
  void pass(VkBuffer buffer, uint32_t from, uint32_t to) {
    VkBufferMemoryBarrier barrier{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
    barrier.srcQueueFamilyIndex = from;
    barrier.dstQueueFamilyIndex = to;
    barrier.buffer = buffer;
    barrier.size = VK_WHOLE_SIZE;
    VKD(vkCmdPipelineBarrier)(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr,
                              1, &barrier, 0, nullptr);
  }
  void copy(uint64_t bytes = kBytes) {
    VkBufferCopy region{};
    region.size = bytes;
    VKD(vkCmdCopyBuffer)(commands_, source_, target_, 1, &region);
  }
  void record(VkCommandBufferUsageFlags usage = 0) {
    begin(usage);
    pass(source_, VK_QUEUE_FAMILY_FOREIGN_EXT, 0);
    copy();
    pass(target_, 0, VK_QUEUE_FAMILY_EXTERNAL);
    ASSERT_EQ(VKD(vkEndCommandBuffer)(commands_), VK_SUCCESS);
  }

  VkBuffer source_ = VK_NULL_HANDLE, target_ = VK_NULL_HANDLE;
  VkDeviceMemory source_memory_ = VK_NULL_HANDLE, target_memory_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

} // namespace gstzc::test
