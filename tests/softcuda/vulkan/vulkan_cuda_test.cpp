// SPDX-License-Identifier: LGPL-2.1-or-later
// A picture's way over the stand-ins for libvulkan and libcuda: dma-buf, copy, memory that CUDA imports, with
// semaphores that both know.
#include <sys/eventfd.h>

#include "tests/softcuda/vulkan/vulkan_test.h"

namespace gstzc::test {
namespace {

class VulkanCudaTest : public VulkanCopyTest {
protected:
  // CUDA's view of the target
  void importTarget() {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
    description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = exportMemory(target_memory_);
    description.size = kBytes;
    description.flags = 1; // it is an allocation of its own
    CU_OK(CU(cuImportExternalMemory)(&external_, &description));
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
    buffer.size = kBytes;
    CU_OK(CU(cuExternalMemoryGetMappedBuffer)(&pointer_, external_, &buffer));
  }
  void TearDown() override {
    if (external_) {
      EXPECT_EQ(CU(cuMemFree_v2)(pointer_), CUDA_SUCCESS);
      EXPECT_EQ(CU(cuDestroyExternalMemory)(external_), CUDA_SUCCESS);
    }
    VulkanCopyTest::TearDown();
  }
  void copyNow() {
    const VkFence fence = makeFence();
    VK_OK(submit({.commands = {commands_}}, fence));
    VK_OK(waitFor(fence));
    VKD(vkDestroyFence)(device_, fence, nullptr);
  }
  CUexternalMemory external_ = nullptr;
  CUdeviceptr pointer_ = 0;
};

TEST_F(VulkanCudaTest, CudaSeesWhatVulkanCopied) {
  const SharedBytes frame(kBytes);
  makeBuffers(frame.fd.get());
  record();
  importTarget();
  EXPECT_EQ(read(pointer_, 1)[0], 0xcd); // nothing has been copied yet
  copyNow();
  EXPECT_EQ(firstDifference(read(pointer_, kBytes)), kBytes);
  frame.data[2 * kMegabyte + 5] = 0xaa;
  EXPECT_EQ(read(pointer_ + 2 * kMegabyte + 5, 1)[0], patternAt(2 * kMegabyte + 5)); // of the last copy
  copyNow();
  EXPECT_EQ(read(pointer_ + 2 * kMegabyte + 5, 1)[0], 0xaa);
}

TEST_F(VulkanCudaTest, TheImportCanBeWrongOnEitherSide) {
  const SharedBytes frame(kBytes);
  SOFT(set_import_fault)("vulkan:2M");
  makeBuffers(frame.fd.get());
  record();
  importTarget();
  copyNow();
  EXPECT_EQ(firstDifference(read(pointer_, kBytes)), 2 * kMegabyte);
  CU_OK(CU(cuMemFree_v2)(pointer_));
  CU_OK(CU(cuDestroyExternalMemory)(external_));
  SOFT(set_import_fault)("opaque:1M");
  importTarget();
  EXPECT_EQ(firstDifference(read(pointer_, kBytes)), kMegabyte);
}

TEST_F(VulkanCudaTest, SemaphoresOrderBothWithoutTheHost) {
  const SharedBytes frame(kBytes);
  makeBuffers(frame.fd.get());
  record(VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
  importTarget();
  const VkSemaphore steps = makeSemaphore(true, kOpaqueSemaphore), acquired = makeSemaphore(false);
  CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC description{};
  description.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
  description.handle.fd = exportSemaphore(steps, kOpaqueSemaphore);
  CUexternalSemaphore semaphore;
  CU_OK(CU(cuImportExternalSemaphore)(&semaphore, &description));

  // fence → Vulkan's copy → 1 → CUDA reads → 2 → Vulkan copies again
  const UniqueFd producer(eventfd(0, EFD_CLOEXEC));
  VK_OK(importSyncFile(acquired, UniqueFd::duplicate(producer.get()).release()));
  VK_OK(submit({.commands = {commands_}, .wait = acquired, .signal = steps, .signal_value = 1}));
  const CUstream stream = newStream();
  CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait{};
  wait.params.fence.value = 1;
  CU_OK(CU(cuWaitExternalSemaphoresAsync)(&semaphore, &wait, 1, stream));
  std::vector<unsigned char> bytes(kBytes);
  CU_OK(CU(cuMemcpyDtoHAsync_v2)(bytes.data(), pointer_, kBytes, stream));
  CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal{};
  signal.params.fence.value = 2;
  CU_OK(CU(cuSignalExternalSemaphoresAsync)(&semaphore, &signal, 1, stream));
  const VkFence fence = makeFence();
  VK_OK(submit({.commands = {commands_}, .wait = steps, .wait_value = 2}, fence));

  EXPECT_TRUE(isHeld(stream));
  EXPECT_EQ(VKD(vkGetFenceStatus)(device_, fence), VK_NOT_READY);
  const uint64_t one = 1;
  EXPECT_EQ(write(producer.get(), &one, sizeof one), ssize_t{sizeof one});
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(firstDifference(bytes), kBytes);
  VK_OK(waitFor(fence));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
  VKD(vkDestroyFence)(device_, fence, nullptr);
  VKD(vkDestroySemaphore)(device_, steps, nullptr);
  VKD(vkDestroySemaphore)(device_, acquired, nullptr);
}

TEST_F(VulkanCopyTest, NoticesMissingBarriersAndWrongRegions) {
  const SharedBytes frame(kBytes);
  makeBuffers(frame.fd.get());
  begin();
  copy(); // without having acquired the source
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  pass(source_, VK_QUEUE_FAMILY_EXTERNAL, 0);
  copy(kBytes + 1);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  pass(source_, 0, VK_QUEUE_FAMILY_EXTERNAL); // and after it was given back
  copy();
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VK_OK(VKD(vkEndCommandBuffer)(commands_));
  copy(); // no longer recording
  EXPECT_EQ(takeVulkanMisuses(), 1u);
}

TEST_F(VulkanCopyTest, NoticesWhatIsDestroyedUnderTheQueue) {
  const SharedBytes frame(kBytes);
  makeBuffers(frame.fd.get());
  record();
  const VkSemaphore steps = makeSemaphore(true);
  VK_OK(submit({.commands = {commands_}, .wait = steps, .wait_value = 1}));
  VK_OK(submit({.commands = {commands_}})); // once more, without having said so
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VKD(vkDestroyBuffer)(device_, std::exchange(source_, VK_NULL_HANDLE), nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VKD(vkFreeMemory)(device_, std::exchange(source_memory_, VK_NULL_HANDLE), nullptr);
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VkSemaphoreSignalInfo signal{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  signal.semaphore = steps;
  signal.value = 1;
  VK_OK(VKD(vkSignalSemaphore)(device_, &signal));
  VK_OK(VKD(vkDeviceWaitIdle)(device_)); // the stand-in keeps what it copies
  VKD(vkDestroySemaphore)(device_, steps, nullptr);
  EXPECT_EQ(submit({.commands = {commands_}}), VK_SUCCESS);
  EXPECT_EQ(takeVulkanMisuses(), 1u); // of a buffer that is gone
  VK_OK(VKD(vkDeviceWaitIdle)(device_));
}

TEST_F(VulkanCopyTest, OneTimeCommandsAreSubmittedOnce) {
  const SharedBytes frame(kBytes);
  makeBuffers(frame.fd.get());
  record(VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  VK_OK(submit({.commands = {commands_}}));
  VK_OK(submit({.commands = {commands_}}));
  EXPECT_EQ(takeVulkanMisuses(), 1u);
  VK_OK(VKD(vkDeviceWaitIdle)(device_));
}

} // namespace
} // namespace gstzc::test
