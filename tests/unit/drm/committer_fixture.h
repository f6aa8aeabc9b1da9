// SPDX-License-Identifier: LGPL-2.1-or-later
// A kernel for the committer that does what the test says. Flips are eventfds, as pollable as out-fences.
#pragma once

#include <cerrno>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "gst/drm/committer.h"

namespace gstzc::test {

using namespace std::chrono_literals;

// What happened, seen from several threads.
struct Kernel {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> answers; // errno for the next commits; then 0
  bool flip_at_once = true;
  int64_t flip_time = 1000;
  std::vector<UniqueFd> waiting; // duplicates of the flips not yet signalled
  std::vector<ScreenState> commits;
  int attempts = 0;
  bool overlapping = false;
  bool takes_in_fence = true;
  UniqueFd signalled{eventfd(1, EFD_CLOEXEC)};
  int refuses_in_fence = 0;             // errno
  std::vector<int> in_fences;           // of the commits taken
  std::vector<std::thread::id> threads; // that made them
  bool master = true;                   // false: commits are answered with EACCES

  void signal(const UniqueFd &fd) {
    const uint64_t one = 1;
    ASSERT_EQ(write(fd.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }
  void flip() {
    const std::lock_guard lock(mutex);
    ASSERT_FALSE(waiting.empty());
    signal(waiting.front());
    waiting.erase(waiting.begin());
  }
  template <typename F> bool wait(F done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 5s, done);
  }
};

class Port : public CommitPort {
public:
  explicit Port(Kernel &kernel) : kernel_(kernel) {}
  int commit(const ScreenState &state, UniqueFd *flipped) override {
    const int in_fence = state.planes.empty() ? -1 : state.planes[0].in_fence;
    const std::lock_guard lock(kernel_.mutex);
    ++kernel_.attempts;
    int rc = in_fence >= 0 ? kernel_.refuses_in_fence : 0;
    if (!kernel_.master) rc = EACCES;
    if (rc == 0 && !kernel_.answers.empty()) {
      rc = kernel_.answers.front();
      kernel_.answers.pop_front();
    }
    if (rc == 0) {
      kernel_.overlapping |= !kernel_.waiting.empty();
      kernel_.commits.push_back(state);
      kernel_.in_fences.push_back(in_fence);
      kernel_.threads.push_back(std::this_thread::get_id());
      *flipped = UniqueFd(eventfd(0, EFD_CLOEXEC));
      if (kernel_.flip_at_once)
        kernel_.signal(*flipped);
      else
        kernel_.waiting.push_back(UniqueFd::duplicate(flipped->get()));
    }
    kernel_.changed.notify_all();
    return rc;
  }
  int64_t flipTime(int) override { return kernel_.flip_time; }
  bool takesInFence(size_t) const override { return kernel_.takes_in_fence; }
  int signalledFence() const override { return kernel_.signalled.get(); }
  bool regain() override {
    const std::lock_guard lock(kernel_.mutex);
    return kernel_.master;
  }

private:
  Kernel &kernel_;
};

struct CommitterTest : testing::Test {
  Kernel kernel;
  std::vector<uint64_t> flipped, flip_times;
  std::vector<Error> failures;
  std::vector<std::string> notes;
  std::vector<std::pair<uint64_t, FrameFate>> bad_fences;
  bool prompt = true;
  std::unique_ptr<Committer> committer;

  void start(Committer::Limits limits = {}) {
    Committer::Events events;
    events.prompt = prompt;
    events.flipped = [this](const DisplayFrame &frame, uint64_t time) {
      const std::lock_guard lock(kernel.mutex);
      flipped.push_back(frame.pts);
      flip_times.push_back(time);
      kernel.changed.notify_all();
    };
    events.failed = [this](const Error &error) {
      const std::lock_guard lock(kernel.mutex);
      failures.push_back(error);
      kernel.changed.notify_all();
    };
    events.note = [this](const std::string &text) {
      const std::lock_guard lock(kernel.mutex);
      notes.push_back(text);
    };
    events.bad_fence = [this](const DisplayFrame &frame, const FenceVerdict &verdict) {
      const std::lock_guard lock(kernel.mutex);
      bad_fences.emplace_back(frame.pts, verdict.fate);
      kernel.changed.notify_all();
    };
    committer = std::make_unique<Committer>(std::make_unique<Port>(kernel), limits, events);
  }

  std::shared_ptr<DisplayFrame> frame(uint64_t pts, std::shared_ptr<void> keep = nullptr) {
    auto f = std::make_shared<DisplayFrame>();
    f->pts = pts;
    f->keep = std::move(keep);
    f->state.planes.push_back({0, nullptr, {static_cast<int>(pts), 0, 0, 0}, {}, {}});
    return f;
  }
  int committedPts(size_t i) {
    const std::lock_guard lock(kernel.mutex);
    return kernel.commits[i].planes[0].source.x;
  }
};

inline uint64_t now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / 1ns); }

} // namespace gstzc::test
