// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/committer.h"

#include <algorithm>
#include <cerrno>

namespace gstzc {

Committer::Committer(std::shared_ptr<CrtcQueue> queue, size_t most_waiting, Events events)
    : queue_(std::move(queue)), lane_(std::make_unique<CrtcQueue::Lane>(most_waiting, std::move(events))) {
  const std::lock_guard lock(queue_->mutex_);
  lane_->failed = queue_->broken_;
  lane_->counters.in_fence_refused = queue_->refuses_fences_;
  queue_->lanes_.push_back(lane_.get());
}

Committer::Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events)
    : Committer(std::make_shared<CrtcQueue>(std::move(port), limits), limits.queue, std::move(events)) {}

Committer::~Committer() {
  stop();
  Lock lock(queue_->mutex_);
  queue_->changed_.wait(lock, [this] { return queue_->hands_ == 0 && queue_->calls_ == 0; });
  std::erase(queue_->lanes_, lane_.get());
  std::erase(queue_->flight_, lane_.get());
}

bool Committer::hasPlace() const {
  if (queue_->isSuspended(*lane_)) return true;
  return lane_->in_hand == 0 && lane_->waiting.hasPlace();
}

Result<Committer::Submitted> Committer::submit(std::shared_ptr<DisplayFrame> frame, bool wait) {
  CrtcQueue &queue = *queue_;
  CrtcQueue::Lane &lane = *lane_;
  // without a lock: the fences may go at any time, also under ours
  WaitingFrame waiting = WaitingFrame::of(std::move(frame), !wait, [&queue] { queue.wake(); });

  CrtcQueue::Gone gone; // let go without the lock
  bool rouse = false;
  {
    Lock lock(queue.mutex_);
    gone.swap(lane.spare);
    if (queue.mayLead() && queue.seesFlip()) {
      queue.finishFlip(lock);
      if (wait) queue.advance(lock); // what came before this one; else it may be dropped for it
    }
    if (wait) {
      // the fences, one flip and one stubborn EBUSY are the most a place can take to become free
      const auto limit = [&] { return lane.waiting.lastDeadline() + queue.limits_.flip + queue.limits_.busy; };
      const auto over = [&] { return hasPlace() || lane.failed || lane.interrupted || lane.stopped; };
      if (!over() && !queue.wait(lock, limit(), over))
        return Error{"the display took no frame", ETIMEDOUT, "Look for messages of its driver in dmesg"};
      if (lane.interrupted) return Submitted::Interrupted;
    }
    if (lane.failed) return *lane.failed;
    if (lane.stopped) return Submitted::Interrupted;
    lane.waiting.add(std::move(waiting));
    if (queue.isSuspended(lane))
      lane.waiting.dropAllButLast(gone);
    else if (!wait)
      lane.waiting.makeRoom(gone);
    const bool settled = lane.waiting.lastIsSettled();
    queue.advance(lock);
    if (queue.in_flight_ && !queue.watched_ && queue.isAwaited()) queue.watchFlip(lock);
    queue.rearm();
    if (gone.empty()) lane.spare.swap(gone);
    rouse = queue.sleeping_ && !settled;
  }
  if (rouse) queue.wake();
  if (!gone.empty()) {
    gone.clear();
    const std::lock_guard lock(queue.mutex_);
    lane.spare.swap(gone);
  }
  return Submitted::Accepted;
}

void Committer::suspend(bool on) {
  CrtcQueue::Gone gone;
  {
    const std::lock_guard lock(queue_->mutex_);
    if (lane_->suspended == on) return;
    lane_->suspended = on;
    queue_->disturbed_ = true;
    if (on) {
      ++lane_->counters.suspensions;
      lane_->waiting.dropAllButLast(gone);
    } else {
      queue_->restore_due_ = true;
    }
  }
  queue_->tell();
  queue_->wake();
}

Result<Committer::Submitted> Committer::drain() {
  CrtcQueue::Lane &lane = *lane_;
  Lock lock(queue_->mutex_);
  const auto flips = static_cast<int>(lane.waiting.size()) + 2;
  const auto deadline = lane.waiting.lastDeadline() + flips * queue_->limits_.flip + queue_->limits_.busy;
  const auto empty = [&] { return lane.waiting.empty() && lane.in_hand == 0 && !lane.in_flight; };
  const bool done = queue_->wait(lock, deadline, [&] {
    return empty() || queue_->isSuspended(lane) || lane.failed || lane.interrupted || lane.stopped;
  });
  if (lane.failed) return *lane.failed;
  if (queue_->isSuspended(lane) && !lane.interrupted) return Submitted::Accepted; // given up: nobody sees it
  if (!done)
    return Error{"the last frame did not reach the display", ETIMEDOUT, "Look for messages of its driver in dmesg"};
  return empty() ? Submitted::Accepted : Submitted::Interrupted;
}

void Committer::flush() {
  CrtcQueue::Gone gone;
  {
    const std::lock_guard lock(queue_->mutex_);
    lane_->waiting.dropAll(gone);
    lane_->flushed = lane_->in_hand > 0;
    queue_->disturbed_ = true;
    if (queue_->lanes_.size() == 1) queue_->busy_since_.reset(); // that frame is gone
  }
  queue_->tell();
}

void Committer::interrupt(bool on) {
  {
    const std::lock_guard lock(queue_->mutex_);
    lane_->interrupted = on;
    queue_->disturbed_ = true;
  }
  queue_->tell();
}

void Committer::stop() {
  CrtcQueue::Gone gone;
  Lock lock(queue_->mutex_);
  lane_->stopped = true;
  queue_->tell();
  // what is being committed, which does not block, or told
  queue_->changed_.wait(lock, [this] { return lane_->in_hand == 0 && queue_->calls_ == 0; });
  lane_->waiting.swap(gone);
  lock.unlock(); // before `gone` goes
}

Committer::Counters Committer::counters() const {
  const std::lock_guard lock(queue_->mutex_);
  return lane_->counters;
}

uint64_t Committer::lastFlip() const {
  const std::lock_guard lock(queue_->mutex_);
  return lane_->last_flip_ns;
}

} // namespace gstzc
