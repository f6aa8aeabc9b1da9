// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/frame_fence.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/fence_meta.h"

namespace gstzc {
namespace {

constexpr std::chrono::milliseconds kSlice{20};                              // how late an interruption may be noticed
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365); // now + max() would overflow

} // namespace

std::vector<Fence> FrameFences::take() && {
  std::vector<Fence> all = std::move(others);
  if (!sync.isEmpty()) all.push_back(Fence::of(std::move(sync)));
  return all;
}

Result<FrameFences> frameFences(GstBuffer *buffer, Access access) { return frameFences(buffer, access, {}); }

Result<FrameFences> frameFences(GstBuffer *buffer, Access access, const WaitsElsewhere &elsewhere) {
  FrameFences fences;
  std::vector<SyncFile> exported;
  std::array<int, 16> seen; // more memories than a GstBuffer has: one that does not fit is looked at again
  size_t n_seen = 0;
  const auto itself = access == Access::Read ? Fence::Kind::DmaBufReady : Fence::Kind::DmaBufIdle;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) {
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    if (!gst_is_dmabuf_memory(memory)) continue;
    const int fd = gst_dmabuf_memory_get_fd(memory);
    if (std::find(seen.begin(), seen.begin() + n_seen, fd) != seen.begin() + n_seen) continue;
    if (n_seen < seen.size()) seen[n_seen++] = fd;

    const auto failed = [&](const Error &error) {
      return Error{"memory " + std::to_string(i) + " of the frame: " + error.what, error.code, error.remedy};
    };
    // the usual frame costs one system call: nobody is writing any more
    const auto now = fenceNow(itself, fd);
    if (now && now->error != 0) return failed({"poll descriptor " + std::to_string(fd), now->error, ""});
    if (now) continue;
    auto fence = exportFence(fd, access);
    if (fence) {
      exported.push_back(fence.take());
    } else if (fence.error().code == ENOTTY || fence.error().code == EINVAL) {
      // an old kernel, or memory that only stands in for a dma-buf: it is ready when polling says so
      UniqueFd second = UniqueFd::duplicate(fd);
      if (!second.isValid()) return failed({"duplicate descriptor " + std::to_string(fd), errno, ""});
      fences.others.push_back({itself, std::move(second), {}});
    } else {
      return failed(fence.error());
    }
  }

  auto [all, events] = explicitFences(buffer);
  for (GstZcDeviceEvent *event : events) {
    if ((elsewhere && elsewhere(event)) || gst_zc_device_event_get_status(event) == 1) continue;
    auto fence = fenceOf(event);
    if (!fence) return fence.error();
    fences.others.push_back(fence.take());
  }
  for (const SyncFile &fence : exported) all.push_back(&fence);
  auto merged = mergeFences(all);
  if (!merged) return merged.error();
  if (merged->status().error == 0) {
    fences.sync = merged.take();
    return fences;
  }
  for (const SyncFile *fence : all) { // the devices behind the others may still be writing
    auto second = fence->duplicate();
    if (!second) return second.error();
    if (!second->isEmpty()) fences.others.push_back(Fence::of(second.take()));
  }
  return fences;
}

Error fenceError(const FenceResult &result, std::chrono::milliseconds timeout) {
  if (result.outcome == FenceOutcome::TimedOut)
    return {"the frame's producer was not done after " + std::to_string(timeout.count()) + " ms", ETIMEDOUT,
            "The device that writes into the frame hangs or never signals its fence"};
  if (result.outcome == FenceOutcome::Cancelled) return {"waiting for the frame's producer", ECANCELED, ""};
  return {"the frame's fence ended in an error", result.error, "Its producer did not finish the frame"};
}

Result<FenceResult> waitForFences(FrameFences fences, std::chrono::milliseconds timeout,
                                  const std::function<bool()> &interrupted) {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  const auto deadline = FencePoller::Clock::now() + std::min(timeout, kLongest);
  auto wait = FenceWait::start(std::move(fences).take(), deadline, [&] {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  });
  if (!wait) return wait.error();
  while (!(*wait)->result()) {
    if (interrupted && interrupted()) return FenceResult{FenceOutcome::Cancelled, ECANCELED, 0};
    std::unique_lock lock(mutex);
    if (interrupted)
      changed.wait_for(lock, kSlice, [&] { return over; });
    else
      changed.wait(lock, [&] { return over; }); // the poller keeps the deadline
  }
  return *(*wait)->result();
}

Status waitForFrame(GstBuffer *buffer, Access access, std::chrono::milliseconds timeout,
                    const std::function<bool()> &interrupted) {
  auto fences = frameFences(buffer, access);
  if (!fences) return fences.error();
  if (fences->none()) return Nothing{};
  const auto end = waitForFences(std::move(*fences), timeout, interrupted);
  if (!end) return end.error();
  if (end->outcome == FenceOutcome::Signalled) return Nothing{};
  return fenceError(*end, timeout);
}

} // namespace gstzc
