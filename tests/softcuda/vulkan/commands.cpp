// SPDX-License-Identifier: LGPL-2.1-or-later
// Command buffers: copies between buffers, fills and barriers. What others own has to be acquired from them, and
// released to them after it was written: buffers of imported dma-bufs, and of memory that is exported.
#include <algorithm>
#include <cstring>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {
namespace {

using CommandBufferPtr = std::shared_ptr<CommandBuffer>;

CommandBufferPtr recording(VkCommandBuffer handle, const char *function) {
  const auto commands = find<CommandBuffer>(handle, function);
  if (commands && commands->stage != CommandBuffer::Stage::Recording) {
    misuse("%s: the command buffer is not being recorded", function);
    return nullptr;
  }
  return commands;
}

void clear(CommandBuffer &commands) {
  commands.stage = CommandBuffer::Stage::Initial;
  commands.commands.clear();
  commands.uses.clear();
  commands.acquired.clear();
  commands.released.clear();
}

std::shared_ptr<Buffer> usable(CommandBuffer &commands, VkBuffer handle, VkBufferUsageFlags usage,
                               const char *function) {
  const auto buffer = find<Buffer>(handle, function);
  if (!buffer) return nullptr;
  if (!buffer->memory) {
    misuse("%s: the buffer has no memory", function);
    return nullptr;
  }
  if ((buffer->usage & usage) == 0) misuse("%s: the buffer was not made for this usage", function);
  if (buffer->memory->imported && !commands.acquired.contains(number(handle)))
    misuse("%s: the buffer is others' memory and was not acquired from them by a barrier", function);
  commands.uses.push_back(buffer);
  commands.uses.push_back(buffer->memory);
  return buffer;
}

bool foreign(uint32_t family) { return family == VK_QUEUE_FAMILY_EXTERNAL || family == VK_QUEUE_FAMILY_FOREIGN_EXT; }

void transfer(CommandBuffer &commands, VkBuffer handle, uint32_t from, uint32_t to, const char *function) {
  const auto buffer = find<Buffer>(handle, function);
  if (!buffer) return;
  commands.uses.push_back(buffer);
  if (foreign(from) && to == 0) {
    commands.acquired.insert(number(handle));
  } else if (from == 0 && foreign(to)) {
    commands.released.insert(number(handle));
    commands.acquired.erase(number(handle));
  } else if (from != to) {
    misuse("%s: between queue families %u and %u", function, from, to);
  }
}

void reset(Lock &, CommandBuffer &commands, const char *function) {
  if (commands.pending > 0) misuse("%s: the queue uses the command buffer", function);
  clear(commands);
}

} // namespace
} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateCommandPool(VkDevice handle, const VkCommandPoolCreateInfo *info,
                                                       const VkAllocationCallbacks *, VkCommandPool *out) {
  const Lock lock(state().lock);
  if (!find<Device>(handle, __func__)) return VK_ERROR_UNKNOWN;
  if (info->queueFamilyIndex != 0) misuse("vkCreateCommandPool: of a queue family that does not exist");
  auto pool = std::make_shared<CommandPool>();
  pool->flags = info->flags;
  *out = toHandle<VkCommandPool>(addObject(pool, number(handle)));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroyCommandPool(VkDevice, VkCommandPool handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  if (!take<CommandPool>(handle, __func__)) return;
  std::vector<uintptr_t> of_pool;
  for (const auto &[number_of, object] : state().objects)
    if (object->kind == Kind::CommandBuffer && static_cast<CommandBuffer &>(*object).pool == number(handle))
      of_pool.push_back(number_of);
  for (const uintptr_t one : of_pool) takeObject(Kind::CommandBuffer, one, __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkResetCommandPool(VkDevice, VkCommandPool handle, VkCommandPoolResetFlags) {
  Lock lock(state().lock);
  if (!find<CommandPool>(handle, __func__)) return VK_ERROR_UNKNOWN;
  for (const auto &entry : state().objects)
    if (entry.second->kind == Kind::CommandBuffer)
      if (auto &commands = static_cast<CommandBuffer &>(*entry.second); commands.pool == number(handle))
        reset(lock, commands, __func__);
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkAllocateCommandBuffers(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                                            VkCommandBuffer *out) {
  const Lock lock(state().lock);
  const auto pool = find<CommandPool>(info->commandPool, __func__);
  if (!pool) return VK_ERROR_UNKNOWN;
  if (info->level != VK_COMMAND_BUFFER_LEVEL_PRIMARY) misuse("vkAllocateCommandBuffers: only primary ones are known");
  for (uint32_t i = 0; i < info->commandBufferCount; i++) {
    auto commands = std::make_shared<CommandBuffer>();
    commands->pool = number(info->commandPool);
    commands->resettable = pool->flags & VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    out[i] = toHandle<VkCommandBuffer>(addObject(commands, number(device)));
  }
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkFreeCommandBuffers(VkDevice, VkCommandPool, uint32_t count,
                                                    const VkCommandBuffer *handles) {
  const Lock lock(state().lock);
  for (uint32_t i = 0; i < count; i++) take<CommandBuffer>(handles[i], __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkResetCommandBuffer(VkCommandBuffer handle, VkCommandBufferResetFlags) {
  Lock lock(state().lock);
  const auto commands = find<CommandBuffer>(handle, __func__);
  if (!commands) return VK_ERROR_UNKNOWN;
  if (!commands->resettable) misuse("vkResetCommandBuffer: its pool was made without that");
  reset(lock, *commands, __func__);
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkBeginCommandBuffer(VkCommandBuffer handle, const VkCommandBufferBeginInfo *info) {
  Lock lock(state().lock);
  const auto commands = find<CommandBuffer>(handle, __func__);
  if (!commands) return VK_ERROR_UNKNOWN;
  if (commands->stage != CommandBuffer::Stage::Initial) {
    if (commands->stage == CommandBuffer::Stage::Recording || !commands->resettable)
      misuse(
          "vkBeginCommandBuffer: the command buffer is recorded already, and its pool does not allow to do it again");
    reset(lock, *commands, __func__);
  }
  commands->stage = CommandBuffer::Stage::Recording;
  commands->one_time = info->flags & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  commands->simultaneous = info->flags & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer handle) {
  const Lock lock(state().lock);
  const auto commands = recording(handle, __func__);
  if (!commands) return VK_ERROR_UNKNOWN;
  commands->stage = CommandBuffer::Stage::Executable;
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkCmdCopyBuffer(VkCommandBuffer handle, VkBuffer from_handle, VkBuffer to_handle,
                                               uint32_t count, const VkBufferCopy *regions) {
  const Lock lock(state().lock);
  const auto commands = recording(handle, __func__);
  if (!commands) return;
  const auto from = usable(*commands, from_handle, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, __func__);
  const auto to = usable(*commands, to_handle, VK_BUFFER_USAGE_TRANSFER_DST_BIT, __func__);
  if (!from || !to) return;
  if (count == 0) misuse("vkCmdCopyBuffer: without a region");
  for (uint32_t i = 0; i < count; i++) {
    const VkBufferCopy region = regions[i];
    const bool inside = region.srcOffset <= from->size && region.size <= from->size - region.srcOffset &&
                        region.dstOffset <= to->size && region.size <= to->size - region.dstOffset;
    if (!inside || region.size == 0) {
      misuse("vkCmdCopyBuffer: region %u is empty or beyond a buffer's end", i);
      continue;
    }
    commands->commands.emplace_back(
        [from, to, region] { memmove(to->data() + region.dstOffset, from->data() + region.srcOffset, region.size); });
  }
}

SOFTVULKAN_API void VKAPI_CALL vkCmdFillBuffer(VkCommandBuffer handle, VkBuffer to_handle, VkDeviceSize offset,
                                               VkDeviceSize size, uint32_t value) {
  const Lock lock(state().lock);
  const auto commands = recording(handle, __func__);
  if (!commands) return;
  const auto to = usable(*commands, to_handle, VK_BUFFER_USAGE_TRANSFER_DST_BIT, __func__);
  if (!to) return;
  if (size == VK_WHOLE_SIZE && offset <= to->size) size = (to->size - offset) / 4 * 4;
  if (offset % 4 != 0 || size % 4 != 0 || offset > to->size || size > to->size - offset)
    return misuse("vkCmdFillBuffer: not of whole words, or beyond the buffer's end");
  commands->commands.emplace_back([to, offset, size, value] {
    for (uint64_t at = offset; at < offset + size; at += 4) memcpy(to->data() + at, &value, 4);
  });
}

SOFTVULKAN_API void VKAPI_CALL vkCmdPipelineBarrier(VkCommandBuffer handle, VkPipelineStageFlags from,
                                                    VkPipelineStageFlags to, VkDependencyFlags, uint32_t,
                                                    const VkMemoryBarrier *, uint32_t count,
                                                    const VkBufferMemoryBarrier *barriers, uint32_t images,
                                                    const VkImageMemoryBarrier *) {
  const Lock lock(state().lock);
  const auto commands = recording(handle, __func__);
  if (!commands) return;
  if (from == 0 || to == 0 || images > 0) misuse("vkCmdPipelineBarrier: without stages, or with images");
  for (uint32_t i = 0; i < count; i++)
    transfer(*commands, barriers[i].buffer, barriers[i].srcQueueFamilyIndex, barriers[i].dstQueueFamilyIndex, __func__);
}

SOFTVULKAN_API void VKAPI_CALL vkCmdPipelineBarrier2(VkCommandBuffer handle, const VkDependencyInfo *info) {
  const Lock lock(state().lock);
  const auto commands = recording(handle, __func__);
  if (!commands) return;
  if (info->imageMemoryBarrierCount > 0) misuse("vkCmdPipelineBarrier2: with images");
  for (uint32_t i = 0; i < info->bufferMemoryBarrierCount; i++) {
    const VkBufferMemoryBarrier2 &barrier = info->pBufferMemoryBarriers[i];
    transfer(*commands, barrier.buffer, barrier.srcQueueFamilyIndex, barrier.dstQueueFamilyIndex, __func__);
  }
}
