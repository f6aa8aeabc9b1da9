// SPDX-License-Identifier: LGPL-2.1-or-later
// Stream-ordered memory. Addresses are never given out again while they could still be used, so pools have nothing to
// keep.
#include "tests/softcuda/internal.h"

using namespace softcuda;

namespace {

struct Pool : Object {
  static constexpr Kind kKind = Kind::MemoryPool;
  using Object::Object;
  int device = 0;
  std::map<int, uint64_t> attributes;
};

std::shared_ptr<Pool> defaultPool(int device) {
  static std::mutex lock;
  static auto &pools = *new std::map<int, std::shared_ptr<Pool>>;
  std::lock_guard guard(lock);
  std::shared_ptr<Pool> &pool = pools[device];
  if (!pool) {
    pool = std::make_shared<Pool>(Kind::MemoryPool, nullptr);
    pool->counted = false; // the driver's own
    pool->device = device;
    add(pool);
  }
  return pool;
}

CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUstream stream, const char *function) {
  NEED(pointer);
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  AllocationPtr memory;
  TRY(allocateDevice(context, Kind::PoolMemory, bytes, &memory));
  const CUresult submitted = submit(stream, {function, [] { return CUDA_SUCCESS; }, {}, {}});
  if (submitted != CUDA_SUCCESS) {
    takeAllocation(Kind::PoolMemory, memory->address);
    return submitted;
  }
  *pointer = memory->address;
  return CUDA_SUCCESS;
}

bool validDevice(int device) { return device >= 0 && device < deviceCount(); }

} // namespace

SOFTCUDA_API cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  ENTER();
  return allocate(pointer, bytes, stream, __func__);
}

SOFTCUDA_API cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ENTER();
  if (!find<Pool>(pool)) return CUDA_ERROR_INVALID_HANDLE;
  return allocate(pointer, bytes, stream, __func__);
}

// From this call on nothing more may be enqueued on the memory; what is enqueued elsewhere must be over when the stream
// gets here.
SOFTCUDA_API cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  ENTER(kRelease);
  const AllocationPtr memory = allocationAt(pointer);
  if (!memory || memory->address != pointer || memory->retired ||
      (memory->kind != Kind::PoolMemory && memory->kind != Kind::DeviceMemory)) {
    if (inWindow(reinterpret_cast<void *>(pointer)))
      misuse("%s of %#zx, which is no memory (any more)", __func__, size_t(pointer));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto run = [memory] {
    Lock lock(state().lock);
    if (memory->users > 0)
      misuse("cuMemFreeAsync of %#zx that %s still uses on another stream", size_t(memory->address), memory->used_by);
    state().allocations.erase(memory->address);
    return CUDA_SUCCESS;
  };
  const CUresult submitted = submit(stream, {__func__, run, {}, {}});
  if (submitted != CUDA_SUCCESS) {
    if (submitted == CUDA_ERROR_INVALID_HANDLE) return submitted;
    takeAllocation(memory->kind, memory->address); // the context is unusable
    return submitted;
  }
  Lock lock(state().lock);
  memory->retired = true;
  return call.released();
}

SOFTCUDA_API cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties) {
  ENTER(kNoContext);
  NEED(out && properties && properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !validDevice(properties->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  auto pool = std::make_shared<Pool>(Kind::MemoryPool, nullptr);
  pool->device = properties->location.id;
  add(pool);
  *out = handleOf<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemPoolDestroy(CUmemoryPool handle) {
  ENTER(kNoContext | kRelease);
  const auto pool = find<Pool>(handle);
  if (!pool) return CUDA_ERROR_INVALID_HANDLE;
  NEED(pool->counted); // not the driver's
  take<Pool>(handle);
  return call.released();
}

SOFTCUDA_API cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  ENTER(kNoContext);
  const auto pool = find<Pool>(handle);
  NEED(pool && value);
  Lock lock(state().lock);
  pool->attributes[attribute] = attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? *static_cast<uint64_t *>(value)
                                                                               : uint64_t(*static_cast<int *>(value));
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  ENTER(kNoContext);
  const auto pool = find<Pool>(handle);
  NEED(pool && value);
  Lock lock(state().lock);
  if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    *static_cast<uint64_t *>(value) = pool->attributes[attribute];
  else
    *static_cast<int *>(value) = int(pool->attributes[attribute]);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  ENTER(kNoContext);
  NEED(find<Pool>(handle));
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  ENTER(kNoContext);
  NEED(pool);
  if (!validDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = handleOf<CUmemoryPool>(defaultPool(device));
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
