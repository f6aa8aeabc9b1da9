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
  while (rc != 0 && errno == EINTR);
  return rc == 0 ? 0 : errno;
}

// the kernel's word: 1 signalled, 0 active, below 0 the error
FenceStatus toStatus(int32_t status) { return {status == 0, status < 0 ? -status : 0}; }

// The fences in a sync_file, asked for with one call and without an allocation where they are few.
class Fences {
public:
  int load(int fd) { // 0 or the errno
    int code = ask(fd, few_, std::size(few_));
    if (code == EINVAL) { // more than that, or no sync_file
      code = ask(fd, nullptr, 0);
      if (code != 0) return code;
      many_.resize(info_.num_fences);
      code = ask(fd, many_.data(), many_.size());
    }
    return code;
  }
  const char *name() const { return info_.name; }
  // what was asked for may have become less: links of a chain go when they have signalled
  std::span<const sync_fence_info> all() const {
    return std::span<const sync_fence_info>(many_.empty() ? few_ : many_.data(), info_.num_fences);
  }
  FenceStatus status() const {
    int error = 0;
    for (const sync_fence_info &fence : all()) {
      const FenceStatus status = toStatus(fence.status);
      if (status.pending) return status;
      if (error == 0) error = status.error;
    }
    return {false, error};
  }

private:
  int ask(int fd, sync_fence_info *fences, size_t n) {
    info_ = {};
    info_.num_fences = static_cast<uint32_t>(n);
    info_.sync_fence_info = reinterpret_cast<uintptr_t>(fences);
    return ioctlRetry(fd, SYNC_IOC_FILE_INFO, &info_);
  }
  sync_file_info info_ = {};
  sync_fence_info few_[8] = {};
  std::vector<sync_fence_info> many_;
};

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

FenceStatus syncFileStatus(int fd, uint64_t *signalled_ns) {
  if (signalled_ns) *signalled_ns = 0;
  Fences fences;
  if (const int code = fences.load(fd); code != 0) return {false, code};
  const FenceStatus status = fences.status();
  if (signalled_ns && !status.pending)
    for (const sync_fence_info &fence : fences.all())
      *signalled_ns = std::max<uint64_t>(*signalled_ns, fence.timestamp_ns);
  return status;
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
  Fences fences;
  if (const int code = fences.load(fd()); code != 0) return Error{"ask for the fences of " + number(fd()), code, ""};
  result.name = text(fences.name(), sizeof sync_file_info::name);
  result.status = fences.status();
  for (const sync_fence_info &fence : fences.all()) {
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
  const SyncFile *single = nullptr;
  SyncFile merged;
  for (const SyncFile *fence : fences) {
    const FenceStatus status = fence->status();
    if (status.error != 0) return fence->duplicate();
    if (!status.pending) continue;
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
  // one that failed between the question and its merge is not in it
  for (const SyncFile *fence : fences)
    if (fence->status().error != 0) return fence->duplicate();
  if (single == nullptr) return SyncFile();
  if (merged.isEmpty()) return single->duplicate();
  return merged;
}

Result<SyncFile> exportSyncFile(int dmabuf, Access access) {
  dma_buf_export_sync_file request = {};
  request.flags = static_cast<uint32_t>(access);
  request.fd = -1;
  const int code = ioctlRetry(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &request);
  if (code == ENOTTY && !isDmaBuf(dmabuf))
    return Error{number(dmabuf) + " as a dma-buf", EINVAL, "It is another kind of file"};
  if (code != 0) return Error{"export the fences of the dma-buf " + number(dmabuf), code, ""};
  return SyncFile::adopt(UniqueFd(request.fd));
}

Result<SyncFile> exportFence(int dmabuf, Access access) {
  auto fence = exportSyncFile(dmabuf, access);
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
