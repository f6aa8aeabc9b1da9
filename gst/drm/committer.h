// SPDX-License-Identifier: LGPL-2.1-or-later
// The thread that brings frames to the screen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gst/drm/screen_state.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/fence_policy.h"

namespace gstzc {

// One frame on its way to the screen and off it again.
struct DisplayFrame {
  ScreenState state; // the plane of the frame itself comes first
  // Let go when the next frame has taken its place on screen: the frame's memory, and the black picture below it, which
  // only the first commit of a plan speaks of.
  std::shared_ptr<void> keep;
  std::shared_ptr<Framebuffer> background;
  uint64_t pts = 0;  // ns, or GST_CLOCK_TIME_NONE
  BufferId identity; // of the first plane's memory

  // What has to end before it may be shown. `in_fence`: the sync_files among it as one, which the kernel is told of
  // when it has signalled; none where nothing of that kind was pending.
  std::vector<Fence> fences;
  UniqueFd in_fence;
  std::optional<Error> fence_error; // it could not be found out; judged as a fence that failed
  std::chrono::milliseconds fence_timeout{kFenceTimeoutDefault}; // from submit()
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
};

// The kernel's side of a commit; a test puts another one in its place.
class CommitPort {
public:
  virtual ~CommitPort() = default;
  // Non-blocking. `in_fence`: a borrowed sync_file for the state's first plane, which then waits for nothing else; -1:
  // the kernel waits for what the dma-bufs of the planes have pending. 0 and a descriptor that becomes readable when
  // the frame is on screen, or errno.
  virtual int commit(const ScreenState &state, int in_fence, UniqueFd *flipped) = 0;
  // When that was, CLOCK_MONOTONIC ns. Below 0: it ended in an error, as a negative errno.
  virtual int64_t flipTime(int flipped) = 0;
  // Whether the state's first plane has a property for a fence at all.
  virtual bool takesInFence(const ScreenState &state) const = 0;
  // A sync_file that has signalled, borrowed; -1: there is none to be had.
  virtual int signalledFence() const = 0;
  // Tries to become master again after another process took the display. True: commits may work again.
  virtual bool regain() { return false; }
};

// Brings frames to the screen in order: one is on it, one is committed and waits for its flip, the others wait in user
// space, for their fences first and then for their turn. A frame is let go when the flip that replaced it has happened.
// Thread safe.
//
// A fence that is pending is never handed to the kernel: a commit that waits for one cannot be taken back, and keeps
// the output, stop() and whoever wants the screen next waiting for as long as it pleases. So the frames wait here, with
// a deadline, and each commit carries a fence that has signalled: the frame's own, or else any. That also keeps the
// kernel from waiting for fences that somebody adds to the dma-buf later.
class Committer {
public:
  struct Limits {
    std::chrono::milliseconds flip{5000};  // from a commit to its flip
    std::chrono::milliseconds busy{10000}; // how long the kernel may go on saying EBUSY to one frame
    std::chrono::milliseconds retry{2};    // between attempts while it does
    size_t queue = 3;                      // frames that wait in user space, at least 1
    // While another process has the display (EACCES) frames are dropped, and it is asked for again this often; 0: an
    // error instead.
    std::chrono::milliseconds regain{0};
  };
  // Called on the committer's thread, without locks.
  struct Events {
    // `flip_ns`: CLOCK_MONOTONIC, never before the commit
    std::function<void(const DisplayFrame &, uint64_t flip_ns)> flipped;
    std::function<void(const Error &)> failed; // once; afterwards every submit() fails
    // A frame's fences ended badly and it is dropped or shown nevertheless; after Fail comes `failed`.
    std::function<void(const DisplayFrame &, const FenceVerdict &)> bad_fence;
    std::function<void(const std::string &)> note; // something the user may want to know once
  };
  struct Counters {
    uint64_t commits = 0, shown = 0, dropped = 0, busy_retries = 0;
    uint64_t fence_waits = 0;                      // frames that came with something pending
    uint64_t fence_timeouts = 0, fence_errors = 0; // frames
    uint64_t fence_wait_ns = 0;                    // from submit() to the end of the fences, all frames
    uint64_t in_fences = 0;                        // commits that carried one
    uint64_t in_fence_refused = 0;                 // 1: the driver refused it, commits carry none any more
    uint64_t suspensions = 0;                      // times that frames were dropped for want of a display
  };
  enum class Submitted { Accepted, Interrupted };

  Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events);
  ~Committer(); // lets all frames go: switch the screen to something else before
  Committer(const Committer &) = delete;
  Committer &operator=(const Committer &) = delete;

