// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dma_alloc.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace gstzc {
namespace {

// Default of the module's parameter, for kernels where it cannot be read
constexpr uint64_t kUdmabufLimitMiB = 64;
constexpr size_t kMiB = size_t{1} << 20;

Result<size_t> wholePages(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // the kernel's sizes are signed
  if (bytes == 0 || bytes > SIZE_MAX / 2 - page)
    return Error{"allocation of " + std::to_string(bytes) + " bytes", EINVAL, ""};
  return (bytes + page - 1) / page * page;
}

int ioctlRetry(int fd, unsigned long request, void *argument) {
  int rc;
  do rc = ioctl(fd, request, argument);
  while (rc < 0 && errno == EINTR);
  return rc;
}

std::string permissionRemedy(const std::string &node) {
  return "Give this user access to " + node + " (ls -l shows its group; on Debian udmabuf belongs to group kvm)";
}

std::string heapList(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string &name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

Result<UniqueFd> openUdmabuf(const DmaNodes &nodes) {
  UniqueFd fd(::open(nodes.udmabuf.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.isValid()) return fd;
  const int code = errno;
  return Error{"open " + nodes.udmabuf, code,
               code == EACCES || code == EPERM ? permissionRemedy(nodes.udmabuf)
                                               : "Load the driver: modprobe udmabuf (CONFIG_UDMABUF)"};
}

Result<UniqueFd> openHeap(const DmaNodes &nodes, const std::string &name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    return Error{"\"" + name + "\" as name of a dma-heap", EINVAL, "It is a file name in " + nodes.heaps};
  const std::string node = nodes.heaps + "/" + name;
  UniqueFd fd(::open(node.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.isValid()) return fd;
  const int code = errno;
  std::string remedy;
  if (code == EACCES || code == EPERM) {
    remedy = permissionRemedy(node);
  } else if (const std::string list = heapList(nodes.heaps); !list.empty()) {
    remedy = "This machine has the heaps " + list;
  } else {
    remedy = "This kernel offers no dma-heaps (CONFIG_DMABUF_HEAPS, CONFIG_DMABUF_HEAPS_SYSTEM)";
  }
  return Error{"open " + node, code, remedy};
}

Result<UniqueFd> makeMemfd(size_t size) {
  UniqueFd fd(memfd_create("gstzc-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.isValid()) return Error{"memfd_create", errno, ""};
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return Error{"memfd of " + std::to_string(size) + " bytes", errno, ""};
  // udmabuf demands it: pages that others use may not be cut off. F_SEAL_WRITE would be refused.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return Error{"sealing a memfd", errno, ""};
  return fd;
}

uint64_t udmabufLimit(const DmaNodes &nodes) {
  std::ifstream file(nodes.udmabuf_limit);
  uint64_t mib = 0;
  return file >> mib && mib > 0 ? mib : kUdmabufLimitMiB;
}

} // namespace

const char *dmaSourceName(DmaSource source) {
  switch (source) {
  case DmaSource::Auto: return "auto";
  case DmaSource::Udmabuf: return "udmabuf";
  case DmaSource::DmaHeap: return "dma-heap";
  case DmaSource::Memfd: return "memfd";
  }
  return "unknown";
}

Result<DmaAllocator> DmaAllocator::open(DmaSource source, const std::string &heap, const DmaNodes &nodes) {
  DmaAllocator allocator;
  allocator.source_ = source;
  allocator.nodes_ = nodes;
  allocator.heap_name_ = heap;

  Error udmabuf_error, heap_error;
  if (source == DmaSource::Udmabuf || source == DmaSource::Auto) {
    if (auto fd = openUdmabuf(nodes); fd)
      allocator.udmabuf_ = fd.take();
    else
      udmabuf_error = fd.error();
  }
  if (source == DmaSource::DmaHeap || source == DmaSource::Auto) {
    if (auto fd = openHeap(nodes, heap); fd)
      allocator.heap_ = fd.take();
    else
      heap_error = fd.error();
  }

  if (source == DmaSource::Udmabuf && !allocator.udmabuf_.isValid()) return udmabuf_error;
  if (source == DmaSource::DmaHeap && !allocator.heap_.isValid()) return heap_error;
  if (source == DmaSource::Auto && !allocator.udmabuf_.isValid() && !allocator.heap_.isValid())
    return Error{"no device node to allocate dma-bufs from: " + udmabuf_error.message() + "; " + heap_error.message(),
                 0, ""};
  return allocator;
}

Result<DmaBuffer> DmaAllocator::alloc(size_t bytes) const {
  auto size = wholePages(bytes);
  if (!size) return size.error();
  switch (source_) {
  case DmaSource::Udmabuf: return allocUdmabuf(*size);
  case DmaSource::DmaHeap: return allocHeap(*size);
  case DmaSource::Memfd: return allocMemfd(*size);
  case DmaSource::Auto: break;
  }
  if (!udmabuf_.isValid()) return allocHeap(*size);
  auto buffer = allocUdmabuf(*size);
  if (buffer || !heap_.isValid()) return buffer;
  auto second = allocHeap(*size);
  if (second) return second;
  return Error{buffer.error().message() + "; " + second.error().message(), 0, ""};
}

Result<DmaBuffer> DmaAllocator::allocUdmabuf(size_t bytes) const {
  auto memfd = makeMemfd(bytes);
  if (!memfd) return memfd.error();
  udmabuf_create request = {};
  request.memfd = static_cast<uint32_t>(memfd->get());
  request.flags = UDMABUF_FLAGS_CLOEXEC;
  request.size = bytes;
  const int fd = ioctlRetry(udmabuf_.get(), UDMABUF_CREATE, &request);
  if (fd < 0) {
    const int code = errno;
    const uint64_t limit = udmabufLimit(nodes_);
    std::string remedy;
    if (code == EINVAL && bytes > limit * kMiB)
      remedy = "The driver makes buffers of at most " + std::to_string(limit) + " MiB: raise its parameter (" +
               nodes_.udmabuf_limit + "), or use a dma-heap";
    else if (code == ENOTTY)
      remedy = nodes_.udmabuf + " is not the udmabuf device";
    return Error{"udmabuf of " + std::to_string(bytes) + " bytes", code, remedy};
  }
  DmaBuffer buffer;
  buffer.fd = UniqueFd(fd);
  buffer.size = bytes;
  buffer.source = DmaSource::Udmabuf;
  buffer.memfd = memfd.take();
  return buffer;
}

Result<DmaBuffer> DmaAllocator::allocHeap(size_t bytes) const {
  dma_heap_allocation_data request = {};
  request.len = bytes;
  request.fd_flags = O_RDWR | O_CLOEXEC;
  if (ioctlRetry(heap_.get(), DMA_HEAP_IOCTL_ALLOC, &request) != 0) {
    const int code = errno;
    return Error{std::to_string(bytes) + " bytes from dma-heap " + heap_name_, code,
                 code == ENOTTY ? nodes_.heaps + "/" + heap_name_ + " is not a dma-heap" : ""};
  }
  DmaBuffer buffer;
  buffer.fd = UniqueFd(static_cast<int>(request.fd));
  buffer.size = bytes;
  buffer.source = DmaSource::DmaHeap;
  return buffer;
}

Result<DmaBuffer> DmaAllocator::allocMemfd(size_t bytes) const {
  auto memfd = makeMemfd(bytes);
  if (!memfd) return memfd.error();
  DmaBuffer buffer;
  buffer.fd = memfd.take();
  buffer.size = bytes;
  buffer.source = DmaSource::Memfd;
  buffer.memfd = UniqueFd::duplicate(buffer.fd.get());
  if (!buffer.memfd.isValid()) return Error{"second descriptor of a memfd", errno, ""};
  return buffer;
}

HeapTraits heapTraits(const std::string &heap) {
  HeapTraits traits;
  // names of the CMA heap over the years, and of heaps made for reserved memory regions after them
  traits.contiguous = heap == "reserved" || heap == "default_cma_region" || heap.rfind("cma", 0) == 0 ||
                      heap.rfind("linux,cma", 0) == 0;
  traits.cached = heap.find("uncached") == std::string::npos;
  return traits;
}

} // namespace gstzc
