// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/vulkan_copy.h"

#include <algorithm>
#include <cerrno>

#include <drm_fourcc.h>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc::cuda {
namespace {

constexpr uint64_t kAlignment = 256; // bytes, of the first plane in the copy

struct BufferKind {
  VkExternalMemoryHandleTypeFlagBits handle;
  VkBufferUsageFlags usage;
};
constexpr BufferKind kSource = {VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT, VK_BUFFER_USAGE_TRANSFER_SRC_BIT};
constexpr BufferKind kTarget = {VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT, VK_BUFFER_USAGE_TRANSFER_DST_BIT};

VkExternalMemoryProperties propertiesOf(const VulkanDevice &device, const BufferKind &kind) {
  VkPhysicalDeviceExternalBufferInfo info = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  info.usage = kind.usage;
  info.handleType = kind.handle;
  VkExternalBufferProperties answer = {VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  device.vk().vkGetPhysicalDeviceExternalBufferProperties(device.physical(), &info, &answer);
  return answer.externalMemoryProperties;
}

struct MadeBuffer {
  VulkanBuffer buffer;
  VkMemoryRequirements needs = {};
  bool prefers_own_memory = false;
};

Result<MadeBuffer> makeBuffer(const VulkanDevicePtr &device, const BufferKind &kind, uint64_t size) {
  VkExternalMemoryBufferCreateInfo external = {VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = kind.handle;
  VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.pNext = &external;
  info.size = size;
  info.usage = kind.usage;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkBuffer handle = VK_NULL_HANDLE;
  if (auto made = device->check(device->vk().vkCreateBuffer(device->handle(), &info, nullptr, &handle),
                                "vkCreateBuffer of " + std::to_string(size) + " bytes");
      !made)
    return made.error();
  MadeBuffer made = {VulkanBuffer(device, handle)};
  VkBufferMemoryRequirementsInfo2 asked = {VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2};
  asked.buffer = handle;
  VkMemoryDedicatedRequirements dedicated = {VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS};
  VkMemoryRequirements2 answer = {VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2};
  answer.pNext = &dedicated;
  device->vk().vkGetBufferMemoryRequirements2(device->handle(), &asked, &answer);
  made.needs = answer.memoryRequirements;
  made.prefers_own_memory =
      dedicated.prefersDedicatedAllocation == VK_TRUE || dedicated.requiresDedicatedAllocation == VK_TRUE;
  return made;
}

Result<VulkanMemory> allocate(const VulkanDevicePtr &device, const VkMemoryAllocateInfo &info, VkBuffer buffer,
                              const std::string &what) {
  VkDeviceMemory handle = VK_NULL_HANDLE;
  if (auto made = device->check(device->vk().vkAllocateMemory(device->handle(), &info, nullptr, &handle),
                                "vkAllocateMemory" + what);
      !made)
    return made.error();
  VulkanMemory memory(device, handle);
  if (auto bound = device->check(device->vk().vkBindBufferMemory(device->handle(), buffer, handle, 0),
                                 "vkBindBufferMemory" + what);
      !bound)
    return bound.error();
  return memory;
}

} // namespace

Result<CopyRange> copyRange(const ImportSource &source) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (unsigned i = 0; i < source.n_planes; ++i) {
    const ImportPlane &plane = source.planes[i];
    if (plane.rows == 0) continue;
    const uint64_t bytes = uint64_t{plane.pitch} * (plane.rows - 1) + plane.row_bytes;
    if (plane.offset > source.size || bytes > source.size - plane.offset)
      return Error{"plane " + std::to_string(i) + " ends at byte " + std::to_string(plane.offset + bytes) +
                       " of a dma-buf of " + std::to_string(source.size),
                   EINVAL, ""};
    begin = std::min(begin, plane.offset);
    end = std::max(end, plane.offset + bytes);
  }
  if (begin >= end) return Error{"a picture without bytes", EINVAL, ""};
  begin -= begin % kAlignment;
  return CopyRange{begin, end - begin};
}

Status VulkanCopy::supported(VulkanDevice &device) {
  if (!device.importsDmabufs())
    return Error{"the Vulkan device " + device.name() + " has no VK_EXT_external_memory_dma_buf", EOPNOTSUPP, ""};
  if ((propertiesOf(device, kSource).externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) == 0)
    return Error{"the Vulkan device " + device.name() + " does not import dma-bufs as buffers", EOPNOTSUPP, ""};
  if ((propertiesOf(device, kTarget).externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) == 0)
    return Error{"the Vulkan device " + device.name() + " does not export memory of buffers", EOPNOTSUPP, ""};
  return Nothing{};
}

Result<std::unique_ptr<VulkanCopy>> VulkanCopy::create(VulkanDevicePtr device, const ImportSource &source) {
  if (auto linear = linearOnly(source); !linear) return linear.error();
  auto range = copyRange(source);
  if (!range) return range.error();
  std::unique_ptr<VulkanCopy> copy(new VulkanCopy(std::move(device)));
  copy->range_ = *range;
  if (auto done = copy->importBuffer(source); !done) return done.error();
  if (auto done = copy->makeTarget(); !done) return done.error();
  auto timeline = newTimeline(copy->device_);
  if (!timeline) return timeline.error();
  copy->timeline_ = timeline.take();
  if (auto done = copy->record(); !done) return done.error();
  return copy;
}

VulkanCopy::~VulkanCopy() = default;

Status VulkanCopy::importBuffer(const ImportSource &source) {
  // What the descriptor's memory can be, for a duplicate that the import takes.
  UniqueFd fd = UniqueFd::duplicate(source.fd);
  if (!fd.isValid()) return Error{"duplicating the dma-buf's descriptor", errno, ""};
  VkMemoryFdPropertiesKHR types = {VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
  if (auto asked =
          device_->check(device_->vk().vkGetMemoryFdPropertiesKHR(device_->handle(), kSource.handle, fd.get(), &types),
                         "vkGetMemoryFdPropertiesKHR of a dma-buf on " + device_->name());
      !asked)
    return asked.error();
  auto made = makeBuffer(device_, kSource, source.size);
  if (!made) return made.error();
  const auto type = device_->memoryType(types.memoryTypeBits & made->needs.memoryTypeBits, 0);
  if (!type)
    return Error{"the Vulkan device " + device_->name() + " has no type of memory for this dma-buf", EOPNOTSUPP, ""};

  VkMemoryDedicatedAllocateInfo own = {VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
  own.buffer = made->buffer.get();
  VkImportMemoryFdInfoKHR import = {VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR};
  import.pNext = &own;
  import.handleType = kSource.handle;
  import.fd = fd.get();
  VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.pNext = &import;
  info.allocationSize = made->needs.size;
  info.memoryTypeIndex = *type;
  VkDeviceMemory handle = VK_NULL_HANDLE;
  if (auto imported =
          device_->check(device_->vk().vkAllocateMemory(device_->handle(), &info, nullptr, &handle),
                         "importing a dma-buf of " + std::to_string(source.size) + " bytes into " + device_->name());
      !imported)
    return imported.error();
  (void)fd.release(); // the driver's since then
  source_memory_ = VulkanMemory(device_, handle);
  source_ = std::move(made->buffer);
  return device_->check(device_->vk().vkBindBufferMemory(device_->handle(), source_.get(), handle, 0),
                        "vkBindBufferMemory of a dma-buf");
}

Status VulkanCopy::makeTarget() {
  auto made = makeBuffer(device_, kTarget, range_.size);
  if (!made) return made.error();
  const auto type = device_->memoryType(made->needs.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  if (!type) return Error{"the Vulkan device " + device_->name() + " has no memory for a buffer", EOPNOTSUPP, ""};
  dedicated_ = made->prefers_own_memory || (propertiesOf(*device_, kTarget).externalMemoryFeatures &
                                            VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) != 0;
  memory_size_ = made->needs.size;
  VkMemoryDedicatedAllocateInfo own = {VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO};
  own.buffer = made->buffer.get();
  VkExportMemoryAllocateInfo exported = {VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO};
  exported.pNext = dedicated_ ? &own : nullptr;
  exported.handleTypes = kTarget.handle;
  VkMemoryAllocateInfo info = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.pNext = &exported;
  info.allocationSize = memory_size_;
  info.memoryTypeIndex = *type;
  auto memory = allocate(device_, info, made->buffer.get(), " of " + std::to_string(memory_size_) + " bytes to export");
  if (!memory) return memory.error();
  target_memory_ = memory.take();
  target_ = std::move(made->buffer);
  return Nothing{};
}

Status VulkanCopy::record() {
  const VulkanTable &vk = device_->vk();
  VkCommandPoolCreateInfo pool_info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.queueFamilyIndex = device_->family();
  VkCommandPool pool = VK_NULL_HANDLE;
  if (auto made =
          device_->check(vk.vkCreateCommandPool(device_->handle(), &pool_info, nullptr, &pool), "vkCreateCommandPool");
      !made)
    return made.error();
  pool_ = VulkanCommandPool(device_, pool);
  VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  if (auto made =
          device_->check(vk.vkAllocateCommandBuffers(device_->handle(), &info, &commands_), "vkAllocateCommandBuffers");
      !made)
    return made.error();

  // A frame may be asked for again while its last copy is still waiting: the same commands are then pending twice.
  VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (auto begun = device_->check(vk.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer"); !begun)
    return begun.error();

  // The frame comes from another driver and goes back to it; the copy goes to CUDA, and what CUDA did to it is nothing.
  VkBufferMemoryBarrier take = {VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  take.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
  take.srcQueueFamilyIndex = device_->foreignFamily();
  take.dstQueueFamilyIndex = device_->family();
  take.buffer = source_.get();
  take.size = VK_WHOLE_SIZE;
  vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, nullptr,
                          1, &take, 0, nullptr);
  VkBufferCopy region = {};
  region.srcOffset = range_.begin;
  region.size = range_.size;
  vk.vkCmdCopyBuffer(commands_, source_.get(), target_.get(), 1, &region);
  VkBufferMemoryBarrier give[2] = {take, take};
  give[0].srcAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
  give[1].srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  give[1].buffer = target_.get();
  for (VkBufferMemoryBarrier &barrier : give) {
    barrier.dstAccessMask = 0;
    std::swap(barrier.srcQueueFamilyIndex, barrier.dstQueueFamilyIndex);
  }
  give[1].dstQueueFamilyIndex = VK_QUEUE_FAMILY_EXTERNAL;
  vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0,
                          nullptr, 2, give, 0, nullptr);
  return device_->check(vk.vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
}

Result<UniqueFd> VulkanCopy::exportMemory() {
  VkMemoryGetFdInfoKHR info = {VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR};
  info.memory = target_memory_.get();
  info.handleType = kTarget.handle;
  int fd = -1;
  if (auto made = device_->check(device_->vk().vkGetMemoryFdKHR(device_->handle(), &info, &fd),
                                 "vkGetMemoryFdKHR of " + std::to_string(memory_size_) + " bytes");
      !made)
    return made.error();
  return UniqueFd(fd);
}

Status VulkanCopy::start(uint64_t ready, uint64_t done) {
  VkTimelineSemaphoreSubmitInfo values = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.waitSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &ready;
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &done;
  const VkSemaphore semaphore = timeline_.get();
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.pNext = &values;
  info.waitSemaphoreCount = 1;
  info.pWaitSemaphores = &semaphore;
  info.pWaitDstStageMask = &stage;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands_;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  return device_->submit(info);
}

Status VulkanCopy::signal(uint64_t value) {
  VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  info.semaphore = timeline_.get();
  info.value = value;
  return device_->check(device_->vk().vkSignalSemaphore(device_->handle(), &info), "vkSignalSemaphore");
}

Status VulkanCopy::wait(uint64_t value, std::chrono::nanoseconds timeout) {
  const VkSemaphore semaphore = timeline_.get();
  VkSemaphoreWaitInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &value;
  const auto result = device_->vk().vkWaitSemaphores(device_->handle(), &info, static_cast<uint64_t>(timeout.count()));
  return device_->check(result, "waiting for a copy on " + device_->name());
}

} // namespace gstzc::cuda
