// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/host_pages.h"

#include <cerrno>
#include <utility>

#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/vfs.h>

namespace gstzc::cuda {

Result<HostMapping> HostMapping::create(int fd, uint64_t offset, uint64_t size, bool writable) {
  uint64_t whole = size;
  struct statfs st = {};
  if (fstatfs(fd, &st) == 0 && static_cast<long>(st.f_type) == HUGETLBFS_MAGIC && st.f_bsize > 0) {
    const auto page = static_cast<uint64_t>(st.f_bsize);
    whole = (size + page - 1) / page * page;
  }
  void *data =
      mmap(nullptr, whole, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED)
    return Error{"map " + std::to_string(size) + " bytes" + (writable ? " for writing" : ""), errno, ""};
  HostMapping mapping;
  mapping.data_ = static_cast<uint8_t *>(data);
  mapping.size_ = whole;
  return mapping;
}

HostMapping::HostMapping(HostMapping &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

HostMapping &HostMapping::operator=(HostMapping &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostMapping::~HostMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

HostFile memfdOf(const ImportSource &source) {
  if (source.memfd >= 0) return {source.memfd, source.memfd_offset, true, "the memfd under it"};
  if (!isDmaBuf(source.fd)) return {source.fd, 0, true, "its file"};
  return {};
}

HostFile dmabufOf(const ImportSource &source) {
  return isDmaBuf(source.fd) ? HostFile{source.fd, 0, false, "the dma-buf's own mapping"} : HostFile{};
}

Result<RegisteredPages> RegisteredPages::create(const ContextPtr &context, const ImportSource &source,
                                                const HostFile &file, unsigned flags) {
  // Pages that the device may write to have to be writable for the process, too.
  auto mapping = HostMapping::create(file.fd, file.offset, source.size, !(flags & CU_MEMHOSTREGISTER_READ_ONLY));
  if (!mapping) {
    Error error = mapping.error();
    error.what = std::string(file.name) + ": " + error.what;
    return error;
  }
  const Driver &driver = context->driver;
  const ContextScope scope(*context);
  if (auto current = scope.status(); !current) return current.error();

  RegisteredPages pages;
  pages.mapping = mapping.take();
  CUresult result = driver.cuMemHostRegister(pages.mapping.data(), source.size,
                                             CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | flags);
  if (result != CUDA_SUCCESS) {
    Error error =
        driver.error(result, std::string(file.name) + ": cuMemHostRegister of " + std::to_string(source.size) +
                                 " bytes" + (flags & CU_MEMHOSTREGISTER_IOMEMORY ? " as device memory" : ""));
    if (!file.ordinary) error.remedy = "The kernel keeps such pages to itself, unless they are one piece of memory";
    return error;
  }
  pages.registration = {context, pages.mapping.data()};
  result = driver.cuMemHostGetDevicePointer(&pages.pointer, pages.mapping.data(), 0);
  if (result != CUDA_SUCCESS) return driver.error(result, std::string(file.name) + ": cuMemHostGetDevicePointer");
  return pages;
}

unsigned readOnlyFlag(const CudaContext &context) {
  return context.driver.attribute(context.device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 0
             ? CU_MEMHOSTREGISTER_READ_ONLY
             : 0u;
}

bool needsHandover(const CudaContext &context, const ImportSource &source) {
  return context.driver.attribute(context.device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0 && isDmaBuf(source.fd);
}

std::optional<DmaBufCpuScope> handOver(int fd) {
  pollfd writers = {fd, POLLIN, 0}; // readable: no device writes to it
  if (poll(&writers, 1, 0) != 1) return std::nullopt;
  return std::optional<DmaBufCpuScope>(std::in_place, fd, Access::Read);
}

} // namespace gstzc::cuda