  // `wait`: the frame is shown after those before it; blocks while the queue is full, or while the first frame in it is
  // ready and only the display keeps it waiting. Else it never blocks: as soon as the frame is ready those that wait
  // before it are dropped, ready or not, and where the queue is full of frames that are not, it takes the place of the
  // last one, so that the first one gets its chance. Errors: as failed before; a fence that cannot be waited for.
  Result<Submitted> submit(std::shared_ptr<DisplayFrame> frame, bool wait);
  // Until each frame submitted is on screen or given up. Interrupted by interrupt().
  Result<Submitted> drain();
  // Drops what waits in user space.
  void flush();
  // While set, frames are dropped as they come, except for the last one, which is committed when it ends: with all that
  // the screen is to show, since nobody knows what became of it meanwhile.
  void suspend(bool on);
  // While set, nothing waits: submit(…, true) and drain() return Interrupted.
  void interrupt(bool on);
  // Ends the thread, without waiting for fences or flips. The frames on screen and in flight stay held.
  void stop();

  Counters counters() const;
  // Of the last frame that came on screen, CLOCK_MONOTONIC ns; 0: none did.
  uint64_t lastFlip() const;

private:
  using Clock = std::chrono::steady_clock; // CLOCK_MONOTONIC, as the kernel's flip times
  struct Waiting {
    std::shared_ptr<DisplayFrame> frame;
    std::unique_ptr<FenceWait> fences; // null: settled
    Clock::time_point since, deadline;
    bool newest_wins = false;
    bool waited = false;  // something was pending when it came
    bool bad = false;     // its fences ended badly, and it is shown nevertheless
    bool pending = false; // the same, and one may still be pending

    bool settled() const { return !fences && !frame->fence_error; }
    bool ready() const; // settled, or about to be
  };
  // What must be let go, or told, without the lock.
  struct Aside {
    std::vector<Waiting> frames;
    std::vector<std::unique_ptr<FenceWait>> fences;
    std::vector<std::pair<std::shared_ptr<DisplayFrame>, FenceVerdict>> bad;
  };
  void run();
  void settle(std::unique_lock<std::mutex> &lock);
  FenceVerdict judge(Waiting &waiting, const Result<FenceResult> &result);
  void commitFirst(std::unique_lock<std::mutex> &lock);
  void finishFlip(std::unique_lock<std::mutex> &lock);
  void loseMaster(std::unique_lock<std::mutex> &lock);
  void regainMaster(std::unique_lock<std::mutex> &lock);
  void fail(std::unique_lock<std::mutex> &lock, Error error);
  void wake();

  // With the lock held; `gone` is let go without it.
  bool hasPlace() const;
  bool suspended() const { return suspended_ || lost_; }
  void dropSuspended(std::vector<Waiting> &gone);
  void drop(size_t index, std::vector<Waiting> &gone);
  void dropOvertaken(std::vector<Waiting> &gone);
  bool overrulesKernel(const ScreenState &state) const;
  Clock::time_point lastFenceDeadline() const;

  const std::unique_ptr<CommitPort> port_;
  const Limits limits_;
  const Events events_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<DisplayFrame> shown_, in_flight_;
  std::deque<Waiting> queue_;
  std::optional<ScreenState> whole_; // what the last modeset said besides the frame
  bool suspended_ = false, lost_ = false;
  bool restore_due_ = false;        // the next commit has to say everything
  std::optional<ScreenState> owed_; // what dropped frames would have done with mode and planes, for the next one
  bool in_hand_ = false;            // the thread has frames in hand that were in the queue
  bool flushed_ = false;            // while it had
  bool refused_ = false;            // the driver does not take IN_FENCE_FD
  UniqueFd flip_;
  Clock::time_point committed_at_, flip_deadline_, retry_at_;
  std::optional<Clock::time_point> busy_since_;
  std::optional<Error> failed_;
  bool stopping_ = false, interrupted_ = false;
  uint64_t last_flip_ns_ = 0;
  Counters counters_;
  UniqueFd wake_;
  std::thread thread_;
};

} // namespace gstzc
