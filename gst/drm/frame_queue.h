// SPDX-License-Identifier: LGPL-2.1-or-later
// The frames of one sink that wait in user space: which of them is next, and which are given up.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gst/drm/display_frame.h"

namespace gstzc {

struct CommitCounters {
  uint64_t commits = 0, shown = 0, dropped = 0, busy_retries = 0;
  uint64_t fence_waits = 0;                      // frames that came with something pending
  uint64_t fence_timeouts = 0, fence_errors = 0; // frames
  uint64_t fence_wait_ns = 0;                    // from submit() to the end of the fences, all frames
  uint64_t in_fences = 0;                        // commits that carried one
  uint64_t in_fence_refused = 0;                 // 1: the driver refused it, commits carry none any more
  uint64_t suspensions = 0;                      // times that frames were dropped for want of a display
};

struct WaitingFrame {
  using Clock = std::chrono::steady_clock; // CLOCK_MONOTONIC, as the kernel's flip times

  std::shared_ptr<DisplayFrame> frame;
  std::unique_ptr<FenceWait> fences; // null: settled
  Clock::time_point since, deadline;
  bool newest_wins = false;
  bool waited = false;  // something was pending when it came
  bool bad = false;     // its fences ended badly, and it is shown nevertheless
  bool pending = false; // the same, and one may still be pending

  // `ended` is called, on any thread, when fences end that are pending now.
  static WaitingFrame of(std::shared_ptr<DisplayFrame> frame, bool newest_wins, std::function<void()> ended);

  bool settled() const { return !fences && !frame->fence_error; }
  bool ready() const; // settled, or about to be
};

// Not thread safe. What goes is moved into a list of the caller's, who lets go of it, or tells of it, without locks.
class FrameQueue {
public:
  using Clock = WaitingFrame::Clock;
  using Gone = std::vector<WaitingFrame>;
  struct Ended {
    Gone frames;
    std::vector<std::unique_ptr<FenceWait>> fences;
    std::vector<std::pair<std::shared_ptr<DisplayFrame>, FenceVerdict>> bad;
    bool empty() const { return frames.empty() && fences.empty(); }
  };

  FrameQueue(size_t limit, CommitCounters &counters) : limit_(limit), counters_(counters) {
    frames_.reserve(limit + 2);
  }

  bool empty() const { return frames_.empty(); }
  size_t size() const { return frames_.size(); }
  bool nextIsSettled() const { return !frames_.empty() && frames_.front().settled(); }
  bool lastIsSettled() const { return frames_.empty() || frames_.back().settled(); }
  // For another frame that is to be shown after those that are here.
  bool hasPlace() const { return frames_.empty() || (frames_.size() < limit_ && !frames_.front().ready()); }
  Clock::time_point lastDeadline() const; // of the fences; now where there are none

  void add(WaitingFrame waiting);
  // More than may wait, and those that a newer one overtakes.
  void makeRoom(Gone &gone);
  WaitingFrame takeNext();
  void putBack(WaitingFrame waiting) { frames_.insert(frames_.begin(), std::move(waiting)); }

  void dropNext(Gone &gone) { drop(0, gone); }
  void dropAll(Gone &gone);
  void dropAllButLast(Gone &gone);
  void dropOvertaken(Gone &gone);
  void swap(Gone &all) { frames_.swap(all); } // uncounted

  // Frames whose fences are over become ready, or what their policy says. `overrules`: whether the kernel can be kept
  // from waiting for that state's fences. An error: what ends the stream.
  std::optional<Error> settle(Ended &ended, const std::function<bool(const ScreenState &)> &overrules);

private:
  void drop(size_t index, Gone &gone);
  FenceVerdict judge(WaitingFrame &waiting, const Result<FenceResult> &result,
                     const std::function<bool(const ScreenState &)> &overrules);

  const size_t limit_; // at least 1
  CommitCounters &counters_;
  std::vector<WaitingFrame> frames_;
  std::optional<ScreenState> owed_; // what dropped frames would have done with mode and planes, for the next one
};

} // namespace gstzc
