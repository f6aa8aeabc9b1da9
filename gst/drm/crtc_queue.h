// SPDX-License-Identifier: LGPL-2.1-or-later
// What is committed on one CRTC, by however many sinks: one commit at a time, with the next frame of each that has one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gst/drm/commit_port.h"
#include "gst/drm/frame_queue.h"

namespace gstzc {

struct CommitLimits {
  std::chrono::milliseconds flip{5000};  // from a commit to its flip
  std::chrono::milliseconds look{250};   // from a commit to when its flip is looked for that nobody waits for
  std::chrono::milliseconds busy{10000}; // how long the kernel may go on saying EBUSY to one frame
  std::chrono::milliseconds retry{2};    // between attempts while it does
  size_t queue = 3;                      // frames that wait in user space, at least 1
  // While another process has the display (EACCES) frames are dropped, and it is asked for again this often; 0: an
  // error instead.
  std::chrono::milliseconds regain{0};
};

// Called without locks, on the queue's thread or on one that submits.
struct CommitEvents {
  // `flip_ns`: CLOCK_MONOTONIC, never before the commit
  std::function<void(const DisplayFrame &, uint64_t flip_ns)> flipped;
  std::function<void(const Error &)> failed; // once; afterwards every submit() fails
  // A frame's fences ended badly and it is dropped or shown nevertheless; after Fail comes `failed`.
  std::function<void(const DisplayFrame &, const FenceVerdict &)> bad_fence;
  std::function<void(const std::string &)> note; // something the user may want to know once
  // Flips are told when they happen. Else a flip that nobody waits for may be noticed when the next frame comes, which
  // saves a wake-up of a thread for each.
  bool prompt = true;
};

// A thread and a lock for all. Sinks come and go through Committer.
//
// The thread sleeps as long as frames come in time: each is committed by whoever brings it, who finds that the flip
// before has happened. A frame that is there before that flip goes with the one that comes next, or is committed by the
// thread in the middle of the refresh that it has time for. Who has to wait for a flip does so at the descriptor and
// does what is due then; the thread wakes up for flips where several wait, where it is not known when they come, and
// where no frame has come for a while. A stream of which that is usual (its producer may need the buffer that the flip
// gives back) has its flips watched from then on.
class CrtcQueue {
public:
  CrtcQueue(std::unique_ptr<CommitPort> port, CommitLimits limits); // `limits`: but for `queue`
  ~CrtcQueue();
  CrtcQueue(const CrtcQueue &) = delete;
  CrtcQueue &operator=(const CrtcQueue &) = delete;

private:
  friend class Committer;
  using Clock = FrameQueue::Clock;
  using Gone = FrameQueue::Gone;
  using Lock = std::unique_lock<std::mutex>;

  // What the queue has of one sink; all under its lock.
  struct Lane {
    Lane(size_t most, CommitEvents told) : waiting(most, counters), events(std::move(told)) { spare.reserve(most + 2); }
    CommitCounters counters;
    FrameQueue waiting;
    const CommitEvents events;
    std::shared_ptr<DisplayFrame> shown, in_flight;
    std::optional<ScreenState> whole; // what the last modeset said besides the frame
    bool suspended = false, interrupted = false, stopped = false;
    unsigned in_hand = 0; // threads that have frames in hand that were waiting
    bool flushed = false; // while one had
    std::optional<Error> failed;
    uint64_t last_flip_ns = 0;
    Gone spare; // always empty: memory for what is dropped
  };
  struct Taken {
    Lane *lane = nullptr;
    WaitingFrame waiting;
  };

