// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dma_alloc.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include <linux/dma-heap.h>
#include <linux/mempolicy.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace gstzc {
namespace {

// Default of the module's parameter, for kernels where it cannot be read
constexpr uint64_t kUdmabufLimitMiB = 64;
constexpr size_t kMiB = size_t{1} << 20;
// Larger ones (1 GiB) are reserved for somebody else: a frame would waste nearly all of it
constexpr size_t kLargestHugePage = 64 * kMiB;

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

std::vector<std::string> entries(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string list(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> contiguousHeaps(const DmaNodes &nodes) {
  auto names = entries(nodes.heaps);
  std::erase_if(names, [](const std::string &name) { return !heapTraits(name).contiguous; });
  return names;
}

std::string contiguousHeapRemedy(const DmaNodes &nodes) {
  const auto names = contiguousHeaps(nodes);
  if (!names.empty()) return "This machine has the contiguous heaps " + list(names);
  return "This machine has no contiguous heap (CONFIG_DMABUF_HEAPS_CMA and a reserved region, e.g. cma=64M)";
}

std::string sizeText(size_t bytes) {
  return bytes % kMiB == 0 ? std::to_string(bytes / kMiB) + " MiB" : std::to_string(bytes / 1024) + " KiB";
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
  } else if (const auto names = entries(nodes.heaps); !names.empty()) {
    remedy = "This machine has the heaps " + list(names);
  } else {
    remedy = "This kernel offers no dma-heaps (CONFIG_DMABUF_HEAPS, CONFIG_DMABUF_HEAPS_SYSTEM)";
  }
  return Error{"open " + node, code, remedy};
}

Result<UniqueFd> makeMemfd(size_t size, unsigned flags = 0) {
  UniqueFd fd(memfd_create("gstzc-frame", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  if (!fd.isValid()) return Error{"memfd_create", errno, ""};
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return Error{"memfd of " + std::to_string(size) + " bytes", errno, ""};
  // udmabuf demands it: pages that others use may not be cut off. F_SEAL_WRITE would be refused.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return Error{"sealing a memfd", errno, ""};
  return fd;
}

// Sizes of the kernel's huge pages, in bytes, ascending
std::vector<size_t> hugePageSizes(const DmaNodes &nodes) {
  std::vector<size_t> sizes;
  for (const std::string &name : entries(nodes.huge_pages)) {
    unsigned long kib = 0;
    if (std::sscanf(name.c_str(), "hugepages-%lukB", &kib) == 1 && kib > 0) sizes.push_back(size_t{kib} * 1024);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// A memfd of one huge page that holds `bytes`. The page is there afterwards, and zeroed: left to the driver it would be
// neither on some kernels.
Result<UniqueFd> makeHugeMemfd(size_t bytes, size_t page) {
  const auto shift = static_cast<unsigned>(std::countr_zero(page));
  auto fd = makeMemfd(page, MFD_HUGETLB | shift << MAP_HUGE_SHIFT);
  if (!fd) return fd.error();
  void *mapped = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd->get(), 0);
  if (mapped == MAP_FAILED)
    return Error{"a free huge page of " + sizeText(page) + " for " + std::to_string(bytes) + " bytes", errno, ""};
  munmap(mapped, page);
  return fd;
}

Result<UniqueFd> makeHugeMemfd(size_t bytes, const DmaNodes &nodes, size_t *file_size) {
  const auto sizes = hugePageSizes(nodes);
  Error error{"huge pages", ENOSYS, "This kernel has none (CONFIG_HUGETLBFS)"};
  for (const size_t page : sizes) {
    if (page > kLargestHugePage) break;
    if (page < bytes) {
      error = {std::to_string(bytes) + " bytes in one huge page of " + sizeText(page), EFBIG,
               "Only memory within one page is contiguous: use a contiguous heap"};
      continue;
    }
    auto fd = makeHugeMemfd(bytes, page);
    if (fd) {
      *file_size = page;
      return fd;
    }
    error = fd.error();
    error.remedy = "Reserve one for each frame: echo 16 > " + nodes.huge_pages + "/hugepages-" +
                   std::to_string(page / 1024) + "kB/nr_hugepages";
  }
  return error;
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

Result<DmaAllocator> DmaAllocator::open(DmaSource source, const std::string &heap, MemoryNeed need,
                                        const DmaNodes &nodes) {
  DmaAllocator allocator;
  allocator.source_ = source;
  allocator.need_ = need;
  allocator.nodes_ = nodes;
  const bool by_itself = source == DmaSource::Auto;
  // what cannot meet the need is no choice of ours; a user who names a heap knows what it is, unless it is known better
  const bool heap_fits = need == MemoryNeed::Any || !heapTraits(heap).scattered;
  if (source == DmaSource::DmaHeap && !heap_fits)
    return Error{"physically contiguous memory from dma-heap " + heap, ENOTSUP, contiguousHeapRemedy(nodes)};

  Error udmabuf_error, heap_error;
  if (source == DmaSource::Udmabuf || by_itself) {
    if (auto fd = openUdmabuf(nodes); fd)
      allocator.udmabuf_ = fd.take();
    else
      udmabuf_error = fd.error();
  }
  if (source == DmaSource::DmaHeap || (by_itself && heap_fits)) {
    if (auto fd = openHeap(nodes, heap); fd)
      allocator.heaps_.push_back({heap, fd.take()});
    else
      heap_error = fd.error();
  }
  if (by_itself && need == MemoryNeed::Contiguous) {
    allocator.heap_first_ = !allocator.heaps_.empty();
    for (const std::string &name : contiguousHeaps(nodes)) {
      if (name == heap) continue;
      if (auto fd = openHeap(nodes, name); fd)
        allocator.heaps_.push_back({name, fd.take()});
      else
        heap_error = fd.error();
    }
    if (heap_error.what.empty()) heap_error = {"no contiguous heap", ENOENT, contiguousHeapRemedy(nodes)};
  }

  if (source == DmaSource::Udmabuf && !allocator.udmabuf_.isValid()) return udmabuf_error;
  if (source == DmaSource::DmaHeap && allocator.heaps_.empty()) return heap_error;
  if (by_itself && !allocator.udmabuf_.isValid() && allocator.heaps_.empty())
    return Error{"no device node to allocate dma-bufs from: " + udmabuf_error.message() + "; " + heap_error.message(),
                 0, ""};
  return allocator;
}

Result<DmaBuffer> DmaAllocator::alloc(size_t bytes) const {
  auto size = wholePages(bytes);
  if (!size) return size.error();
  if (source_ == DmaSource::Memfd) return allocMemfd(*size);

  std::string failures;
  Error last;
  const auto attempt = [&](Result<DmaBuffer> buffer) {
    if (!buffer) {
      last = buffer.error();
      failures += (failures.empty() ? "" : "; ") + last.message();
    }
    return buffer;
  };
  if (heap_first_)
    if (auto buffer = attempt(allocHeap(heaps_.front(), *size))) return buffer;
  if (udmabuf_.isValid())
    if (auto buffer = attempt(allocUdmabuf(*size))) return buffer;
  for (size_t i = heap_first_ ? 1 : 0; i < heaps_.size(); ++i)
    if (auto buffer = attempt(allocHeap(heaps_[i], *size))) return buffer;
  if (failures == last.message() && !(need_ == MemoryNeed::Contiguous && source_ == DmaSource::Auto)) return last;
  if (need_ == MemoryNeed::Contiguous && heaps_.empty()) failures += "; " + contiguousHeapRemedy(nodes_);
  return Error{failures, 0, ""};
}

Result<UniqueFd> DmaAllocator::memfdOf(size_t *bytes) const {
  return need_ == MemoryNeed::Contiguous ? makeHugeMemfd(*bytes, nodes_, bytes) : makeMemfd(*bytes);
}

Result<DmaBuffer> DmaAllocator::allocUdmabuf(size_t bytes) const {
  size_t file_size = bytes; // a huge page is larger than what is taken of it
  auto memfd = memfdOf(&file_size);
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
  buffer.contiguous = need_ == MemoryNeed::Contiguous;
  return buffer;
}

Result<DmaBuffer> DmaAllocator::allocHeap(const Heap &heap, size_t bytes) const {
  // the system heap takes page after page until the machine has none left
  const auto ram = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > ram)
    return Error{std::to_string(bytes) + " bytes from dma-heap " + heap.name, ENOMEM,
                 "This machine has " + std::to_string(ram) + " in all"};
  dma_heap_allocation_data request = {};
  request.len = bytes;
  request.fd_flags = O_RDWR | O_CLOEXEC;
  if (ioctlRetry(heap.fd.get(), DMA_HEAP_IOCTL_ALLOC, &request) != 0) {
    const int code = errno;
    return Error{std::to_string(bytes) + " bytes from dma-heap " + heap.name, code,
                 code == ENOTTY ? nodes_.heaps + "/" + heap.name + " is not a dma-heap" : ""};
  }
  const HeapTraits traits = heapTraits(heap.name);
  DmaBuffer buffer;
  buffer.fd = UniqueFd(static_cast<int>(request.fd));
  buffer.size = bytes;
  buffer.source = DmaSource::DmaHeap;
  buffer.contiguous = traits.contiguous;
  buffer.cached = traits.cached;
  return buffer;
}

Result<DmaBuffer> DmaAllocator::allocMemfd(size_t bytes) const {
  auto memfd = memfdOf(&bytes);
  if (!memfd) return memfd.error();
  DmaBuffer buffer;
  buffer.fd = memfd.take();
  buffer.size = bytes;
  buffer.source = DmaSource::Memfd;
  buffer.contiguous = need_ == MemoryNeed::Contiguous;
  buffer.memfd = UniqueFd::duplicate(buffer.fd.get());
  if (!buffer.memfd.isValid()) return Error{"second descriptor of a memfd", errno, ""};
  return buffer;
}

Result<DmaBuffer> DmaAllocator::allocScattered() const {
  if (!udmabuf_.isValid()) return Error{"scattered memory without " + nodes_.udmabuf, ENODEV, ""};
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto memfd = makeMemfd(page);
  if (!memfd) return memfd.error();
  struct { // a udmabuf_create_list of two
    uint32_t flags, count;
    udmabuf_create_item items[2];
  } request = {};
  request.flags = UDMABUF_FLAGS_CLOEXEC;
  request.count = 2;
  for (udmabuf_create_item &item : request.items) item = {static_cast<uint32_t>(memfd->get()), 0, 0, page};
  const int fd = ioctlRetry(udmabuf_.get(), UDMABUF_CREATE_LIST, &request);
  if (fd < 0) return Error{"udmabuf of one page twice", errno, ""};
  DmaBuffer buffer;
  buffer.fd = UniqueFd(fd);
  buffer.size = 2 * page;
  buffer.source = DmaSource::Udmabuf;
  buffer.memfd = memfd.take();
  return buffer;
}

HeapTraits heapTraits(const std::string &heap) {
  HeapTraits traits;
  // names of the CMA heap over the years, and of heaps made for reserved memory regions after them
  traits.contiguous = heap == "reserved" || heap == "default_cma_region" || heap.rfind("cma", 0) == 0 ||
                      heap.rfind("linux,cma", 0) == 0;
  traits.scattered = heap.rfind("system", 0) == 0;
  traits.cached = heap.find("uncached") == std::string::npos;
  return traits;
}

int numaNode(int memfd, uint64_t offset) {
  struct stat st = {};
  if (fstat(memfd, &st) != 0) return -1;
  // whole pages of the file, also of a hugetlbfs
  const auto page = std::max<size_t>(static_cast<size_t>(st.st_blksize), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  void *mapped = mmap(nullptr, page, PROT_READ, MAP_SHARED, memfd, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return -1;
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, mapped, MPOL_F_NODE | MPOL_F_ADDR) != 0) node = -1;
  munmap(mapped, page);
  return node;
}

} // namespace gstzc
