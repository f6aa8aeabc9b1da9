// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/committer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/eventfd.h>

namespace gstzc {

using namespace std::chrono_literals;

Committer::Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events)
    : port_(std::move(port)), limits_(limits), events_(std::move(events)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

Committer::~Committer() { stop(); }

void Committer::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wake_.get(), &one, sizeof one); // full means it is readable already
}

bool Committer::Waiting::ready() const {
  if (frame->fence_error) return false;
  if (!fences) return true;
  const auto result = fences->result();
  return result && result->outcome == FenceOutcome::Signalled;
}

bool Committer::hasPlace() const {
  if (suspended()) return true;
  if (in_hand_) return false;
  return queue_.empty() || (queue_.size() < limits_.queue && !queue_.front().ready());
}

Committer::Clock::time_point Committer::lastFenceDeadline() const {
  auto last = Clock::now();
  for (const Waiting &waiting : queue_)
    if (!waiting.settled()) last = std::max(last, waiting.deadline);
  return last;
}

Result<Committer::Submitted> Committer::submit(std::shared_ptr<DisplayFrame> frame, bool wait) {
  Waiting waiting;
  waiting.since = Clock::now();
  waiting.deadline = waiting.since + frame->fence_timeout;
  waiting.newest_wins = !wait;
  if (!frame->fence_error && !frame->fences.empty()) {
    // without a lock: the fences may go at any time, also under ours
    auto fences = FenceWait::start(std::move(frame->fences), waiting.deadline, [this] { wake(); });
    if (fences)
      waiting.fences = fences.take();
    else
      frame->fence_error = fences.error();
  }
  waiting.waited = waiting.fences && !waiting.fences->result();
  waiting.frame = std::move(frame);

  std::vector<Waiting> gone; // let go without the lock
  {
    std::unique_lock lock(mutex_);
    if (wait) {
      // the fences, one flip and one stubborn EBUSY are the most a place can take to become free
      const auto deadline = lastFenceDeadline() + limits_.flip + limits_.busy;
      const bool free =
          changed_.wait_until(lock, deadline, [&] { return hasPlace() || failed_ || interrupted_ || stopping_; });
      if (!free) return Error{"the display took no frame", ETIMEDOUT, "Look for messages of its driver in dmesg"};
      if (interrupted_) return Submitted::Interrupted;
    }
    if (failed_) return *failed_;
    if (stopping_) return Submitted::Interrupted;
    if (owed_) {
      inheritState(waiting.frame->state, *owed_);
      owed_.reset();
    }
    counters_.fence_waits += waiting.waited;
    queue_.push_back(std::move(waiting));
    if (suspended()) {
      dropSuspended(gone);
    } else if (!wait) {
      dropOvertaken(gone);
      const size_t most = std::max<size_t>(limits_.queue, 1);
      // never the first one: its fence is the next to signal
      while (queue_.size() > most) drop(queue_.size() > 2 ? queue_.size() - 2 : 1, gone);
    }
  }
  wake();
  return Submitted::Accepted;
}

void Committer::drop(size_t index, std::vector<Waiting> &gone) {
  Waiting waiting = std::move(queue_[index]);
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(index));
  ++counters_.dropped;
  ScreenState &state = waiting.frame->state;
  if (index < queue_.size()) {
    inheritState(queue_[index].frame->state, state);
  } else {
    if (owed_) inheritState(state, *owed_);
    owed_ = state;
    if (!owed_->planes.empty()) owed_->planes.erase(owed_->planes.begin()); // the frame itself
  }
  gone.push_back(std::move(waiting));
}

void Committer::dropOvertaken(std::vector<Waiting> &gone) {
  for (size_t i = queue_.size(); i-- > 1;)
    if (queue_[i].newest_wins && queue_[i].ready()) {
      while (i-- > 0) drop(0, gone);
      return;
    }
}

void Committer::dropSuspended(std::vector<Waiting> &gone) {
  while (queue_.size() > 1) drop(0, gone);
}