  void run();
  void sleep(Lock &lock);
  bool settle(Lock &lock, Lane &lane);
  void commit(Lock &lock);
  void take();
  const ScreenState &stateOfTaken();
  void accepted(UniqueFd flip, Clock::time_point at, bool fenced);
  void refused(Lock &lock, int rc, bool hopeless);
  void finishFlip(Lock &lock);
  template <typename Over> bool wait(Lock &lock, Clock::time_point deadline, const Over &over) {
    while (!over()) {
      if (Clock::now() >= deadline) return false;
      if (mayLead()) {
        lead(lock, deadline);
      } else if (in_flight_ && !watched_) {
        watchFlip(lock);
      } else {
        rearm();
        changed_.wait_until(lock, deadline);
      }
    }
    return true;
  }
  void lead(Lock &lock, Clock::time_point deadline);
  void advance(Lock &lock);
  void arm(Clock::time_point until);
  void rearm();
  void tell(); // that something changed; with or without the lock, after the change
  bool seesFlip();
  void watchFlip(Lock &lock);
  void loseMaster(Lock &lock);
  void regainMaster(Lock &lock);
  void fail(Lock &lock, Lane &lane, const Error &error);
  void failFlip(Lock &lock);
  void failAll(Lock &lock, const Error &error);
  void note(Lock &lock, const std::string &text);
  void wake();

  // With the lock held.
  bool isSuspended(const Lane &lane) const { return lane.suspended || lost_; }
  bool isNext(const Lane &lane) const;
  bool isAwaited() const;
  bool mayCommit() const; // but for the time of the next attempt
  bool hasNext() const;
  bool mayLead() const; // whether another thread may look for the flip, and do what is due then
  bool someoneLooks() const;
  Clock::time_point lookAt() const;
  Clock::time_point nextLook() const;
  std::optional<Clock::time_point> timeForNext(Clock::time_point at) const;
  int inFence(const WaitingFrame &waiting) const;

  const std::unique_ptr<CommitPort> port_;
  const CommitLimits limits_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane *> lanes_;
  std::vector<Lane *> flight_;     // whose frames are in flight
  bool in_flight_ = false;         // also where their sinks have gone
  bool lost_ = false;              // another process is master
  bool restore_due_ = false;       // the next commit has to say everything
  bool refuses_fences_ = false;    // the driver does not take IN_FENCE_FD
  bool apart_ = false;             // the kernel does not take what the sinks want at once: by turns
  unsigned hands_ = 0, calls_ = 0; // threads that have frames in hand; that call a sink's events
  UniqueFd flip_;
  std::optional<int64_t> flip_time_; // of the last event
  Clock::time_point committed_at_, flip_deadline_, retry_at_;
  uint64_t last_flip_ns_ = 0; // CLOCK_MONOTONIC; 0: not known
  // Until when the next frame does not have to be committed, since it would not come on screen sooner; nothing: it is
  // not known.
  std::optional<Clock::time_point> commit_by_;
  std::optional<Clock::time_point> busy_since_;
  bool stopping_ = false;
  std::optional<Error> broken_; // could not be set up

  std::vector<Taken> taken_; // of whoever commits
  Gone spare_;               // of the same, as a lane's
  std::vector<const ScreenState *> next_, rest_;
  ScreenState merged_;

  bool sleeping_ = false;                              // the thread looks at everything anew before it does so again
  Clock::time_point armed_ = Clock::time_point::max(); // its timer; max(): it is off
  bool flipped_ = false;                               // what is in flight
  bool watched_ = false;                               // its flip ends the thread's sleep, or that of who leads
  bool prompt_ = false;                                // the flips of this stream are watched
  std::atomic<bool> leading_ = false; // a thread that waits for the flip does the queue's work meanwhile
  bool first_ = true;                 // nothing has been committed yet: what follows may be a preroll
  bool disturbed_ = false;            // since the last commit something kept frames from coming
  uint64_t flip_serial_ = 0;          // of what is in flight, in the epoll set
  UniqueFd wake_, lead_wake_, timer_, epoll_;
  int events_ = -1; // the port's descriptor where its events tell of flips
  std::vector<std::shared_ptr<DisplayFrame>> replaced_;
  std::thread thread_;
};

} // namespace gstzc
