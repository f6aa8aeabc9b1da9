// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers and memory, with import of dma-bufs and export as opaque descriptors. Memory type 0 is the device's, 1 and 2
// are the host's; opaque export takes only 0, a dma-buf comes only as 1 or 2, and a buffer for one goes only into 0
// or 1.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "tests/softcuda/vulkan/state.h"

namespace softvulkan {

Memory::~Memory() {
  view.reset();
  if (taken >= 0) {
    if (softcuda::isOpen(taken) && softcuda::sameFile(taken, fd))
      close(taken);
    else
      misuse("a descriptor that vkAllocateMemory had taken was closed by somebody else");
  }
  if (fd >= 0) close(fd);
}

namespace {

constexpr uint64_t roundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }
constexpr uint64_t kPage = 4096;

uint32_t typesOf(const Buffer &buffer) {
  if (buffer.external & kOpaqueFd) return kOpaqueTypes;
  return buffer.external & kDmabuf ? kDmabufBufferTypes : kPlainTypes;
}

VkResult importFile(Memory &memory, const VkImportMemoryFdInfoKHR &import) {
  const bool dmabuf = import.handleType == kDmabuf;
  if (!dmabuf && import.handleType != kOpaqueFd) {
    misuse("vkAllocateMemory: a handle type that the device does not import");
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  if (dmabuf && refused("dmabuf-import")) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  const softcuda::Opaque kind = softcuda::opaqueKind(import.fd);
  const uint64_t bytes = softcuda::sizeOf(import.fd);
  if (dmabuf != (kind == softcuda::Opaque::No) || bytes == 0) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (dmabuf ? memory.size > roundUp(bytes, kPage) : memory.size != bytes) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (((dmabuf ? kDmabufImportTypes : kOpaqueTypes) >> memory.type & 1) == 0) {
    misuse("vkAllocateMemory: memory type %u, which vkGetMemoryFdPropertiesKHR does not name", memory.type);
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  }
  memory.imported = import.handleType;
  memory.fd = fcntl(import.fd, F_DUPFD_CLOEXEC, 3);
  const uint64_t right = dmabuf ? softcuda::importFaultOfProcess("vulkan") : softcuda::FileView::kAllRight;
  if (memory.fd >= 0) memory.view = softcuda::FileView::create(memory.fd, 0, memory.size, true, right);
  if (!memory.view) return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  memory.taken = import.fd;
  return VK_SUCCESS;
}

VkResult makeFile(Memory &memory) {
  if (memory.exports & ~kOpaqueFd) {
    misuse("vkAllocateMemory: a handle type that the device does not export");
    return VK_ERROR_FEATURE_NOT_PRESENT;
  }
  if (memory.exports && (kOpaqueTypes >> memory.type & 1) == 0)
    misuse("vkAllocateMemory: memory type %u cannot be exported", memory.type);
  memory.fd = softcuda::createOpaque(memory.dedicated ? softcuda::Opaque::DedicatedMemory : softcuda::Opaque::Memory,
                                     memory.size);
  if (memory.fd >= 0) memory.view = softcuda::FileView::create(memory.fd, 0, memory.size, true);
  if (!memory.view) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  memset(memory.view->data(), 0xcd, memory.size); // new memory has no content
  return VK_SUCCESS;
}

VkResult bindBuffer(const std::shared_ptr<Buffer> &buffer, uintptr_t buffer_handle,
                    const std::shared_ptr<Memory> &memory, uint64_t offset) {
  if (!buffer || !memory) return VK_ERROR_UNKNOWN;
  if (buffer->memory) misuse("vkBindBufferMemory: the buffer has memory already");
  if (offset % kBufferAlignment != 0 || offset > memory->size ||
      roundUp(buffer->size, kBufferAlignment) > roundUp(memory->size, kPage) - offset)
    misuse("vkBindBufferMemory: the buffer does not fit there");
  if ((typesOf(*buffer) >> memory->type & 1) == 0)
    misuse("vkBindBufferMemory: memory type %u is not one of the buffer's", memory->type);
  if (buffer->needsDedicated() && memory->dedicated != buffer_handle)
    misuse("vkBindBufferMemory: the buffer needs an allocation of its own (VkMemoryDedicatedRequirements)");
  if (memory->dedicated && memory->dedicated != buffer_handle)
    misuse("vkBindBufferMemory: the memory is dedicated to another buffer");
  const VkExternalMemoryHandleTypeFlags types = memory->exports | memory->imported;
  if (types && (types & buffer->external) == 0)
    misuse(
        "vkBindBufferMemory: the buffer was not made for the memory's handle type (VkExternalMemoryBufferCreateInfo)");
  if (offset > memory->size || buffer->size > memory->size - offset) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  buffer->memory = memory;
  buffer->offset = offset;
  return VK_SUCCESS;
}

// All host memory is coherent: there is nothing to do but to look at what is asked for.
VkResult checkRanges(uint32_t count, const VkMappedMemoryRange *ranges, const char *function) {
  for (const VkMappedMemoryRange *range = ranges; range != ranges + count; ++range) {
    const auto memory = find<Memory>(range->memory, function);
    if (!memory) return VK_ERROR_MEMORY_MAP_FAILED;
    if (!memory->mapped) misuse("%s: of memory that is not mapped", function);
    if (range->offset >= memory->size || (range->size != VK_WHOLE_SIZE && range->size > memory->size - range->offset))
      misuse("%s: beyond the end of the memory", function);
  }
  return VK_SUCCESS;
}

} // namespace
} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API VkResult VKAPI_CALL vkCreateBuffer(VkDevice handle, const VkBufferCreateInfo *info,
                                                  const VkAllocationCallbacks *, VkBuffer *out) {
  const Lock lock(state().lock);
  const DevicePtr device = find<Device>(handle, __func__);
  if (!device) return VK_ERROR_UNKNOWN;
  auto buffer = std::make_shared<Buffer>();
  buffer->size = info->size;
  buffer->usage = info->usage;
  if (const auto *external =
          chained<VkExternalMemoryBufferCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO))
    buffer->external = external->handleTypes;
  if (info->size == 0 || info->usage == 0) misuse("vkCreateBuffer: without a size or a usage");
  if (buffer->external & ~(kOpaqueFd | kDmabuf) || buffer->external == (kOpaqueFd | kDmabuf))
    misuse("vkCreateBuffer: handle types that vkGetPhysicalDeviceExternalBufferProperties does not allow together");
  if (buffer->external & kDmabuf) hasExtension(*device, VK_EXT_EXTERNAL_MEMORY_DMA_BUF_EXTENSION_NAME, __func__);
  *out = toHandle<VkBuffer>(addObject(buffer, number(handle)));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkDestroyBuffer(VkDevice, VkBuffer handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  take<Buffer>(handle, __func__);
}