void Committer::suspend(bool on) {
  std::vector<Waiting> gone;
  {
    const std::lock_guard lock(mutex_);
    if (suspended_ == on) return;
    suspended_ = on;
    if (on) {
      ++counters_.suspensions;
      dropSuspended(gone);
    } else {
      restore_due_ = true;
    }
  }
  changed_.notify_all();
  wake();
}

Result<Committer::Submitted> Committer::drain() {
  std::unique_lock lock(mutex_);
  const auto flips = static_cast<int>(queue_.size()) + 2;
  const auto deadline = lastFenceDeadline() + flips * limits_.flip + limits_.busy;
  const auto empty = [&] { return queue_.empty() && !in_hand_ && !in_flight_; };
  const bool done = changed_.wait_until(lock, deadline,
                                        [&] { return empty() || suspended() || failed_ || interrupted_ || stopping_; });
  if (failed_) return *failed_;
  if (suspended() && !interrupted_) return Submitted::Accepted; // given up: nobody sees it
  if (!done)
    return Error{"the last frame did not reach the display", ETIMEDOUT, "Look for messages of its driver in dmesg"};
  return empty() ? Submitted::Accepted : Submitted::Interrupted;
}

void Committer::flush() {
  std::vector<Waiting> gone;
  {
    const std::lock_guard lock(mutex_);
    while (!queue_.empty()) drop(0, gone);
    flushed_ = in_hand_;
    busy_since_.reset(); // that frame is gone
  }
  changed_.notify_all();
}

void Committer::interrupt(bool on) {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = on;
  }
  changed_.notify_all();
}

void Committer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  wake();
  if (thread_.joinable()) thread_.join();
  std::deque<Waiting> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(queue_);
}

Committer::Counters Committer::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

uint64_t Committer::lastFlip() const {
  const std::lock_guard lock(mutex_);
  return last_flip_ns_;
}

void Committer::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    settle(lock);
    if (stopping_) break;
    const auto now = Clock::now();
    if (in_flight_ && now >= flip_deadline_) {
      fail(lock, Error{"no flip came within " + std::to_string(limits_.flip.count() / 1000) + " s of a commit",
                       ETIMEDOUT, "Look for messages of the display driver in dmesg"});
      continue;
    }
    if (lost_ && !suspended_ && now >= retry_at_) {
      regainMaster(lock);
      continue;
    }
    const bool next = !in_flight_ && !queue_.empty() && queue_.front().settled() && !failed_ && !suspended();
    if (next && now >= retry_at_) {
      commitFirst(lock);
      continue;
    }

    int timeout = -1;
    const auto until = [&](Clock::time_point t) {
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(t - now).count();
      timeout = static_cast<int>(std::clamp<int64_t>(ms, 0, 60000));
    };
    if (in_flight_)
      until(flip_deadline_);
    else if (next || (lost_ && !suspended_))
      until(retry_at_);
    pollfd fds[2] = {{wake_.get(), POLLIN, 0}, {in_flight_ ? flip_.get() : -1, POLLIN, 0}};
    lock.unlock();
    poll(fds, 2, timeout);
    if (fds[0].revents != 0) {
      uint64_t count;
      [[maybe_unused]] const auto n = read(wake_.get(), &count, sizeof count);
    }
    lock.lock();
    if (fds[1].revents != 0 && in_flight_ && !stopping_) finishFlip(lock);
  }
}

bool Committer::overrulesKernel(const ScreenState &state) const {
  return !refused_ && port_->takesInFence(state) && port_->signalledFence() >= 0;
}

FenceVerdict Committer::judge(Waiting &waiting, const Result<FenceResult> &result) {
  DisplayFrame &frame = *waiting.frame;
  const bool timed_out = result && result->outcome == FenceOutcome::TimedOut;
  FenceVerdict verdict = result ? judgeFence(*result, frame.on_fence_error, frame.fence_timeout)
                                : judgeFence(result.error(), frame.on_fence_error);
  const bool pending = timed_out || !result; // for all that is known
  if (verdict.fate == FrameFate::Pass && pending && !overrulesKernel(frame.state))
    verdict = {FrameFate::Drop,
               {verdict.error.what, verdict.error.code,
                "It is dropped: this display would wait for its fences, as it takes no IN_FENCE_FD"}};
  waiting.bad = verdict.fate != FrameFate::Use;
  waiting.pending = pending;
  if (timed_out)
    ++counters_.fence_timeouts;
  else if (waiting.bad)
    ++counters_.fence_errors;
  const auto since = static_cast<uint64_t>(waiting.since.time_since_epoch() / 1ns);
  if (waiting.waited && result && result->time_ns > since) counters_.fence_wait_ns += result->time_ns - since;
  return verdict;
}

