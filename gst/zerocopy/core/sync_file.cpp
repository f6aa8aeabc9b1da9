// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/sync_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/dma-buf.h>
#include <linux/sync_file.h>
#include <sys/ioctl.h>

namespace gstzc {
namespace {

constexpr char kMergedName[] = "gst-zerocopy";

int ioctlRetry(int fd, unsigned long request, void *argument) {
  int rc;
  do rc = ioctl(fd, request, argument);
  while (rc != 0 && (errno == EINTR || errno == EAGAIN));
  return rc == 0 ? 0 : errno;
}

// the kernel's word: 1 signalled, 0 active, below 0 the error
FenceStatus toStatus(int32_t status) { return {status == 0, status < 0 ? -status : 0}; }

std::string text(const char *chars, size_t size) { return std::string(chars, strnlen(chars, size)); }

std::string number(int fd) { return "descriptor " + std::to_string(fd); }

} // namespace

uint64_t SyncFileInfo::signalledAt() const {
  uint64_t last = 0;
  for (const FenceInfo &fence : fences) {
    if (fence.status.pending) return 0;
    last = std::max(last, fence.signalled_ns);
  }
  return last;
}

FenceStatus syncFileStatus(int fd) {
  sync_file_info info = {};
  const int code = ioctlRetry(fd, SYNC_IOC_FILE_INFO, &info);
  return code == 0 ? toStatus(info.status) : FenceStatus{false, code};
}

uint64_t syncFileSignalTime(int fd) {
  sync_fence_info few[8] = {};
  std::vector<sync_fence_info> many;
  std::span<sync_fence_info> fences = few;
  sync_file_info info = {};
  if (ioctlRetry(fd, SYNC_IOC_FILE_INFO, &info) != 0) return 0;
  if (info.num_fences > fences.size()) {
    many.resize(info.num_fences);
    fences = many;
  }
  info.num_fences = static_cast<uint32_t>(fences.size());
  info.sync_fence_info = reinterpret_cast<uintptr_t>(fences.data());
  if (ioctlRetry(fd, SYNC_IOC_FILE_INFO, &info) != 0) return 0;
  uint64_t last = 0;
  for (const sync_fence_info &fence : fences.first(info.num_fences)) {
    if (fence.status == 0) return 0;
    last = std::max<uint64_t>(last, fence.timestamp_ns);
  }
  return last;
}

Result<SyncFile> SyncFile::adopt(UniqueFd fd) {
  sync_file_info info = {};
  const int code = fd.isValid() ? ioctlRetry(fd.get(), SYNC_IOC_FILE_INFO, &info) : EBADF;
  if (code == 0) return SyncFile(std::move(fd));
  return Error{number(fd.get()) + " as a fence", code == EBADF ? EBADF : EINVAL,
               code == EBADF ? "It is closed"
                             : "A fence is a sync_file, as drivers and DMA_BUF_IOCTL_EXPORT_SYNC_FILE give it"};
}

Result<SyncFile> SyncFile::duplicateOf(int fd) {
  UniqueFd second = UniqueFd::duplicate(fd);
  if (!second.isValid()) return Error{"duplicate " + number(fd), fd < 0 ? EBADF : errno, ""};
  return adopt(std::move(second));
}

Result<SyncFile> SyncFile::duplicate() const {
  if (isEmpty()) return SyncFile();
  UniqueFd second = UniqueFd::duplicate(fd());
  if (!second.isValid()) return Error{"duplicate the fence " + number(fd()), errno, ""};
  return SyncFile(std::move(second));
}

FenceStatus SyncFile::status() const { return isEmpty() ? FenceStatus{} : syncFileStatus(fd()); }

Result<SyncFileInfo> SyncFile::info() const {
  SyncFileInfo result;
  if (isEmpty()) return result;
  sync_file_info info = {};
  std::vector<sync_fence_info> fences;
  int code = ioctlRetry(fd(), SYNC_IOC_FILE_INFO, &info); // asks for the number of fences, which never changes
  if (code == 0 && info.num_fences > 0) {
    fences.resize(info.num_fences);
    info.sync_fence_info = reinterpret_cast<uintptr_t>(fences.data());
    code = ioctlRetry(fd(), SYNC_IOC_FILE_INFO, &info);
  }
  if (code != 0) return Error{"ask for the fences of " + number(fd()), code, ""};
  result.name = text(info.name, sizeof info.name);
  result.status = toStatus(info.status);
  for (const sync_fence_info &fence : fences) {
    const FenceStatus status = toStatus(fence.status);
    result.fences.push_back({text(fence.driver_name, sizeof fence.driver_name),
                             text(fence.obj_name, sizeof fence.obj_name), status,
                             status.pending ? 0 : fence.timestamp_ns});
  }
  return result;
}

Status SyncFile::setDeadline(uint64_t monotonic_ns) const {
  if (isEmpty()) return Nothing{};
#ifdef SYNC_IOC_SET_DEADLINE
  sync_set_deadline request = {};
  request.deadline_ns = monotonic_ns;
  const int code = ioctlRetry(fd(), SYNC_IOC_SET_DEADLINE, &request);
  if (code != 0 && code != ENOTTY) return Error{"set a deadline for the fence " + number(fd()), code, ""};
#endif
  return Nothing{};
}

Result<SyncFile> mergeFences(std::span<const SyncFile *const> fences) {
  SyncFile merged;
  const SyncFile *single = nullptr;
  const auto failed = [&]() -> const SyncFile * {
    for (const SyncFile *fence : fences)
      if (fence->status().error != 0) return fence;
    return nullptr;
  };
  if (const SyncFile *fence = failed()) return fence->duplicate();
  for (const SyncFile *fence : fences) {
    if (fence == single || !fence->status().pending) continue;
    if (single == nullptr) {
      single = fence;
      continue;
    }
    sync_merge_data request = {};
    std::copy(std::begin(kMergedName), std::end(kMergedName), request.name);
    request.fd2 = fence->fd();
    const int code = ioctlRetry(merged.isEmpty() ? single->fd() : merged.fd(), SYNC_IOC_MERGE, &request);
    if (code != 0) return Error{"merge the fences " + number(single->fd()) + " and " + number(fence->fd()), code, ""};
    auto both = SyncFile::adopt(UniqueFd(request.fence));
    if (!both) return both.error();
    merged = both.take();
  }
  // one that failed before it was merged is not in it
  if (const SyncFile *fence = failed()) return fence->duplicate();
  if (merged.isEmpty() && single != nullptr) return single->duplicate();
  return merged;
}

Result<SyncFile> exportFence(int dmabuf, Access access) {
  dma_buf_export_sync_file request = {};
  request.flags = static_cast<uint32_t>(access);
  request.fd = -1;
  const int code = ioctlRetry(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &request);
  if (code == ENOTTY && !isDmaBuf(dmabuf))
    return Error{number(dmabuf) + " as a dma-buf", EINVAL, "It is another kind of file"};
  if (code != 0) return Error{"export the fences of the dma-buf " + number(dmabuf), code, ""};
  auto fence = SyncFile::adopt(UniqueFd(request.fd));
  if (fence && fence->status().signalled()) return SyncFile();
  return fence;
}

Status importFence(int dmabuf, const SyncFile &fence, Access access) {
  if (fence.isEmpty()) return Nothing{};
  dma_buf_import_sync_file request = {};
  request.flags = static_cast<uint32_t>(access);
  request.fd = fence.fd();
  const int code = ioctlRetry(dmabuf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &request);
  if (code == ENOTTY && !isDmaBuf(dmabuf))
    return Error{number(dmabuf) + " as a dma-buf", EINVAL, "It is another kind of file"};
  if (code != 0) return Error{"add a fence to the dma-buf " + number(dmabuf), code, ""};
  return Nothing{};
}

} // namespace gstzc
