// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/stream_gate.h"

#include <cerrno>
#include <condition_variable>
#include <mutex>

#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

class HostGate final : public StreamGate {
public:
  explicit HostGate(FencePoller &poller) : poller_(poller) {}
  ~HostGate() override { keepOpen(true); }

  const char *name() const override { return "host"; }

  Status hold(CUstream, std::vector<Fence> fences, Clock::time_point deadline, Ended ended) override {
    bool over = false;
    auto started = FenceWait::start(
        std::move(fences), deadline,
        [&] {
          const std::lock_guard lock(mutex_);
          over = true;
          changed_.notify_all();
        },
        poller_);
    if (!started) return started.error();
    auto wait = started.take();
    if (!wait->result() && waitPoint("host-gate-wait")) {
      std::unique_lock lock(mutex_);
      const uint64_t before = opened_;
      ++pending_;
      changed_.wait(lock, [&] { return over || open_ || opened_ != before; }); // the poller keeps the deadline
      --pending_;
    }
    const FenceResult result = wait->result().value_or(FenceResult{FenceOutcome::Cancelled, ECANCELED, 0});
    wait.reset();
    if (ended) ended(result);
    return Nothing{};
  }

  void open() override {
    const std::lock_guard lock(mutex_);
    ++opened_;
    changed_.notify_all();
  }

  void keepOpen(bool on) override {
    const std::lock_guard lock(mutex_);
    open_ = on;
    changed_.notify_all();
  }

  size_t pending() const override {
    const std::lock_guard lock(mutex_);
    return pending_;
  }

private:
  FencePoller &poller_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t pending_ = 0;
  uint64_t opened_ = 0; // how often
  bool open_ = false;
};

} // namespace

std::unique_ptr<StreamGate> makeHostGate(FencePoller &poller) { return std::make_unique<HostGate>(poller); }

} // namespace gstzc::cuda
