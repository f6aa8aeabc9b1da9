// SPDX-License-Identifier: LGPL-2.1-or-later
// Submission: what a batch waits for is decided here, in the order of the calls; the rest is the queue's thread's.
#include <algorithm>
#include <utility>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {
namespace {

struct SemaphoreUse {
  VkSemaphore handle;
  uint64_t value;
};

void use(Batch &batch, const ObjectPtr &object) {
  object->pending++;
  batch.uses.push_back(object);
}

void addWait(Batch &batch, const SemaphoreUse &wait) {
  const auto semaphore = find<Semaphore>(wait.handle, "vkQueueSubmit");
  if (!semaphore) return;
  if (semaphore->temporary) { // the wait takes the imported fence; the semaphore is as before
    batch.waits.push_back({.payload = nullptr, .sync_fd = std::exchange(semaphore->sync_fd, -1), .value = 0});
    semaphore->temporary = false;
  } else {
    if (!semaphore->timeline && !semaphore->shared && !semaphore->will_be_signalled)
      misuse("vkQueueSubmit: a wait for a binary semaphore that nothing signals");
    if (!semaphore->timeline) semaphore->will_be_signalled = false;
    batch.waits.push_back({.payload = semaphore->payload, .sync_fd = -1, .value = wait.value});
  }
  use(batch, semaphore);
}

void addSignal(Batch &batch, const SemaphoreUse &signal) {
  const auto semaphore = find<Semaphore>(signal.handle, "vkQueueSubmit");
  if (!semaphore) return;
  if (!semaphore->timeline && semaphore->will_be_signalled)
    misuse("vkQueueSubmit: a binary semaphore is signalled again before anybody waits for it");
  semaphore->will_be_signalled = true;
  batch.signals.push_back({semaphore, signal.value});
  use(batch, semaphore);
}

void addCommands(Batch &batch, VkCommandBuffer handle) {
  const auto commands = find<CommandBuffer>(handle, "vkQueueSubmit");
  if (!commands) return;
  if (commands->stage != CommandBuffer::Stage::Executable)
    return misuse("vkQueueSubmit: the command buffer is not ready to be executed");
  if (commands->pending > 0 && !commands->simultaneous)
    misuse("vkQueueSubmit: the queue uses the command buffer already");
  for (const ObjectPtr &object : commands->uses) {
    if (object->kind == Kind::Buffer && !static_cast<Buffer &>(*object).memory)
      return misuse("vkQueueSubmit: a command buffer uses memory that was freed");
    if (std::ranges::none_of(state().objects, [&](const auto &entry) { return entry.second == object; }))
      return misuse("vkQueueSubmit: a command buffer uses a %s that was destroyed", kindName(object->kind));
    use(batch, object);
  }
  batch.commands.insert(batch.commands.end(), commands->commands.begin(), commands->commands.end());
  use(batch, commands);
  if (commands->one_time) commands->stage = CommandBuffer::Stage::Invalid;
}

VkResult enqueue(VkQueue queue, std::vector<Batch> batches, VkFence fence_handle) {
  const auto device = find<Device>(toHandle<VkDevice>(deviceOfQueue(queue)), "vkQueueSubmit");
  if (!device) return VK_ERROR_DEVICE_LOST;
  if (batches.empty()) batches.emplace_back();
  if (fence_handle) {
    const auto fence = find<Fence>(fence_handle, "vkQueueSubmit");
    if (fence && (fence->signalled || fence->pending > 0))
      misuse("vkQueueSubmit: the fence is signalled already, or used by another submission");
    if (fence) use(batches.back(), fence);
    batches.back().fence = fence;
  }
  for (Batch &batch : batches) device->queue.push_back(std::move(batch));
  state().changed.notify_all();
  return VK_SUCCESS;
}

bool loseDevice(VkQueue queue) {
  if (!refused("submit")) return false;
  if (const auto device = find<Device>(toHandle<VkDevice>(deviceOfQueue(queue)), "vkQueueSubmit")) device->lost = true;
  state().changed.notify_all();
  return true;
}

} // namespace
} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                                                 VkFence fence) {
  const Lock lock(state().lock);
  if (loseDevice(queue)) return VK_ERROR_DEVICE_LOST;
  std::vector<Batch> batches;
  for (uint32_t i = 0; i < count; i++) {
    const VkSubmitInfo &info = infos[i];
    const auto *timeline =
        chained<VkTimelineSemaphoreSubmitInfo>(info.pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    Batch &batch = batches.emplace_back();
    for (uint32_t k = 0; k < info.waitSemaphoreCount; k++) {
      if (!info.pWaitDstStageMask || info.pWaitDstStageMask[k] == 0)
        misuse("vkQueueSubmit: a wait without a stage that waits");
      addWait(batch, {info.pWaitSemaphores[k],
                      timeline && k < timeline->waitSemaphoreValueCount ? timeline->pWaitSemaphoreValues[k] : 0});
    }
    for (uint32_t k = 0; k < info.commandBufferCount; k++) addCommands(batch, info.pCommandBuffers[k]);
    for (uint32_t k = 0; k < info.signalSemaphoreCount; k++)
      addSignal(batch, {info.pSignalSemaphores[k],
                        timeline && k < timeline->signalSemaphoreValueCount ? timeline->pSignalSemaphoreValues[k] : 0});
  }
  return enqueue(queue, std::move(batches), fence);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkQueueSubmit2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                  VkFence fence) {
  const Lock lock(state().lock);
  if (loseDevice(queue)) return VK_ERROR_DEVICE_LOST;
  if (const auto device = find<Device>(toHandle<VkDevice>(deviceOfQueue(queue)), __func__);
      device && !device->synchronization2)
    misuse("vkQueueSubmit2: the device was made without the feature synchronization2");
  std::vector<Batch> batches;
  for (uint32_t i = 0; i < count; i++) {
    const VkSubmitInfo2 &info = infos[i];
    Batch &batch = batches.emplace_back();
    for (uint32_t k = 0; k < info.waitSemaphoreInfoCount; k++)
      addWait(batch, {info.pWaitSemaphoreInfos[k].semaphore, info.pWaitSemaphoreInfos[k].value});
    for (uint32_t k = 0; k < info.commandBufferInfoCount; k++)
      addCommands(batch, info.pCommandBufferInfos[k].commandBuffer);
    for (uint32_t k = 0; k < info.signalSemaphoreInfoCount; k++)
      addSignal(batch, {info.pSignalSemaphoreInfos[k].semaphore, info.pSignalSemaphoreInfos[k].value});
  }
  return enqueue(queue, std::move(batches), fence);
}
