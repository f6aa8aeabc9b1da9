// SPDX-License-Identifier: LGPL-2.1-or-later
// Fences without a device: eventfds and pipes, and a record of how waits ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::test {

inline FencePoller::Clock::time_point in(std::chrono::nanoseconds time) { return FencePoller::Clock::now() + time; }
inline FencePoller::Clock::time_point notSoon() { return in(std::chrono::seconds(60)); }
inline uint64_t nanoseconds(FencePoller::Clock::time_point t) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(t.time_since_epoch()).count());
}

class EventSource {
public:
  EventSource() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const { return fd_.get(); }
  void signal() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(fd_.get(), &one, sizeof one);
  }
  Fence fence(std::function<int()> status = {}) const {
    return {Fence::Kind::Event, UniqueFd::duplicate(fd_.get()), std::move(status)};
  }

private:
  UniqueFd fd_;
};

struct Pipe {
  Pipe() {
    int fds[2] = {-1, -1};
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0) {
      reader = UniqueFd(fds[0]);
      writer = UniqueFd(fds[1]);
    }
  }
  void fill() const {
    const std::vector<char> bytes(4096);
    while (write(writer.get(), bytes.data(), bytes.size()) > 0) {
    }
  }
  void drain() const {
    std::vector<char> bytes(4096);
    while (read(reader.get(), bytes.data(), bytes.size()) > 0) {
    }
  }
  UniqueFd reader, writer;
};

// How waits ended, in the order of their callbacks.
class Record {
public:
  FencePoller::Callback as(int name) {
    return [this, name](const FenceResult &result) {
      const std::lock_guard lock(mutex_);
      ended_.emplace_back(name, result);
      changed_.notify_all();
    };
  }
  std::vector<std::pair<int, FenceResult>> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  size_t size() const { return ended().size(); }
  // False when that many have not ended after half a minute.
  bool reaches(size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return ended_.size() >= n; });
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<int, FenceResult>> ended_;
};

} // namespace gstzc::test
