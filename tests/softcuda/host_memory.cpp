// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory of the host that the driver allocates: all contexts see it under the host's own address.
#include "tests/softcuda/internal.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace softcuda;

namespace {

CUresult allocateHost(void **pointer, size_t bytes, unsigned flags, const ContextPtr &context) {
  NEED(pointer && bytes > 0 && flags <= 7);
  const size_t length = pageUp(bytes);
  void *host = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(host, kFresh, length);
  auto memory = std::make_shared<Allocation>(Kind::PinnedMemory, context);
  memory->address = reinterpret_cast<uintptr_t>(host);
  memory->size = bytes;
  memory->host = static_cast<char *>(host);
  memory->device = context->device;
  memory->everywhere = true;
  memory->flags = flags;
  memory->release = [raw = memory.get(), length] {
    if (raw->file >= 0) ::close(raw->file);
    munmap(raw->host, length);
  };
  addAllocation(memory);
  *pointer = host;
  return CUDA_SUCCESS;
}

} // namespace

SOFTCUDA_API cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  ENTER();
  return allocateHost(pointer, bytes, flags, call.context);
}

SOFTCUDA_API cuMemAllocHost_v2(void **pointer, size_t bytes) {
  ENTER();
  return allocateHost(pointer, bytes, 0, call.context);
}

SOFTCUDA_API cuMemFreeHost(void *pointer) {
  ENTER(kRelease);
  const AllocationPtr memory = takeAllocation(Kind::PinnedMemory, reinterpret_cast<uintptr_t>(pointer));
  return memory ? call.released() : CUDA_ERROR_INVALID_VALUE;
}

// Of registered memory, too.
SOFTCUDA_API cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  ENTER();
  NEED(device && host && flags == 0);
  const AllocationPtr memory = allocationOfHost(host);
  NEED(memory);
  *device = memory->address + uintptr_t(static_cast<char *>(host) - hostAddress(*memory));
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemHostGetFlags(unsigned *flags, void *host) {
  ENTER();
  NEED(flags && host);
  const AllocationPtr memory = allocationOfHost(host);
  NEED(memory);
  *flags = memory->flags;
  return CUDA_SUCCESS;
}
