// SPDX-License-Identifier: LGPL-2.1-or-later
// External memory. What a descriptor stands for, exchange.h says.
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <climits>
#include <cstdio>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop.h"

namespace softcuda {

TakenDescriptor::~TakenDescriptor() {
  if (number_ < 0) return;
  if (!isOpen(number_) || !sameFile(number_, own_))
    misuse("descriptor %d, which %s had taken, was closed by somebody else", number_, function_);
  else
    ::close(number_);
  ::close(own_);
}

bool TakenDescriptor::take(int fd, const char *function) {
  own_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own_ < 0) return false;
  number_ = fd;
  function_ = function;
  return true;
}

bool standsForDmabuf(int fd) {
  constexpr long kDmabufFileSystem = 0x444d4142;
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return false;
  if (fs.f_type == kDmabufFileSystem) return true;
  char link[64], target[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, target, sizeof target);
  return n > 7 && std::string_view(target, 7) == "/memfd:" && opaqueKind(fd) == Opaque::No;
}

AllocationPtr mapForDevice(const ContextPtr &context, Kind kind, int fd, uint64_t offset, uint64_t bytes, bool writable,
                           uint64_t right) {
  std::shared_ptr<FileView> view = FileView::create(fd, offset, bytes, writable, right);
  if (!view) return nullptr;
  const size_t slack = reinterpret_cast<uintptr_t>(view->data()) % pageUp(1), window = pageUp(slack + bytes);
  const uintptr_t address = reserveWindow(window);
  if (address == 0) return nullptr;
  auto allocation = std::make_shared<Allocation>(kind, context);
  allocation->address = address + slack;
  allocation->size = bytes;
  allocation->host = view->data();
  allocation->device = context->device;
  allocation->read_only = !writable;
  allocation->release = [view, address, window] { returnWindow(address, window); };
  addAllocation(allocation);
  return allocation;
}

namespace {

constexpr unsigned kDedicated = 1; // CUDA_EXTERNAL_MEMORY_DEDICATED

struct ExternalMemory : Object {
  static constexpr Kind kKind = Kind::ExternalMemory;
  using Object::Object;
  ~ExternalMemory() override {
    if (dmabuf >= 0) ::close(dmabuf);
  }
  int fd() const { return dmabuf >= 0 ? dmabuf : taken.own(); }

  int dmabuf = -1; // a duplicate: nothing says that this type takes the caller's
  TakenDescriptor taken;
  uint64_t start = 0; // of it in the file
  uint64_t size = 0, right = FileView::kAllRight;
  std::vector<std::weak_ptr<Allocation>> buffers; // guarded by the lock
};

CUresult importDmabuf(ExternalMemory &memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC &description) {
  if (!profile().import_dmabuf) return CUDA_ERROR_NOT_SUPPORTED;
  NEED(description.flags == 0 && description.size > 0);
  if (!standsForDmabuf(description.handle.fd)) return CUDA_ERROR_INVALID_HANDLE;
  NEED(description.size <= sizeOf(description.handle.fd));
  memory.dmabuf = fcntl(description.handle.fd, F_DUPFD_CLOEXEC, 3);
  memory.right = importFault("dmabuf");
  return memory.dmabuf < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult importOpaque(ExternalMemory &memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC &description) {
  const int fd = description.handle.fd;
  const Opaque kind = opaqueKind(fd);
  memory.right = importFault("opaque");
  if (MesaMemory mesa; mesaMemory(fd, &mesa)) { // lavapipe is in the place of this device's Vulkan
    NEED(description.size > 0 && description.size <= mesa.end - mesa.start);
    memory.start = mesa.start;
    if (memory.right != FileView::kAllRight) memory.right += mesa.start;
    return memory.taken.take(fd, "cuImportExternalMemory") ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
  }
  // a dma-buf and everything else that no driver of this device has made
  if (kind != Opaque::Memory && kind != Opaque::DedicatedMemory) return CUDA_ERROR_UNKNOWN;
  NEED(description.flags == (kind == Opaque::DedicatedMemory ? kDedicated : 0));
  NEED(description.size == sizeOf(fd));
  return memory.taken.take(fd, "cuImportExternalMemory") ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description) {
  ENTER();
  NEED(out && description);
  auto memory = std::make_shared<ExternalMemory>(Kind::ExternalMemory, call.context);
  switch (description->type) {
  case CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD: TRY(importDmabuf(*memory, *description)); break;
  case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD: TRY(importOpaque(*memory, *description)); break;
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  memory->size = description->size;
  add(memory);
  *out = handleOf<CUexternalMemory>(memory);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
                                             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description) {
  ENTER();
  NEED(out && description && description->flags == 0 && description->size > 0);
  const auto memory = find<ExternalMemory>(handle);
  if (!memory) return CUDA_ERROR_INVALID_HANDLE;
  NEED(description->offset <= memory->size && description->size <= memory->size - description->offset);
  const AllocationPtr buffer =
      mapForDevice(call.context, Kind::ExternalBuffer, memory->fd(), memory->start + description->offset,
                   description->size, true, memory->right);
  if (!buffer) return CUDA_ERROR_OUT_OF_MEMORY;
  const Lock lock(state().lock);
  memory->buffers.push_back(buffer);
  *out = buffer->address;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory handle,
                                                     const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *description) {
  ENTER();
  NEED(out && description);
  return find<ExternalMemory>(handle) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_HANDLE;
}

SOFTCUDA_API cuDestroyExternalMemory(CUexternalMemory handle) {
  ENTER(kRelease);
  const auto memory = take<ExternalMemory>(handle, false);
  if (!memory) return call.released(CUDA_ERROR_INVALID_HANDLE);
  // its buffers still want cuMemFree, but nothing may use them from here on
  const Lock lock(state().lock);
  for (const auto &weak : memory->buffers)
    if (const AllocationPtr buffer = weak.lock()) {
      if (buffer->users > 0) misuse("cuDestroyExternalMemory while an operation uses a buffer of it");
      buffer->size = 0;
    }
  return call.released();
}
