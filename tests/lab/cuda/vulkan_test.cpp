// SPDX-License-Identifier: LGPL-2.1-or-later
// Vulkan's half of the route vulkan-bridge on Mesa's lavapipe, with real dma-bufs and fences: import, copy, export.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <iostream>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "ext/cuda/routes/vulkan_copy.h"
#include "tests/lab/cuda/pattern.h"
#include "tests/lab/cuda/wrong_import.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/lab/support/vgem_fence.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kWidth = 2048, kHeight = 2048; // of 1 byte: 4 MiB, twice as much as a wrong import shows right
constexpr auto kLong = 30s;

class Vulkan : public ::testing::Test {
protected:
  static void SetUpTestSuite() { setenv("GSTZC_VULKAN_DEVICE", "any", 1); }
  void SetUp() override {
    auto opened = VulkanDevice::create(DeviceUuid{});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    device = opened.take();
  }
  VulkanDevicePtr device;
};

// The bytes of an exported memory. Lavapipe's opaque descriptor is a file that begins with a header of its own.
std::vector<uint8_t> contentOf(int fd, const std::vector<uint8_t> &expected) {
  struct stat st = {};
  if (fstat(fd, &st) != 0 || st.st_size <= 0) return {};
  const auto size = static_cast<size_t>(st.st_size);
  void *map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return {};
  const auto *begin = static_cast<const uint8_t *>(map), *end = begin + size;
  const auto *found = std::search(begin, std::min(end, begin + 65536 + 64), expected.begin(), expected.begin() + 64);
  std::vector<uint8_t> content;
  if (static_cast<size_t>(end - found) >= expected.size()) content.assign(found, found + expected.size());
  munmap(map, size);
  return content;
}

TEST_F(Vulkan, CopiesAnUdmabufIntoMemoryForOthers) {
  std::cout << "on " << device->name() << "\n";
  ASSERT_TRUE(VulkanCopy::supported(*device).ok()) << VulkanCopy::supported(*device).error().message();
  auto dmabuf = lab::allocateUdmabuf(kWidth * kHeight);
  ASSERT_TRUE(dmabuf.ok());
  const auto first = lab::pattern(kWidth * kHeight, 1), second = lab::pattern(kWidth * kHeight, 2);
  ASSERT_TRUE(lab::write(dmabuf->get(), first));
  auto copy = VulkanCopy::create(device, lab::source(dmabuf->get(), DRM_FORMAT_R8, kWidth, kHeight, 1));
  ASSERT_TRUE(copy.ok()) << copy.error().message();
  auto exported = (*copy)->exportMemory();
  ASSERT_TRUE(exported.ok()) << exported.error().message();

  ASSERT_TRUE((*copy)->start(0, 1).ok());
  const auto ended = (*copy)->wait(1, kLong);
  ASSERT_TRUE(ended.ok()) << ended.error().message();
  EXPECT_EQ(contentOf(exported->get(), first), first);

  // the next frame, through the same import: its copy waits until it is ready
  ASSERT_TRUE(lab::write(dmabuf->get(), second));
  std::future<bool> started = std::async(std::launch::async, [&] { return (*copy)->start(2, 3).ok(); });
  EXPECT_FALSE((*copy)->wait(3, 100ms).ok());
  ASSERT_TRUE((*copy)->signal(2).ok());
  ASSERT_TRUE(started.get());
  ASSERT_TRUE((*copy)->wait(3, kLong).ok());
  EXPECT_EQ(contentOf(exported->get(), second), second);
}

TEST_F(Vulkan, CopiesFromTheSystemHeap) {
  auto dmabuf = lab::allocateHeap(kWidth * kHeight);
  ASSERT_TRUE(dmabuf.ok());
  const auto bytes = lab::pattern(kWidth * kHeight, 3);
  ASSERT_TRUE(lab::write(dmabuf->get(), bytes));
  auto copy = VulkanCopy::create(device, lab::source(dmabuf->get(), DRM_FORMAT_R8, kWidth, kHeight, 1));
  ASSERT_TRUE(copy.ok()) << copy.error().message();
  auto exported = (*copy)->exportMemory();
  ASSERT_TRUE(exported.ok());
  ASSERT_TRUE((*copy)->start(0, 1).ok());
  ASSERT_TRUE((*copy)->wait(1, kLong).ok());
  EXPECT_EQ(contentOf(exported->get(), bytes), bytes);
}

// Success that is none: found out by the content, and the next route is taken.
TEST_F(Vulkan, ACopyOfOtherMemoryIsFoundOut) {
  struct Import : DeviceImport {
    std::unique_ptr<VulkanCopy> copy;
  };
  auto views = lab::allocateTwoViews(kWidth * kHeight);
  ASSERT_TRUE(views.ok()) << views.error().message();
  const auto bytes = lab::pattern(kWidth * kHeight, 7);
  ASSERT_TRUE(lab::write(views->right.get(), bytes));
  lab::expectTheNextRouteIsTaken(
      *views, lab::source(views->right.get(), DRM_FORMAT_R8, kWidth, kHeight, 1),
      [this](const ImportSource &of) -> Result<std::shared_ptr<DeviceImport>> {
        auto copy = VulkanCopy::create(device, of);
        if (!copy) return copy.error();
        auto import = std::make_shared<Import>();
        import->copy = copy.take();
        return std::shared_ptr<DeviceImport>(std::move(import));
      },
      [&](DeviceImport &import) -> std::vector<uint8_t> {
        VulkanCopy &copy = *dynamic_cast<Import &>(import).copy;
        auto exported = copy.exportMemory();
        if (!exported || !copy.start(0, 1).ok() || !copy.wait(1, kLong).ok()) return {};
        return contentOf(exported->get(), bytes);
      });
}

