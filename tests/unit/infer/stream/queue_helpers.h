// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers to tell apart, their fences and works, and calls in other threads that return or wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <sys/eventfd.h>

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "gst/infer/stream/frame_queue.h"

namespace gstzc::test {

constexpr std::chrono::milliseconds kLong{30'000}; // no test waits for its end

// An eventfd as a fence.
class Producer {
public:
  FrameFences fences(int error = 0) const {
    FrameFences fences;
    fences.others.push_back({Fence::Kind::Event, UniqueFd::duplicate(fd_.get()), [error] { return error; }});
    return fences;
  }
  void finish() const { eventfd_write(fd_.get(), 1); }

private:
  UniqueFd fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// A work that counts what the queue calls, and fails the test where that breaks the rules.
class CountedWork : public infer::FrameQueue::Work {
public:
  explicit CountedWork(std::function<void(CountedWork &)> at_start = {}) : at_start_(std::move(at_start)) {}

  void start(const infer::FrameQueue::FenceEnd &end) override {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(abandoned_) << "started after it was abandoned";
      EXPECT_FALSE(inside_) << "started twice at a time";
      EXPECT_TRUE(!end.result || end.result->outcome != FenceOutcome::Cancelled);
      inside_ = true;
      ++starts_;
      end_ = end;
      changed_.notify_all();
    }
    if (at_start_) at_start_(*this);
    const std::lock_guard lock(mutex_);
    inside_ = false;
  }
  bool giveUp() override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(abandoned_) << "asked after it was abandoned";
    ++asked_;
    return idle_;
  }
  void abandoned() override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(abandoned_) << "abandoned twice";
    EXPECT_FALSE(inside_) << "abandoned while it was being started";
    abandoned_ = true;
    changed_.notify_all();
  }

  bool onlyPasses() const override { return passes_; }
  void setPasses() { passes_ = true; } // before it is pushed
  void setIdle(bool idle) {
    const std::lock_guard lock(mutex_);
    idle_ = idle;
  }
  int starts() const { return get(starts_); }
  int asked() const { return get(asked_); }
  bool isAbandoned() const { return get(abandoned_); }
  infer::FrameQueue::FenceEnd end() const { return get(end_); }
  // False: it was not started that often in ten seconds.
  bool wasStarted(int times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return starts_ >= times; });
  }

private:
  template <typename T> T get(const T &member) const {
    const std::lock_guard lock(mutex_);
    return member;
  }
  const std::function<void(CountedWork &)> at_start_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int starts_ = 0, asked_ = 0;
  bool passes_ = false;
  bool inside_ = false, abandoned_ = false, idle_ = false;
  infer::FrameQueue::FenceEnd end_;
};

// A frame that is only waited for.
inline std::shared_ptr<CountedWork> doneAtOnce(infer::FrameQueue &queue) {
  return std::make_shared<CountedWork>([&queue](CountedWork &self) { queue.done(&self); });
}

inline GstBuffer *numbered(guint64 n) {
  GstBuffer *buffer = gst_buffer_new();
  GST_BUFFER_OFFSET(buffer) = n;
  return buffer;
}

template <typename T> bool finishes(std::future<T> &future) {
  return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}
template <typename T> bool waits(std::future<T> &future) {
  return future.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout;
}

} // namespace gstzc::test
