// SPDX-License-Identifier: LGPL-2.1-or-later
// The table of what a device can access, and memory of the device.
#include "tests/softcuda/internal.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace softcuda {
namespace {

constexpr size_t kPitchAlignment = 512; // TEXTURE_ALIGNMENT, so that each row can be a texture

// A mapping between two pages that nobody may touch: a kernel that runs far over the end stops there.
char *mapGuarded(size_t length) {
  const size_t guard = pageUp(1);
  void *at = mmap(nullptr, length + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  char *host = static_cast<char *>(at) + guard;
  if (mprotect(host, length, PROT_READ | PROT_WRITE) == 0) return host;
  munmap(at, length + 2 * guard);
  return nullptr;
}

void unmapGuarded(char *host, size_t length) {
  const size_t guard = pageUp(1);
  munmap(host - guard, length + 2 * guard);
}

bool mayUse(const Context *context, const Allocation &memory) {
  if (!context || memory.everywhere || memory.context.get() == context) return true;
  if (!memory.context) return memory.device == context->device;
  return std::find(context->peers.begin(), context->peers.end(), memory.context.get()) != context->peers.end();
}

// What is left of the last page was never given to anybody.
void checkSlack(const Allocation &memory) {
  const char *end = memory.host + pageUp(memory.size);
  if (std::any_of(memory.host + memory.size, const_cast<char *>(end),
                  [](char byte) { return static_cast<unsigned char>(byte) != kFresh; }))
    misuse("something was written behind the end of %s %#zx of %zu bytes", kindName(memory.kind),
           size_t(memory.address), memory.size);
}

AllocationPtr containing(Lock &, uintptr_t address) {
  auto at = state().allocations.upper_bound(address);
  if (at == state().allocations.begin()) return nullptr;
  --at;
  return address - at->first < at->second->size ? at->second : nullptr;
}

size_t &usedBytes(int device) {                   // with the lock
  static auto &used = *new std::map<int, size_t>; // streams may still free while the process ends
  return used[device];
}

size_t totalBytes() {
  static const size_t megabytes = size_t(environmentNumber("SOFTCUDA_MEMORY_MB", 8192));
  return megabytes << 20;
}

} // namespace

void addAllocation(const AllocationPtr &memory) {
  Lock lock(state().lock);
  memory->made_by = currentFunction();
  memory->handle = memory->address;
  state().allocations[memory->address] = memory;
}

AllocationPtr takeAllocation(Kind kind, uintptr_t address) {
  Lock lock(state().lock);
  const auto at = state().allocations.find(address);
  if (at == state().allocations.end() || at->second->kind != kind || at->second->retired) {
    const bool is_other_kind = at != state().allocations.end() && !at->second->retired;
    if (inWindow(reinterpret_cast<void *>(address)) && !is_other_kind)
      misuse("%s of %#zx, which is no memory (any more)", currentFunction(), size_t(address));
    return nullptr;
  }
  AllocationPtr memory = at->second;
  const bool spoilt = memory->context && memory->context->sticky != CUDA_SUCCESS; // nothing is executed any more
  if (memory->users > 0 && !spoilt)
    misuse("%s of %s %#zx that %s still uses", currentFunction(), kindName(kind), size_t(address), memory->used_by);
  state().allocations.erase(at);
  return memory;
}

AllocationPtr allocationAt(uintptr_t address) {
  Lock lock(state().lock);
  return containing(lock, address);
}

AllocationPtr allocationOfHost(const void *host) {
  const auto wanted = static_cast<const char *>(host);
  Lock lock(state().lock);
  for (const auto &[address, memory] : state().allocations) {
    if (memory->kind != Kind::PinnedMemory && memory->kind != Kind::RegisteredMemory) continue;
    const char *const start = hostAddress(*memory);
    if (wanted >= start && size_t(wanted - start) < memory->size) return memory;
  }
  return nullptr;
}

CUresult resolve(const Context *context, CUdeviceptr address, size_t bytes, AllocationPtr *allocation, char **host,
                 bool write) {
  AllocationPtr memory; // goes after the lock
  Lock lock(state().lock);
  memory = containing(lock, address);
  if (!memory || !mayUse(context, *memory)) return CUDA_ERROR_INVALID_VALUE;
  const size_t offset = address - memory->address;
  if (bytes > memory->size - offset || (write && memory->read_only)) return CUDA_ERROR_INVALID_VALUE;
  if (memory->retired && context) return CUDA_ERROR_INVALID_VALUE;
  if (allocation) *allocation = memory;
  if (host) *host = memory->host + offset;
  return CUDA_SUCCESS;
}

CUresult allocateDevice(const ContextPtr &context, Kind kind, size_t bytes, AllocationPtr *allocation) {
  NEED(bytes > 0);
  const size_t length = pageUp(bytes);
  const int device = context->device;
  {
    Lock lock(state().lock);
    if (length < bytes || length > totalBytes() - std::min(totalBytes(), usedBytes(device)))
      return CUDA_ERROR_OUT_OF_MEMORY;
    usedBytes(device) += length;
  }
  char *host = mapGuarded(length);
  const uintptr_t address = host ? reserveWindow(length) : 0;
  if (!address) {
    if (host) unmapGuarded(host, length);
    Lock lock(state().lock);
    usedBytes(device) -= length;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memset(host, kFresh, length);
  auto memory = std::make_shared<Allocation>(kind, context);
  memory->address = address;
  memory->size = bytes;
  memory->host = host;
  memory->device = device;
  memory->release = [raw = memory.get(), length, device] {
    if (raw->file < 0)
      checkSlack(*raw);
    else
      close(raw->file);
    unmapGuarded(raw->host, length);
    returnWindow(raw->address, length);
    Lock lock(state().lock);
    usedBytes(device) -= length;
  };
  addAllocation(memory);
  *allocation = std::move(memory);
  return CUDA_SUCCESS;
}

CUresult backWithFile(Allocation &memory) {
  Lock lock(state().lock);
  if (memory.file >= 0) return CUDA_SUCCESS;
  state().changed.wait(lock, [&] { return memory.users == 0 || state().ending; });
  const size_t length = pageUp(memory.size);
  const int file = memfd_create("softcuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool copied = ftruncate(file, off_t(length)) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
                      pwrite(file, memory.host, length, 0) == ssize_t(length);
  if (!copied || mmap(memory.host, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memory.file = file;
  memory.file_offset = 0;
  return CUDA_SUCCESS;
}

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER();
  NEED(free_bytes && total);
  Lock lock(state().lock);
  *total = totalBytes();
  *free_bytes = totalBytes() - usedBytes(call.context->device);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER(kNoContext);
  NEED(bytes);
  if (device < 0 || device >= deviceCount()) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = totalBytes();
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  ENTER();
  NEED(pointer);
  AllocationPtr memory;
  TRY(allocateDevice(call.context, Kind::DeviceMemory, bytes, &memory));
  *pointer = memory->address;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
  ENTER();
  NEED(pointer && pitch && width > 0 && height > 0 && (element == 4 || element == 8 || element == 16));
  *pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  AllocationPtr memory;
  TRY(allocateDevice(call.context, Kind::DeviceMemory, *pitch * height, &memory));
  *pointer = memory->address;
  return CUDA_SUCCESS;
}

// Of a device's own memory and of the buffers mapped from external memory. 0 is nothing to free.
SOFTCUDA_API cuMemFree_v2(CUdeviceptr pointer) {
  ENTER(kRelease);
  if (pointer == 0) return call.released();
  Kind kind = Kind::DeviceMemory;
  {
    Lock lock(state().lock);
    const auto at = state().allocations.find(pointer);
    if (at != state().allocations.end()) kind = at->second->kind;
  }
  const bool freed_here = kind == Kind::PoolMemory || kind == Kind::ExternalBuffer;
  const AllocationPtr taken = takeAllocation(freed_here ? kind : Kind::DeviceMemory, pointer);
  return taken ? call.released() : CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
  ENTER();
  const AllocationPtr memory = allocationAt(pointer);
  if (!memory) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = memory->address;
  if (size) *size = memory->size;
  return CUDA_SUCCESS;
}