// Frames whose fences are over become ready, or what their policy says.
void Committer::settle(std::unique_lock<std::mutex> &lock) {
  if (failed_) return;
  Aside aside;
  std::optional<Error> error;
  for (size_t i = 0; i < queue_.size() && !error;) {
    Waiting &waiting = queue_[i];
    std::optional<Result<FenceResult>> result;
    if (waiting.frame->fence_error)
      result = *waiting.frame->fence_error;
    else if (waiting.fences)
      if (const auto over = waiting.fences->result()) result = *over;
    if (!result) {
      ++i;
      continue;
    }
    const FenceVerdict verdict = judge(waiting, *result);
    aside.fences.push_back(std::move(waiting.fences));
    waiting.frame->fence_error.reset();
    if (verdict.fate == FrameFate::Fail) error = verdict.error;
    if (verdict.fate != FrameFate::Use) aside.bad.emplace_back(waiting.frame, verdict);
    if (verdict.fate == FrameFate::Drop || verdict.fate == FrameFate::Fail)
      drop(i, aside.frames);
    else
      ++i;
  }
  dropOvertaken(aside.frames);
  if (aside.fences.empty() && aside.frames.empty()) return;
  in_hand_ = true;
  lock.unlock();
  if (events_.bad_fence)
    for (const auto &[frame, verdict] : aside.bad) events_.bad_fence(*frame, verdict);
  aside = {};
  lock.lock();
  // after the report, so that whoever waits for the end of a frame has it
  in_hand_ = false;
  if (error) fail(lock, *error);
  changed_.notify_all();
}

void Committer::commitFirst(std::unique_lock<std::mutex> &lock) {
  Waiting first = std::move(queue_.front());
  queue_.pop_front();
  in_hand_ = true;
  flushed_ = false;
  if (restore_due_ && whole_) inheritState(first.frame->state, *whole_);
  const bool refused_before = refused_;
  std::vector<Waiting> gone;
  UniqueFd flip;
  lock.unlock();

  const DisplayFrame &frame = *first.frame;
  int in_fence = -1;
  if (!refused_before && port_->takesInFence(frame.state))
    in_fence = frame.in_fence.isValid() && !first.bad ? frame.in_fence.get() : port_->signalledFence();
  const auto committed_at = Clock::now();
  // without a fence of ours the kernel would wait for one that may never come
  bool hopeless = first.pending && in_fence < 0;
  int rc = hopeless ? EPERM : port_->commit(frame.state, in_fence, &flip);
  int refusal = 0;
  if (in_fence >= 0 && (rc == EPERM || rc == EINVAL)) {
    const int with = rc;
    hopeless = first.pending;
    if (!hopeless) rc = port_->commit(frame.state, -1, &flip);
    if (hopeless || rc == 0) refusal = with;
  }

  lock.lock();
  in_hand_ = false;
  const auto now = Clock::now();
  if (refusal != 0) {
    refused_ = true;
    counters_.in_fence_refused = 1;
  }
  if (rc == 0) {
    ++counters_.commits;
    counters_.in_fences += in_fence >= 0 && refusal == 0;
    busy_since_.reset();
    restore_due_ = false;
    if (first.frame->state.mode) {
      whole_ = first.frame->state;
      if (!whole_->planes.empty()) whole_->planes.erase(whole_->planes.begin()); // the frame itself
    }
    in_flight_ = std::move(first.frame);
    in_flight_->in_fence.reset();
    flip_ = std::move(flip);
    committed_at_ = committed_at;
    flip_deadline_ = now + limits_.flip;
  } else {
    queue_.push_front(std::move(first));
    if (hopeless || flushed_)
      drop(0, gone);
    else
      dropOvertaken(gone);
    // Somebody else's commit on this CRTC is under way, e.g. a writeback job of the application that lent us its file:
    // nothing tells us when it ends, so look again soon.
    if (!busy_since_) busy_since_ = now;
    if (hopeless || (rc == EBUSY && flushed_)) {
      busy_since_.reset();
    } else if (rc == EBUSY && now - *busy_since_ < limits_.busy) {
      ++counters_.busy_retries;
      retry_at_ = now + limits_.retry;
    } else if (rc == EBUSY) {
      fail(lock, Error{"another user of this device kept the output busy for " +
                           std::to_string(limits_.busy.count() / 1000) + " s",
                       rc, "Let commits on a shared descriptor end in time"});
    } else if (rc == EACCES && limits_.regain.count() > 0) {
      busy_since_.reset();
      loseMaster(lock);
    } else if (rc == EACCES || rc == EPERM) {
      fail(lock,
           Error{"commit a frame", rc, "The display was given to another process (a switch of virtual terminals?)"});
    } else {
      fail(lock, Error{"commit a frame", rc, "The display refused a frame it had accepted in a test"});
    }
  }
  changed_.notify_all();
  lock.unlock();
  gone.clear();
  if (refusal != 0 && events_.note)
    events_.note(std::string("the display's driver refuses IN_FENCE_FD (") + strerror(refusal) +
                 "): frames are still waited for before they are committed, but the driver waits for their memory too");
  lock.lock();
}