SOFTVULKAN_API void VKAPI_CALL vkGetBufferMemoryRequirements(VkDevice, VkBuffer handle, VkMemoryRequirements *out) {
  const Lock lock(state().lock);
  const auto buffer = find<Buffer>(handle, __func__);
  if (!buffer) return;
  *out = {roundUp(buffer->size, kBufferAlignment), kBufferAlignment, typesOf(*buffer)};
}

SOFTVULKAN_API void VKAPI_CALL vkGetBufferMemoryRequirements2(VkDevice device,
                                                              const VkBufferMemoryRequirementsInfo2 *info,
                                                              VkMemoryRequirements2 *out) {
  vkGetBufferMemoryRequirements(device, info->buffer, &out->memoryRequirements);
  const Lock lock(state().lock);
  const auto buffer = find<Buffer>(info->buffer, __func__);
  auto *dedicated =
      chainedOut<VkMemoryDedicatedRequirements>(out->pNext, VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS);
  if (!buffer || !dedicated) return;
  dedicated->requiresDedicatedAllocation = buffer->needsDedicated();
  dedicated->prefersDedicatedAllocation = buffer->external != 0;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkAllocateMemory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                                    const VkAllocationCallbacks *, VkDeviceMemory *out) {
  const Lock lock(state().lock);
  const DevicePtr device = find<Device>(handle, __func__);
  if (!device) return VK_ERROR_UNKNOWN;
  if (refused("memory")) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (info->allocationSize == 0 || info->memoryTypeIndex >= kMemoryTypes) {
    misuse("vkAllocateMemory: no size, or a memory type that does not exist");
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  auto memory = std::make_shared<Memory>();
  memory->size = info->allocationSize;
  memory->type = info->memoryTypeIndex;
  const auto *import = chained<VkImportMemoryFdInfoKHR>(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
  if (const auto *exports =
          chained<VkExportMemoryAllocateInfo>(info->pNext, VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO))
    memory->exports = exports->handleTypes;
  if (const auto *dedicated =
          chained<VkMemoryDedicatedAllocateInfo>(info->pNext, VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO)) {
    memory->dedicated = number(dedicated->buffer);
    const auto buffer = memory->dedicated ? find<Buffer>(dedicated->buffer, __func__) : nullptr;
    if (buffer && roundUp(buffer->size, kBufferAlignment) != roundUp(memory->size, kBufferAlignment) && !import)
      misuse("vkAllocateMemory: dedicated memory has to be of the size that the buffer requires");
  }
  if ((import || memory->exports) && !hasExtension(*device, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME, __func__))
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  if (import && import->handleType) {
    if (memory->exports) misuse("vkAllocateMemory: memory that is imported and exported with another handle type");
    if (const VkResult result = importFile(*memory, *import); result != VK_SUCCESS) return result;
  } else if (const VkResult result = makeFile(*memory); result != VK_SUCCESS) {
    return result;
  }
  *out = toHandle<VkDeviceMemory>(addObject(memory, number(handle)));
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkFreeMemory(VkDevice, VkDeviceMemory handle, const VkAllocationCallbacks *) {
  const Lock lock(state().lock);
  const auto memory = take<Memory>(handle, __func__);
  if (!memory) return;
  for (const auto &[number_of, object] : state().objects) { // its buffers may be destroyed later, but not used
    if (object->kind != Kind::Buffer) continue;
    auto &buffer = static_cast<Buffer &>(*object);
    if (buffer.memory != memory) continue;
    if (buffer.pending == 0) buffer.memory.reset();
  }
}

SOFTVULKAN_API VkResult VKAPI_CALL vkBindBufferMemory(VkDevice, VkBuffer buffer, VkDeviceMemory memory,
                                                      VkDeviceSize offset) {
  const Lock lock(state().lock);
  return bindBuffer(find<Buffer>(buffer, __func__), number(buffer), find<Memory>(memory, __func__), offset);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkBindBufferMemory2(VkDevice device, uint32_t count,
                                                       const VkBindBufferMemoryInfo *infos) {
  for (uint32_t i = 0; i < count; i++)
    if (const VkResult result = vkBindBufferMemory(device, infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
        result != VK_SUCCESS)
      return result;
  return VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkMapMemory(VkDevice, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size,
                                               VkMemoryMapFlags, void **out) {
  const Lock lock(state().lock);
  const auto memory = find<Memory>(handle, __func__);
  if (!memory) return VK_ERROR_MEMORY_MAP_FAILED;
  const bool fits = offset < memory->size && (size == VK_WHOLE_SIZE || size <= memory->size - offset);
  if (memory->type == 0 || memory->mapped || !fits) {
    misuse("vkMapMemory: of memory that is not the host's, that is mapped, or beyond its end");
    return VK_ERROR_MEMORY_MAP_FAILED;
  }
  memory->mapped = true;
  *out = memory->view->data() + offset;
  return VK_SUCCESS;
}

SOFTVULKAN_API void VKAPI_CALL vkUnmapMemory(VkDevice, VkDeviceMemory handle) {
  const Lock lock(state().lock);
  const auto memory = find<Memory>(handle, __func__);
  if (memory && !std::exchange(memory->mapped, false)) misuse("vkUnmapMemory: it is not mapped");
}

SOFTVULKAN_API VkResult VKAPI_CALL vkFlushMappedMemoryRanges(VkDevice, uint32_t count,
                                                             const VkMappedMemoryRange *ranges) {
  const Lock lock(state().lock);
  return checkRanges(count, ranges, __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkInvalidateMappedMemoryRanges(VkDevice, uint32_t count,
                                                                  const VkMappedMemoryRange *ranges) {
  const Lock lock(state().lock);
  return checkRanges(count, ranges, __func__);
}

SOFTVULKAN_API VkResult VKAPI_CALL vkGetMemoryFdKHR(VkDevice, const VkMemoryGetFdInfoKHR *info, int *out) {
  const Lock lock(state().lock);
  const auto memory = find<Memory>(info->memory, __func__);
  if (!memory) return VK_ERROR_UNKNOWN;
  if ((memory->exports & static_cast<VkExternalMemoryHandleTypeFlags>(info->handleType)) == 0) {
    misuse("vkGetMemoryFdKHR: the memory was not allocated to be exported so");
    return VK_ERROR_UNKNOWN;
  }
  if (refused("opaque-export")) return VK_ERROR_TOO_MANY_OBJECTS;
  *out = fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
  return *out < 0 ? VK_ERROR_TOO_MANY_OBJECTS : VK_SUCCESS;
}

SOFTVULKAN_API VkResult VKAPI_CALL vkGetMemoryFdPropertiesKHR(VkDevice handle, VkExternalMemoryHandleTypeFlagBits type,
                                                              int fd, VkMemoryFdPropertiesKHR *out) {
  const Lock lock(state().lock);
  if (!find<Device>(handle, __func__)) return VK_ERROR_UNKNOWN;
  if (type == kOpaqueFd) misuse("vkGetMemoryFdPropertiesKHR: not for opaque descriptors");
  if (type != kDmabuf || !softcuda::isOpen(fd) || softcuda::opaqueKind(fd) != softcuda::Opaque::No ||
      refused("dmabuf-import"))
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  out->memoryTypeBits = kDmabufImportTypes;
  return VK_SUCCESS;
}
