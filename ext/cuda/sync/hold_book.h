// SPDX-License-Identifier: LGPL-2.1-or-later
// In which order holds of a StreamGate pass, and how their fences ended. Knows nothing of a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// A hold gets a ticket, the next number, when its fences are watched. It is told how they ended once they are over and
// what waits for it is enqueued; only then it passes, and when all before it have. So whoever looks at what a hold let
// pass knows already how its fences ended. Thread-safe.
class HoldBook : public std::enable_shared_from_this<HoldBook> {
public:
  using Ended = std::function<void(const FenceResult &)>;
  using Pass = std::function<void(uint32_t ticket)>; // this and all before it; called with a lock held, in any thread

  struct Hold {
    uint32_t ticket = 0;

  private:
    friend class HoldBook;
    Ended ended;
    std::unique_ptr<FenceWait> wait;
    bool enqueued = false; // commit() was called
    bool over = false;     // its fences are
    bool opened = false;   // it does not wait for them any more
    bool settled = false;  // somebody tells or has told, or drops it
    bool passed = false;
  };
  using HoldPtr = std::shared_ptr<Hold>;

  // Tickets are counted from `first` + 1 and wrap around.
  HoldBook(uint32_t first, Pass pass) : last_(first), pass_(std::move(pass)) {}

  // Watches the fences. Null: there is nothing to wait for, and `ended` has been called. Else either commit() or drop()
  // has to follow.
  Result<HoldPtr> begin(std::vector<Fence> fences, FencePoller::Clock::time_point deadline, Ended ended,
                        FencePoller &poller);
  void commit(const HoldPtr &hold); // what waits for the ticket is enqueued
  void drop(const HoldPtr &hold);   // it could not be: the ticket passes, and `ended` is not called

  void open(); // all there are now pass, those whose fences are not over as Cancelled
  void keepOpen(bool on);
  void waitUntilEmpty(); // after open(): for others who are about to tell
  size_t pending() const;

private:
  using Lock = std::unique_lock<std::mutex>;
  void resolved(const HoldPtr &hold);
  void settle(Lock &lock, const HoldPtr &hold);
  void advance();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<HoldPtr> holds_; // in the order of the tickets
  uint32_t last_;
  const Pass pass_;
  bool open_ = false;
};

} // namespace gstzc::cuda
