// SPDX-License-Identifier: LGPL-2.1-or-later
// Addresses, memory and mappings apart from one another. Stricter than a device in one thing: what is used must lie in
// one mapping.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop.h"

namespace softcuda {
namespace {

constexpr size_t kGranularity = 2 * 1024 * 1024;

struct GenericAllocation : Object {
  static constexpr Kind kKind = Kind::GenericAllocation;
  using Object::Object;
  ~GenericAllocation() override {
    if (fd >= 0) ::close(fd);
  }
  int fd = -1;
  size_t size = 0;
  CUmemAllocationProp properties{};
  unsigned references = 1; // guarded by the lock
};
using GenericPtr = std::shared_ptr<GenericAllocation>;

struct Reservation : Object {
  static constexpr Kind kKind = Kind::AddressRange;
  using Object::Object;
  uintptr_t address = 0;
  size_t size = 0;
};

struct Mapping {
  GenericPtr memory;
  size_t size = 0;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};
std::map<uintptr_t, Mapping> &mappings() { // by address, guarded by the lock
  static auto *const all = new std::map<uintptr_t, Mapping>;
  return *all;
}

std::shared_ptr<Reservation> reservationAround(Lock &lock, uintptr_t address, size_t bytes) {
  for (const ObjectPtr &object : objectsOf(lock, nullptr, Kind::AddressRange)) {
    const auto reservation = std::static_pointer_cast<Reservation>(object);
    if (address >= reservation->address && address - reservation->address <= reservation->size &&
        bytes <= reservation->size - (address - reservation->address))
      return reservation;
  }
  return nullptr;
}

bool anyMappingIn(Lock &, uintptr_t address, size_t bytes) {
  return std::ranges::any_of(mappings(), [=](const auto &entry) {
    return entry.first < address + bytes && address < entry.first + entry.second.size;
  });
}

GenericPtr findGeneric(CUmemGenericAllocationHandle handle) {
  return std::static_pointer_cast<GenericAllocation>(findObject(Kind::GenericAllocation, handle));
}

CUresult checkProperties(const CUmemAllocationProp *properties) {
  NEED(properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
  NEED(properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
       properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  NEED(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  return properties->location.id < 0 || properties->location.id >= deviceCount() ? CUDA_ERROR_INVALID_DEVICE
                                                                                 : CUDA_SUCCESS;
}

// The device's view of a mapping, which nobody can use before it has access.
void letAccess(const ContextPtr &context, uintptr_t address, const Mapping &mapping) {
  const std::shared_ptr<FileView> view = FileView::create(mapping.memory->fd, 0, mapping.size, true);
  if (!view) return misuse("no memory left to map");
  auto allocation = std::make_shared<Allocation>(Kind::VirtualMemory, context);
  allocation->address = address;
  allocation->size = mapping.size;
  allocation->host = view->data();
  allocation->device = mapping.memory->properties.location.id;
  allocation->everywhere = true;
  allocation->read_only = mapping.access == CU_MEM_ACCESS_FLAGS_PROT_READ;
  allocation->file = mapping.memory->fd;
  allocation->release = [view, memory = mapping.memory] {};
  addAllocation(allocation);
}

} // namespace
} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                           CUmemAllocationGranularity_flags) {
  ENTER(kNoContext);
  NEED(granularity);
  TRY(checkProperties(properties));
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *properties,
                         unsigned long long flags) {
  ENTER(kNoContext);
  NEED(out && bytes > 0 && bytes % kGranularity == 0 && flags == 0);
  TRY(checkProperties(properties));
  auto memory = std::make_shared<GenericAllocation>(Kind::GenericAllocation, nullptr);
  memory->fd = createOpaque(Opaque::Memory, bytes);
  const auto view = memory->fd < 0 ? nullptr : FileView::create(memory->fd, 0, bytes, true);
  if (!view) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(view->data(), kFresh, bytes);
  memory->size = bytes;
  memory->properties = *properties;
  *out = add(memory);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER(kNoContext | kRelease);
  {
    const GenericPtr memory = findGeneric(handle);
    const Lock lock(state().lock);
    if (memory && --memory->references > 0) return call.released();
  }
  return call.released(takeObject(Kind::GenericAllocation, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

SOFTCUDA_API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                    CUmemGenericAllocationHandle handle) {
  ENTER(kNoContext);
  const GenericPtr memory = findGeneric(handle);
  NEED(properties && memory);
  *properties = memory->properties;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType type, unsigned long long flags) {
  ENTER(kNoContext);
  const GenericPtr memory = findGeneric(handle);
  NEED(out && memory && flags == 0);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  NEED(memory->properties.requestedHandleTypes == type); // exportable memory is made so
  const int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return CUDA_ERROR_UNKNOWN;
  *static_cast<int *>(out) = fd;
  return CUDA_SUCCESS;
}

// The descriptor stays the caller's.
SOFTCUDA_API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                            CUmemAllocationHandleType type) {
  ENTER();
  NEED(out);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  NEED(opaqueKind(fd) == Opaque::Memory && sizeOf(fd) % kGranularity == 0);
  auto memory = std::make_shared<GenericAllocation>(Kind::GenericAllocation, nullptr);
  memory->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (memory->fd < 0) return CUDA_ERROR_UNKNOWN;
  memory->size = sizeOf(fd);
  memory->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory->properties.requestedHandleTypes = type;
  memory->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, call.context->device};
  *out = add(memory);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr,
                                 unsigned long long flags) {
  ENTER(kNoContext);
  NEED(out && bytes > 0 && bytes % pageUp(1) == 0 && (alignment & (alignment - 1)) == 0 && flags == 0);
  const uintptr_t address = reserveWindow(bytes, std::max(alignment, kGranularity));
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto reservation = std::make_shared<Reservation>(Kind::AddressRange, nullptr);
  reservation->address = address;
  reservation->size = bytes;
  {
    Lock lock(state().lock);
    add(lock, reservation, address);
  }
  *out = address;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER(kNoContext | kRelease);
  {
    Lock lock(state().lock);
    const auto reservation = reservationAround(lock, address, bytes);
    if (!reservation || reservation->address != address || reservation->size != bytes ||
        anyMappingIn(lock, address, bytes))
      return call.released(CUDA_ERROR_INVALID_VALUE);
  }
  if (!takeObject(Kind::AddressRange, address)) return call.released(CUDA_ERROR_INVALID_VALUE);
  returnWindow(address, bytes);
  return call.released();
}

SOFTCUDA_API cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
  ENTER(kNoContext);
  const GenericPtr memory = findGeneric(handle);
  NEED(memory && offset == 0 && flags == 0 && bytes > 0 && bytes % kGranularity == 0 && bytes <= memory->size);
  Lock lock(state().lock);
  NEED(address % kGranularity == 0 && reservationAround(lock, address, bytes) && !anyMappingIn(lock, address, bytes));
  mappings()[address] = {memory, bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER(kNoContext | kRelease);
  bool accessible = false;
  {
    const Lock lock(state().lock);
    const auto found = mappings().find(address);
    if (found == mappings().end() || found->second.size != bytes) return call.released(CUDA_ERROR_INVALID_VALUE);
    accessible = found->second.access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    mappings().erase(found);
  }
  if (accessible) takeAllocation(Kind::VirtualMemory, address);
  return call.released();
}

SOFTCUDA_API cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descriptions, size_t count) {
  ENTER(kNoContext);
  NEED(descriptions && count == 1 && bytes > 0);
  const CUmemAccess_flags access = descriptions->flags;
  std::vector<std::pair<uintptr_t, Mapping>> old, now;
  {
    const Lock lock(state().lock);
    uintptr_t at = address;
    while (at < address + bytes) { // whole mappings without a gap
      const auto found = mappings().find(at);
      NEED(found != mappings().end());
      NEED(descriptions->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           descriptions->location.id == found->second.memory->properties.location.id);
      old.push_back(*found);
      at += found->second.size;
    }
    NEED(at == address + bytes);
    for (auto &[start, mapping] : old) {
      mappings()[start].access = access;
      now.emplace_back(start, mappings()[start]);
    }
  }
  for (const auto &[start, mapping] : old)
    if (mapping.access != CU_MEM_ACCESS_FLAGS_PROT_NONE) takeAllocation(Kind::VirtualMemory, start);
  for (const auto &[start, mapping] : now)
    if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE) letAccess(call.context, start, mapping);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address) {
  ENTER(kNoContext);
  NEED(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
  const Lock lock(state().lock);
  auto after = mappings().upper_bound(address);
  NEED(after != mappings().begin());
  --after;
  NEED(address < after->first + after->second.size);
  *flags = location->id == after->second.memory->properties.location.id ? after->second.access
                                                                        : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  ENTER(kNoContext);
  NEED(out);
  const Lock lock(state().lock);
  const auto found = mappings().find(reinterpret_cast<uintptr_t>(address));
  NEED(found != mappings().end());
  const GenericPtr &memory = found->second.memory;
  NEED(memory->references > 0); // released already: its handle is gone
  memory->references++;
  *out = memory->handle;
  return CUDA_SUCCESS;
}
