// SPDX-License-Identifier: LGPL-2.1-or-later
// The stand-in for libvulkan: what it answers, and which breaches of Vulkan's rules it notices.
#include <algorithm>

#include <sys/eventfd.h>

#include "tests/softcuda/vulkan/vulkan_test.h"

namespace gstzc::test {
namespace {

TEST_F(VulkanTest, IsTheCudaDevice) {
  VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  properties.pNext = &id;
  VKI(vkGetPhysicalDeviceProperties2)(physical_, &properties);
  CUuuid uuid;
  CU_OK(CU(cuDeviceGetUuid_v2)(&uuid, CUdevice{0}));
  EXPECT_EQ(memcmp(id.deviceUUID, uuid.bytes, VK_UUID_SIZE), 0);
  EXPECT_GE(properties.properties.apiVersion, VK_API_VERSION_1_2);
}

TEST_F(VulkanTest, FunctionsComeFromWhereTheyBelong) {
  EXPECT_NE(instance_function_(nullptr, "vkCreateInstance"), nullptr);
  EXPECT_EQ(instance_function_(nullptr, "vkCreateDevice"), nullptr); // needs an instance
  EXPECT_EQ(device_function_(device_, "vkCreateDevice"), nullptr);
  EXPECT_EQ(device_function_(device_, "vkCreateImage"), nullptr); // not known here
  EXPECT_NE(device_function_(device_, "vkGetMemoryFdKHR"), nullptr);
  VKD(vkDestroyDevice)(device_, nullptr);
  VK_OK(makeDevice({}));
  EXPECT_EQ(device_function_(device_, "vkGetMemoryFdKHR"), nullptr); // of an extension that is not enabled
}

TEST_F(VulkanTest, CanBeLackingAndRefuse) {
  VKD(vkDestroyDevice)(std::exchange(device_, VK_NULL_HANDLE), nullptr);
  SOFTVK(without)(VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME);
  EXPECT_EQ(makeDevice(), VK_ERROR_EXTENSION_NOT_PRESENT);
  uint32_t count = 0;
  VK_OK(VKI(vkEnumerateDeviceExtensionProperties)(physical_, nullptr, &count, nullptr));
  std::vector<VkExtensionProperties> extensions(count);
  VK_OK(VKI(vkEnumerateDeviceExtensionProperties)(physical_, nullptr, &count, extensions.data()));
  EXPECT_GT(count, 5u);
  EXPECT_TRUE(std::ranges::none_of(extensions, [](const auto &extension) {
    return strcmp(extension.extensionName, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME) == 0;
  }));
  VkPhysicalDeviceExternalBufferInfo asked{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  asked.handleType = kDmabufMemory;
  VkExternalBufferProperties answer{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  VKI(vkGetPhysicalDeviceExternalBufferProperties)(physical_, &asked, &answer);
  EXPECT_EQ(answer.externalMemoryProperties.externalMemoryFeatures, 0u);
  SOFTVK(without)(VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
  EXPECT_EQ(makeDevice(), VK_ERROR_FEATURE_NOT_PRESENT);
  SOFTVK(without)(nullptr);
  SOFTVK(refuse)("device");
  EXPECT_EQ(makeDevice(), VK_ERROR_INITIALIZATION_FAILED);
  SOFTVK(refuse)("physical-device");
  VK_OK(VKI(vkEnumeratePhysicalDevices)(instance_, &count, nullptr));
  EXPECT_EQ(count, 0u);
  SOFTVK(refuse)("instance");
  VkInstance none;
  const VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  EXPECT_EQ(VKI(vkCreateInstance)(&info, nullptr, &none), VK_ERROR_INCOMPATIBLE_DRIVER);
}

TEST_F(VulkanTest, ImportsDmabufsOnly) {
  const SharedBytes frame(8192);
  VkDeviceMemory memory;
  const UniqueFd other(eventfd(0, EFD_CLOEXEC)), opaque(softcuda::createOpaque(softcuda::Opaque::Memory, 8192));
  EXPECT_EQ(importDmabuf(&memory, other.get(), 8192), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  EXPECT_EQ(importDmabuf(&memory, opaque.get(), 8192), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  EXPECT_EQ(importDmabuf(&memory, 1 << 20, 8192), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8193), VK_ERROR_INVALID_EXTERNAL_HANDLE); // longer than it is
  EXPECT_EQ(takeVulkanMisuses(), 0u);
  VkMemoryFdPropertiesKHR properties{VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
  VK_OK(VKD(vkGetMemoryFdPropertiesKHR)(device_, kDmabufMemory, frame.fd.get(), &properties));
  EXPECT_EQ(properties.memoryTypeBits & 1, 0u);
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8192, 0), VK_ERROR_INVALID_EXTERNAL_HANDLE); // a type it is not
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  SOFTVK(refuse)("dmabuf-import");
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8192), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  EXPECT_TRUE(softcuda::isOpen(frame.fd.get()));
}

TEST_F(VulkanTest, AnImportTakesTheDescriptor) {
  const SharedBytes frame(8192);
  VkDeviceMemory memory;
  int fd = UniqueFd::duplicate(frame.fd.get()).release();
  VK_OK(importDmabuf(&memory, fd, 8192));
  VKD(vkFreeMemory)(device_, memory, nullptr);
  EXPECT_FALSE(softcuda::isOpen(fd) && softcuda::sameFile(fd, frame.fd.get()));
  fd = UniqueFd::duplicate(frame.fd.get()).release();
  VK_OK(importDmabuf(&memory, fd, 8192));
  close(fd);
  VKD(vkFreeMemory)(device_, memory, nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
}

TEST_F(VulkanTest, ExportNeedsItsOwnAllocation) {
  const VkBuffer buffer = makeBuffer(1000, kOpaqueMemory);
  VkMemoryDedicatedRequirements dedicated{VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
  VkMemoryRequirements2 needs{VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
  needs.pNext = &dedicated;
  VkBufferMemoryRequirementsInfo2 asked{VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2};
  asked.buffer = buffer;
  VKD(vkGetBufferMemoryRequirements2)(device_, &asked, &needs);
  EXPECT_TRUE(dedicated.requiresDedicatedAllocation);
  EXPECT_EQ(needs.memoryRequirements.size, 1024u);
  EXPECT_EQ(needs.memoryRequirements.memoryTypeBits, 1u);
  const VkDeviceMemory plain = allocateExportable(1024);
  VKD(vkBindBufferMemory)(device_, buffer, plain, 0);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VKD(vkDestroyBuffer)(device_, buffer, nullptr);
  VKD(vkFreeMemory)(device_, plain, nullptr);
  VkDeviceMemory memory;
  VK_OK(allocate(&memory, 4096, 0, nullptr));
  EXPECT_EQ(exportMemory(memory), -1); // not allocated for it
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VKD(vkFreeMemory)(device_, memory, nullptr);
  const VkDeviceMemory exportable = allocateExportable(4096);
  SOFTVK(refuse)("opaque-export");
  EXPECT_EQ(exportMemory(exportable), -1);
  EXPECT_EQ(takeVulkanMisuses(), 0u);
  VKD(vkFreeMemory)(device_, exportable, nullptr);
  SOFTVK(refuse)("memory");
  EXPECT_EQ(allocate(&memory, 4096, 0, nullptr), VK_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST_F(VulkanTest, MappedMemoryIsFlushedAndInvalidated) {
  VkDeviceMemory memory;
  VK_OK(allocate(&memory, 8192, 2, nullptr));
  VkMappedMemoryRange range{VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE};
  range.memory = memory;
  range.size = VK_WHOLE_SIZE;
  VK_OK(VKD(vkInvalidateMappedMemoryRanges)(device_, 1, &range));
  EXPECT_EQ(takeVulkanMisuses(), 1u); // it is not mapped
  void *data = nullptr;
  VK_OK(VKD(vkMapMemory)(device_, memory, 0, VK_WHOLE_SIZE, 0, &data));
  VK_OK(VKD(vkInvalidateMappedMemoryRanges)(device_, 1, &range));
  VK_OK(VKD(vkFlushMappedMemoryRanges)(device_, 1, &range));
  EXPECT_EQ(takeVulkanMisuses(), 0u);
  range.offset = 4096;
  range.size = 8192;
  VK_OK(VKD(vkFlushMappedMemoryRanges)(device_, 1, &range));
  EXPECT_EQ(takeVulkanMisuses(), 1u); // beyond its end
  VKD(vkUnmapMemory)(device_, memory);
  VKD(vkFreeMemory)(device_, memory, nullptr);
}

TEST_F(VulkanTest, NoticesWhatIsLeftAndUsedAfterItsEnd) {
  const VkBuffer buffer = makeBuffer(1000, 0);
  VKD(vkDestroyDevice)(std::exchange(device_, VK_NULL_HANDLE), nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u); // the buffer lives
  VK_OK(makeDevice());
  VKD(vkDestroyBuffer)(device_, buffer, nullptr);
  VKD(vkDestroyBuffer)(device_, buffer, nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VkMemoryRequirements needs;
  VKD(vkGetBufferMemoryRequirements)(device_, buffer, &needs);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
}

TEST_F(VulkanTest, ASyncFileIsWaitedForOnce) {
  const VkSemaphore semaphore = makeSemaphore(false);
  const VkFence fence = makeFence();
  const int fd = eventfd(0, EFD_CLOEXEC);
  const UniqueFd producer = UniqueFd::duplicate(fd);
  VK_OK(importSyncFile(semaphore, fd));
  VK_OK(submit({.wait = semaphore}, fence));
  EXPECT_EQ(VKD(vkGetFenceStatus)(device_, fence), VK_NOT_READY);
  VKD(vkDestroySemaphore)(device_, makeSemaphore(false), nullptr);
  const uint64_t one = 1;
  EXPECT_EQ(write(producer.get(), &one, sizeof one), ssize_t{sizeof one});
  VK_OK(waitFor(fence));
  EXPECT_FALSE(softcuda::isOpen(fd) && softcuda::sameFile(fd, producer.get()));
  VK_OK(VKD(vkResetFences)(device_, 1, &fence));
  VK_OK(importSyncFile(semaphore, -1)); // a fence that is over
  VK_OK(submit({.wait = semaphore}, fence));
  VK_OK(waitFor(fence));
  EXPECT_EQ(takeVulkanMisuses(), 0u);

  EXPECT_EQ(importSyncFile(semaphore, 1 << 20), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  VK_OK(importSyncFile(semaphore, -1, 0)); // not temporary
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  SOFTVK(refuse)("sync-fd-import");
  EXPECT_EQ(importSyncFile(semaphore, -1), VK_ERROR_INVALID_EXTERNAL_HANDLE);
  VKD(vkDestroyFence)(device_, fence, nullptr);
  VKD(vkDestroySemaphore)(device_, semaphore, nullptr);
}

TEST_F(VulkanTest, ASignalLeavesAsASyncFile) {
  const VkSemaphore semaphore = makeSemaphore(false, kSyncFile), steps = makeSemaphore(true);
  EXPECT_EQ(exportSemaphore(semaphore, kSyncFile), -1); // nothing will signal it
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VK_OK(submit({.wait = steps, .signal = semaphore, .wait_value = 1}));
  const UniqueFd fd(exportSemaphore(semaphore, kSyncFile));
  ASSERT_TRUE(fd.isValid());
  uint64_t count = 0;
  EXPECT_EQ(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(::read(fd.get(), &count, sizeof count), -1);
  VkSemaphoreSignalInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  signal.semaphore = steps;
  signal.value = 1;
  VK_OK(VKD(vkSignalSemaphore)(device_, &signal));
  EXPECT_TRUE(eventually([&] { return ::read(fd.get(), &count, sizeof count) == ssize_t{sizeof count}; }));
  VK_OK(VKD(vkDeviceWaitIdle)(device_));
  VKD(vkDestroySemaphore)(device_, semaphore, nullptr);
  VKD(vkDestroySemaphore)(device_, steps, nullptr);
}

TEST_F(VulkanTest, NoticesWaitsThatCannotEndAndBackwardSignals) {
  const VkSemaphore once = makeSemaphore(false), steps = makeSemaphore(true);
  VK_OK(submit({.signal = steps, .signal_value = 5}));
  VK_OK(VKD(vkQueueWaitIdle)(queue_));
  uint64_t value = 0;
  VK_OK(VKD(vkGetSemaphoreCounterValue)(device_, steps, &value));
  EXPECT_EQ(value, 5u);
  VK_OK(submit({.signal = steps, .signal_value = 4}));
  VK_OK(VKD(vkQueueWaitIdle)(queue_));
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  const uint64_t sixth = 6;
  wait.semaphoreCount = 1;
  wait.pSemaphores = &steps;
  wait.pValues = &sixth;
  EXPECT_EQ(VKD(vkWaitSemaphores)(device_, &wait, 1000000), VK_TIMEOUT);
  VK_OK(submit({.wait = once})); // nobody signals it
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VKD(vkDestroySemaphore)(device_, once, nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u); // in use
  VKD(vkDestroySemaphore)(device_, steps, nullptr);
  VKD(vkDestroyDevice)(std::exchange(device_, VK_NULL_HANDLE), nullptr); // gives the wait up
  EXPECT_EQ(takeVulkanMisuses(), 1u);
}

TEST_F(VulkanTest, ALostDeviceStaysLost) {
  const VkFence fence = makeFence();
  SOFTVK(refuse)("submit");
  EXPECT_EQ(submit({}, fence), VK_ERROR_DEVICE_LOST);
  SOFTVK(refuse)(nullptr);
  EXPECT_EQ(waitFor(fence), VK_ERROR_DEVICE_LOST);
  EXPECT_EQ(VKD(vkDeviceWaitIdle)(device_), VK_ERROR_DEVICE_LOST);
  VKD(vkDestroyFence)(device_, fence, nullptr);
}

} // namespace
} // namespace gstzc::test
