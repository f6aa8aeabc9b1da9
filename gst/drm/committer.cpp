// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/committer.h"

#include <algorithm>
#include <cerrno>

#include <linux/sync_file.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

namespace gstzc {

using namespace std::chrono_literals;

int KmsCommitPort::commit(const ScreenState &state, UniqueFd *flipped) {
  AtomicRequest request;
  addState(request, snapshot_, output_, state);
  int32_t fence = -1;
  const KmsCrtc &crtc = snapshot_.crtcs[output_.crtc];
  request.set(crtc.id, crtc.properties, "OUT_FENCE_PTR", reinterpret_cast<uintptr_t>(&fence));
  const int rc =
      request.commit(device_->fd(), DRM_MODE_ATOMIC_NONBLOCK | (state.mode ? DRM_MODE_ATOMIC_ALLOW_MODESET : 0u));
  if (rc == 0) *flipped = UniqueFd(fence);
  return rc;
}

int64_t KmsCommitPort::flipTime(int flipped) {
  sync_fence_info fence = {};
  sync_file_info info = {};
  info.num_fences = 1;
  info.sync_fence_info = reinterpret_cast<uintptr_t>(&fence);
  int rc;
  do rc = ioctl(flipped, SYNC_IOC_FILE_INFO, &info);
  while (rc != 0 && errno == EINTR);
  if (rc != 0) return -errno;
  if (info.status < 0) return info.status;
  return static_cast<int64_t>(fence.timestamp_ns);
}

Committer::Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events)
    : port_(std::move(port)), limits_(limits), events_(std::move(events)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

Committer::~Committer() { stop(); }

void Committer::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wake_.get(), &one, sizeof one); // full means it is readable already
}

Result<Committer::Submitted> Committer::submit(std::shared_ptr<DisplayFrame> frame, bool wait) {
  std::shared_ptr<DisplayFrame> missed; // let go without the lock
  {
    std::unique_lock lock(mutex_);
    if (wait) {
      // one flip and one stubborn EBUSY are the most the place can take to become free
      const auto deadline = Clock::now() + limits_.flip + limits_.busy;
      const bool free = changed_.wait_until(
          lock, deadline, [&] { return (!pending_ && !committing_) || failed_ || interrupted_ || stopping_; });
      if (!free) return Error{"the display took no frame", ETIMEDOUT, "Look for messages of its driver in dmesg"};
      if (interrupted_) return Submitted::Interrupted;
    }
    if (failed_) return *failed_;
    if (stopping_) return Submitted::Interrupted;
    if (pending_) {
      inheritState(frame->state, pending_->state);
      missed = std::move(pending_);
      ++counters_.dropped;
    }
    pending_ = std::move(frame);
  }
  wake();
  return Submitted::Accepted;
}

Result<Committer::Submitted> Committer::drain() {
  std::unique_lock lock(mutex_);
  const auto deadline = Clock::now() + 2 * limits_.flip + limits_.busy;
  const bool done = changed_.wait_until(lock, deadline, [&] {
    return (!pending_ && !committing_ && !in_flight_) || failed_ || interrupted_ || stopping_;
  });
  if (failed_) return *failed_;
  if (!done)
    return Error{"the last frame did not reach the display", ETIMEDOUT, "Look for messages of its driver in dmesg"};
  if (pending_ || committing_ || in_flight_) return Submitted::Interrupted;
  return Submitted::Accepted;
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
  const std::lock_guard lock(mutex_);
  pending_.reset();
}

Committer::Counters Committer::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Committer::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = Clock::now();
    if (in_flight_ && now >= flip_deadline_) {
      fail(lock, Error{"no flip came within " + std::to_string(limits_.flip.count() / 1000) + " s of a commit",
                       ETIMEDOUT, "Look for messages of the display driver in dmesg"});
      continue;
    }
    if (!in_flight_ && pending_ && !failed_ && now >= retry_at_) {
      commitPending(lock);
      continue;
    }

    int timeout = -1;
    const auto until = [&](Clock::time_point t) {
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(t - now).count();
      timeout = static_cast<int>(std::clamp<int64_t>(ms, 0, 60000));
    };
    if (in_flight_)
      until(flip_deadline_);
    else if (pending_ && !failed_)
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

void Committer::commitPending(std::unique_lock<std::mutex> &lock) {
  std::shared_ptr<DisplayFrame> frame = std::move(pending_), missed;
  committing_ = true;
  UniqueFd flip;
  lock.unlock();
  const auto committed_at = Clock::now();
  const int rc = port_->commit(frame->state, &flip);
  lock.lock();
  committing_ = false;
  const auto now = Clock::now();
  if (rc == 0) {
    ++counters_.commits;
    busy_since_.reset();
    in_flight_ = std::move(frame);
    flip_ = std::move(flip);
    committed_at_ = committed_at;
    flip_deadline_ = now + limits_.flip;
  } else {
    if (pending_) { // a newer one came meanwhile
      inheritState(pending_->state, frame->state);
      missed = std::move(frame);
      ++counters_.dropped;
    } else {
      pending_ = std::move(frame);
    }
    // Somebody else's commit on this CRTC is under way, e.g. a writeback job of the application that lent us its file:
    // nothing tells us when it ends, so look again soon.
    if (!busy_since_) busy_since_ = now;
    if (rc == EBUSY && now - *busy_since_ < limits_.busy) {
      ++counters_.busy_retries;
      retry_at_ = now + limits_.retry;
    } else if (rc == EBUSY) {
      fail(lock, Error{"another user of this device kept the output busy for " +
                           std::to_string(limits_.busy.count() / 1000) + " s",
                       rc, "Let commits on a shared descriptor end in time"});
    } else if (rc == EACCES || rc == EPERM) {
      fail(lock,
           Error{"commit a frame", rc, "The display was given to another process (a switch of virtual terminals?)"});
    } else {
      fail(lock, Error{"commit a frame", rc, "The display refused a frame it had accepted in a test"});
    }
  }
  changed_.notify_all();
  lock.unlock();
  missed.reset();
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
  ++counters_.shown;
  changed_.notify_all();
  lock.unlock();
  replaced.reset();
  lock.lock();
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
