// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory of the device as a dma-buf: a udmabuf of the file under it where the kernel has /dev/udmabuf, else that file
// itself, which only stands for one.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop.h"

namespace softcuda {
namespace {

bool exportable(Kind kind) {
  switch (kind) {
  case Kind::DeviceMemory:
  case Kind::VirtualMemory: return profile().export_device_dmabuf;
  case Kind::PinnedMemory: return profile().export_host_dmabuf;
  default: return false; // of a pool, registered, and what was imported itself
  }
}

int udmabufOf(int file, uint64_t offset, uint64_t bytes) {
  const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  if (device < 0) return -1;
  udmabuf_create create{};
  create.memfd = static_cast<uint32_t>(file);
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.offset = offset;
  create.size = bytes;
  const int fd = ioctl(device, UDMABUF_CREATE, &create);
  ::close(device);
  return fd;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuMemGetHandleForAddressRange(void *out, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                           unsigned long long flags) {
  ENTER();
  NEED(out && bytes > 0 && address % pageUp(1) == 0 && bytes % pageUp(1) == 0);
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const AllocationPtr allocation = allocationAt(address);
  NEED(allocation);
  if (!exportable(allocation->kind)) return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t at = address - allocation->address;
  NEED(bytes <= pageUp(allocation->size) - at); // memory ends on a page
  if (allocation->file < 0) TRY(backWithFile(*allocation));
  const uint64_t offset = allocation->file_offset + at;
  int fd = udmabufOf(allocation->file, offset, bytes);
  if (fd < 0) {
    // the file stands for a dma-buf only as a whole
    if (offset != 0 || bytes != sizeOf(allocation->file)) return CUDA_ERROR_NOT_SUPPORTED;
    fd = fcntl(allocation->file, F_DUPFD_CLOEXEC, 3);
  }
  if (fd < 0) return CUDA_ERROR_UNKNOWN;
  *static_cast<int *>(out) = fd;
  return CUDA_SUCCESS;
}
