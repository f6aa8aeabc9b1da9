// SPDX-License-Identifier: LGPL-2.1-or-later
// Brings the frames of one sink to the screen.
#pragma once

#include <memory>

#include "gst/drm/crtc_queue.h"

namespace gstzc {

// In order: one frame is on the screen, one is committed and waits for its flip, the others wait in user space, for
// their fences first and then for their turn. A frame is let go when the flip that replaced it has been seen. Thread
// safe.
//
// A frame that is ready when it comes, with nothing in flight, is committed by the thread that submits it: the queue's
// own need not wake up for it (when it does: CrtcQueue).
//
// Sinks on one CRTC share its queue: a commit carries the next frame of each that has one ready. Neither waits for
// the other's fences.
//
// A fence that is pending is never handed to the kernel: a commit that waits for one cannot be taken back, and keeps
// the output, stop() and whoever wants the screen next waiting for as long as it pleases. So the frames wait here, with
// a deadline, and each commit carries a fence that has signalled: the frame's own, or else any. That also keeps the
// kernel from waiting for fences that somebody adds to the dma-buf later.
class Committer {
public:
  using Limits = CommitLimits;
  using Events = CommitEvents;
  using Counters = CommitCounters;
  enum class Submitted { Accepted, Interrupted };

  Committer(std::shared_ptr<CrtcQueue> queue, size_t most_waiting, Events events);
  Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events); // with a queue of its own
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
  // No further commits and events, without waiting for fences or flips. The frames on screen and in flight stay held.
  void stop();

  Counters counters() const;
  // Of the last frame that came on screen, CLOCK_MONOTONIC ns; 0: none did.
  uint64_t lastFlip() const;

private:
  using Lock = CrtcQueue::Lock;
  using Clock = CrtcQueue::Clock;
  bool hasPlace() const;

  const std::shared_ptr<CrtcQueue> queue_;
  const std::unique_ptr<CrtcQueue::Lane> lane_;
};

} // namespace gstzc
