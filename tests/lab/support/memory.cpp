// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/memory.h"

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace gstzc::lab {

namespace {
size_t wholePages(size_t size) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}
} // namespace

Result<UniqueFd> allocateUdmabuf(size_t size) {
  const UniqueFd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!device.isValid()) return Error{"open /dev/udmabuf", errno, ""};
  const UniqueFd memory(memfd_create("lab", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.isValid() || ftruncate(memory.get(), static_cast<off_t>(wholePages(size))) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return Error{"make a sealed memfd of " + std::to_string(size) + " bytes", errno, ""};
  udmabuf_create request = {};
  request.memfd = static_cast<uint32_t>(memory.get());
  request.flags = UDMABUF_FLAGS_CLOEXEC;
  request.size = wholePages(size);
  const int fd = ioctl(device.get(), UDMABUF_CREATE, &request);
  if (fd < 0) return Error{"UDMABUF_CREATE of " + std::to_string(request.size) + " bytes", errno, ""};
  return UniqueFd(fd);
}

Result<UniqueFd> allocateHeap(size_t size, const char *heap) {
  const UniqueFd device(::open(heap, O_RDONLY | O_CLOEXEC));
  if (!device.isValid()) return Error{std::string("open ") + heap, errno, ""};
  dma_heap_allocation_data request = {};
  request.len = wholePages(size);
  request.fd_flags = O_RDWR | O_CLOEXEC;
  if (ioctl(device.get(), DMA_HEAP_IOCTL_ALLOC, &request) != 0)
    return Error{std::string("allocate ") + std::to_string(request.len) + " bytes of " + heap, errno, ""};
  return UniqueFd(static_cast<int>(request.fd));
}

std::string exporter(int fd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
  for (std::string key, value; info >> key && std::getline(info >> std::ws, value);)
    if (key == "exp_name:") return value;
  return "unknown";
}

Result<Mapping> Mapping::create(int fd, size_t size) {
  void *data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return Error{"mmap " + std::to_string(size) + " bytes of fd " + std::to_string(fd), errno, ""};
  return Mapping(static_cast<uint8_t *>(data), size);
}

Mapping::Mapping(Mapping &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Mapping::~Mapping() {
  if (data_) munmap(data_, size_);
}

} // namespace gstzc::lab