TEST_F(Vulkan, RefusesWhatCannotBeCopiedByBytes) {
  auto dmabuf = lab::allocateUdmabuf(kWidth * kHeight);
  ASSERT_TRUE(dmabuf.ok());
  auto tiled = lab::source(dmabuf->get(), DRM_FORMAT_R8, kWidth, kHeight, 1);
  tiled.modifier = I915_FORMAT_MOD_Y_TILED;
  auto copy = VulkanCopy::create(device, tiled);
  ASSERT_FALSE(copy.ok());
  EXPECT_EQ(copy.error().code, EOPNOTSUPP);
  EXPECT_NE(copy.error().what.find("Y_TILED"), std::string::npos) << copy.error().message();

  auto beyond = lab::source(dmabuf->get(), DRM_FORMAT_R8, kWidth, kHeight, 1);
  beyond.planes[0].rows += 1;
  EXPECT_FALSE(VulkanCopy::create(device, beyond).ok());

  const UniqueFd event(eventfd(0, EFD_CLOEXEC)); // no memory at all
  auto none = VulkanCopy::create(device, lab::source(event.get(), DRM_FORMAT_R8, kWidth, kHeight, 1));
  ASSERT_FALSE(none.ok());
  std::cout << "an eventfd: " << none.error().message() << "\n";
}

// The first half of the semaphore gate: a fence of the kernel holds the queue.
TEST_F(Vulkan, QueueWaitsForASyncFile) {
  ASSERT_TRUE(device->importsSyncFiles());
  auto timeline = lab::SwTimeline::create();
  ASSERT_TRUE(timeline.ok());
  auto fence = timeline->fence(1);
  ASSERT_TRUE(fence.ok());
  auto binary = newBinarySemaphore(device);
  ASSERT_TRUE(binary.ok());
  VkImportSemaphoreFdInfoKHR import = {VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR};
  import.semaphore = binary->get();
  import.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT;
  import.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
  import.fd = fence->release().release();
  ASSERT_EQ(device->vk().vkImportSemaphoreFdKHR(device->handle(), &import), VK_SUCCESS);

  auto dmabuf = lab::allocateUdmabuf(kWidth * kHeight);
  ASSERT_TRUE(dmabuf.ok());
  auto copy = VulkanCopy::create(device, lab::source(dmabuf->get(), DRM_FORMAT_R8, kWidth, kHeight, 1));
  ASSERT_TRUE(copy.ok());
  const uint64_t none = 0, one = 1;
  VkTimelineSemaphoreSubmitInfo values = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &none;
  values.pSignalSemaphoreValues = &one;
  const VkSemaphore waited = binary->get(), signalled = (*copy)->timeline();
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.pNext = &values;
  submit.waitSemaphoreCount = submit.signalSemaphoreCount = 1;
  submit.pWaitSemaphores = &waited;
  submit.pWaitDstStageMask = &stage;
  submit.pSignalSemaphores = &signalled;
  // a driver may do its waiting in the call
  std::future<bool> submitted = std::async(std::launch::async, [&] { return device->submit(submit).ok(); });
  EXPECT_FALSE((*copy)->wait(1, 200ms).ok());
  std::cout << "the call " << (submitted.wait_for(0s) == std::future_status::ready ? "returned" : "waits") << "\n";
  ASSERT_TRUE(timeline->advance(1).ok());
  ASSERT_TRUE(submitted.get());
  EXPECT_TRUE((*copy)->wait(1, kLong).ok());
}

// What lavapipe lacks for the rest of the bridge on the device: the route waits on the CPU there.
TEST_F(Vulkan, TellsWhetherTimelinesCanBeShared) {
  std::cout << device->name() << (device->hasTimelineExport() ? " exports" : " does not export")
            << " timeline semaphores\n";
  auto timeline = newTimeline(device);
  ASSERT_TRUE(timeline.ok()) << timeline.error().message();
  if (!device->hasTimelineExport()) return;
  auto fd = exportTimeline(device, timeline->get());
  EXPECT_TRUE(fd.ok()) << fd.error().message();
}

TEST(VulkanDevices, OtherUuidIsNobody) {
  unsetenv("GSTZC_VULKAN_DEVICE");
  auto opened = VulkanDevice::create(DeviceUuid{1, 2, 3});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ENODEV);
  EXPECT_NE(opened.error().what.find("01020300"), std::string::npos) << opened.error().message();
  EXPECT_NE(opened.error().what.find("llvmpipe"), std::string::npos) << opened.error().message();
}

} // namespace