void Committer::finishFlip(std::unique_lock<std::mutex> &lock) {
  const auto nanoseconds = [](Clock::time_point t) { return int64_t{t.time_since_epoch() / 1ns}; };
  int64_t when = port_->flipTime(flip_.get());
  // A CRTC that was off may answer its first commit with the time of its last vertical blank, long ago.
  if (when >= 0 && when < nanoseconds(committed_at_)) when = nanoseconds(Clock::now());
  flip_.reset();
  if (when < 0) {
    fail(lock, Error{"a commit ended without a flip", static_cast<int>(-when),
                     "Look for messages of the display driver in dmesg"});
    return;
  }
  const std::shared_ptr<DisplayFrame> frame = in_flight_;
  lock.unlock();
  if (events_.flipped) events_.flipped(*frame, static_cast<uint64_t>(when));
  lock.lock();
  // after the report, so that whoever waits for the flip finds it made
  std::shared_ptr<DisplayFrame> replaced = std::move(shown_);
  shown_ = std::move(in_flight_);
  last_flip_ns_ = static_cast<uint64_t>(when);
  ++counters_.shown;
  changed_.notify_all();
  lock.unlock();
  replaced.reset();
  lock.lock();
}

void Committer::loseMaster(std::unique_lock<std::mutex> &lock) {
  lost_ = true;
  ++counters_.suspensions;
  retry_at_ = Clock::now() + limits_.regain;
  std::vector<Waiting> gone;
  dropSuspended(gone);
  changed_.notify_all();
  lock.unlock();
  gone.clear();
  if (events_.note)
    events_.note("the display was given to another process (a switch of virtual terminals?): frames are dropped until "
                 "it comes back");
  lock.lock();
}

void Committer::regainMaster(std::unique_lock<std::mutex> &lock) {
  lock.unlock();
  const bool back = port_->regain();
  lock.lock();
  if (back) {
    lost_ = false;
    restore_due_ = true;
    changed_.notify_all();
  } else {
    retry_at_ = Clock::now() + limits_.regain;
  }
}

void Committer::fail(std::unique_lock<std::mutex> &lock, Error error) {
  if (failed_) return;
  failed_ = error;
  // what is in flight may still come on screen: it stays held, and is no longer waited for
  flip_deadline_ = Clock::time_point::max();
  changed_.notify_all();
  lock.unlock();
  if (events_.failed) events_.failed(error);
  lock.lock();
}

} // namespace gstzc
