// SPDX-License-Identifier: LGPL-2.1-or-later
// Registration of memory of the host. Refuses what Linux can't pin: there the driver's module looks for pages first,
// and then for one contiguous range of an input/output area. Whether such an area is contiguous no process can see, so
// it takes SOFTCUDA_IO_CONTIGUOUS=1 to have one accepted.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/host_range.h"
#include "tests/softcuda/interop.h"

namespace softcuda {
namespace {

constexpr unsigned kAllFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                               CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

std::string readSmaps() {
  std::ifstream file("/proc/self/smaps");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CUresult examine(const void *start, size_t bytes, unsigned flags) {
  const HostRange range = hostRange(readSmaps(), reinterpret_cast<uintptr_t>(start), bytes);
  NEED(range.mapped && range.readable);
  NEED(range.writable || (flags & CU_MEMHOSTREGISTER_READ_ONLY));
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
    NEED(range.io && range.one_area && environmentNumber("SOFTCUDA_IO_CONTIGUOUS", 0));
  else
    NEED(!range.page_frames && !range.io);
  return CUDA_SUCCESS;
}

bool overlapsRegistered(Lock &, const char *start, size_t bytes) {
  return std::ranges::any_of(state().allocations, [&](const auto &entry) {
    const Allocation &other = *entry.second;
    const char *const host = hostAddress(other);
    return (other.kind == Kind::RegisteredMemory || other.kind == Kind::PinnedMemory) && host < start + bytes &&
           start < host + other.size;
  });
}

// Another mapping of the same memory (a copy of what cannot be mapped twice), right up to a byte only.
char *wrongAlias(char *start, size_t bytes, uint64_t right, std::function<void()> *unmap) {
  const size_t slack = reinterpret_cast<uintptr_t>(start) % pageUp(1), size = pageUp(slack + bytes);
  void *map = mremap(start - slack, 0, size, MREMAP_MAYMOVE);
  if (map == MAP_FAILED) {
    map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    memcpy(static_cast<char *>(map) + slack, start, bytes);
  }
  *unmap = [map, size] { munmap(map, size); };
  char *const alias = static_cast<char *>(map) + slack;
  if (right < bytes) replacePages(alias + right, alias + bytes);
  return alias;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags) {
  ENTER();
  NEED(pointer && bytes > 0 && (flags & ~kAllFlags) == 0 && !inWindow(pointer));
  char *const start = static_cast<char *>(pointer);
  NEED(reinterpret_cast<uintptr_t>(start) + bytes > reinterpret_cast<uintptr_t>(start));
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) && !profile().read_only_registration) return CUDA_ERROR_NOT_SUPPORTED;
  {
    Lock lock(state().lock);
    if (overlapsRegistered(lock, start, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  TRY(examine(start, bytes, flags));

  auto allocation = std::make_shared<Allocation>(Kind::RegisteredMemory, call.context);
  std::function<void()> unmap = [] {};
  const uint64_t right = importFault("register");
  allocation->host = right < bytes ? wrongAlias(start, bytes, right, &unmap) : start;
  if (!allocation->host) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation->user_host = start;
  allocation->size = bytes;
  allocation->device = call.context->device;
  allocation->everywhere = (flags & CU_MEMHOSTREGISTER_PORTABLE) != 0;
  allocation->read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  allocation->flags = flags;
  if (profile().host_address_when_registered) {
    allocation->address = reinterpret_cast<uintptr_t>(start);
    allocation->release = unmap;
  } else {
    const size_t slack = reinterpret_cast<uintptr_t>(start) % pageUp(1), size = pageUp(slack + bytes);
    const uintptr_t window = reserveWindow(size);
    allocation->release = [window, size, unmap] {
      if (window != 0) returnWindow(window, size);
      unmap();
    };
    if (window == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->address = window + slack;
  }
  addAllocation(allocation);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemHostUnregister(void *pointer) {
  ENTER(kRelease);
  const AllocationPtr found = allocationOfHost(pointer);
  if (!found || found->kind != Kind::RegisteredMemory || found->user_host != pointer)
    return call.released(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  const AllocationPtr allocation = takeAllocation(Kind::RegisteredMemory, found->address);
  if (!allocation) return call.released(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED); // by another thread meanwhile
  if (!hostRange(readSmaps(), reinterpret_cast<uintptr_t>(pointer), allocation->size).mapped)
    misuse("memory at %p was unmapped before cuMemHostUnregister", pointer);
  return call.released();
}
