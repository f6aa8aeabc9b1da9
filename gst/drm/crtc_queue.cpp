// SPDX-License-Identifier: LGPL-2.1-or-later
// The thread of a CRTC's queue: when it sleeps, flips, the loss of the display.
#include "gst/drm/crtc_queue.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

namespace gstzc {

using namespace std::chrono_literals;

namespace {

// epoll's data of what is no flip's descriptor; their serials follow
constexpr uint64_t kWake = 0, kEvents = 1, kTimer = 2, kFlips = 3;

constexpr size_t kUsualSinks = 4;

bool watch(int epoll, int fd, uint64_t data, uint32_t events = EPOLLIN, int how = EPOLL_CTL_ADD) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = data;
  return epoll_ctl(epoll, how, fd, &event) == 0;
}

void drain(int fd) { // an eventfd or timerfd
  uint64_t count;
  [[maybe_unused]] const auto bytes = read(fd, &count, sizeof count);
}

void ring(int eventfd) {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(eventfd, &one, sizeof one); // full means it is readable already
}

int64_t nanoseconds(FrameQueue::Clock::time_point t) { return int64_t{t.time_since_epoch() / 1ns}; }

} // namespace

CrtcQueue::CrtcQueue(std::unique_ptr<CommitPort> port, CommitLimits limits)
    : port_(std::move(port)), limits_(limits), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      lead_wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  lanes_.reserve(kUsualSinks);
  flight_.reserve(kUsualSinks);
  taken_.reserve(kUsualSinks);
  spare_.reserve(2 * kUsualSinks);
  replaced_.reserve(kUsualSinks);
  next_.reserve(kUsualSinks);
  rest_.reserve(2 * kUsualSinks);
  events_ = port_->flipEvents();
  if (!wake_.isValid() || !lead_wake_.isValid() || !timer_.isValid() || !epoll_.isValid() ||
      !watch(epoll_.get(), wake_.get(), kWake) || !watch(epoll_.get(), timer_.get(), kTimer) ||
      (events_ >= 0 && !watch(epoll_.get(), events_, kEvents, 0)))
    broken_ = Error{"set up the wait for flips", errno, "The process may be out of descriptors"};
  thread_ = std::thread([this] { run(); });
}

CrtcQueue::~CrtcQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void CrtcQueue::wake() { ring(wake_.get()); }

void CrtcQueue::tell() {
  changed_.notify_all();
  if (leading_) ring(lead_wake_.get());
}

bool CrtcQueue::isNext(const Lane &lane) const {
  return lane.waiting.nextIsSettled() && !lane.failed && !lane.stopped && !isSuspended(lane);
}

bool CrtcQueue::hasNext() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [this](const Lane *lane) { return isNext(*lane); });
}

bool CrtcQueue::mayCommit() const { return !in_flight_ && hands_ == 0 && !stopping_ && hasNext(); }

bool CrtcQueue::mayLead() const {
  return sleeping_ && in_flight_ && !watched_ && !flipped_ && hands_ == 0 && !stopping_ &&
         (events_ >= 0 || flip_.isValid());
}

// Whether anybody would see frames if this process were master.
bool CrtcQueue::someoneLooks() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane *lane) { return !lane->suspended && !lane->stopped && !lane->failed; });
}

// When a flip that is not watched is looked for.
CrtcQueue::Clock::time_point CrtcQueue::lookAt() const {
  const auto at = committed_at_ + limits_.look;
  return commit_by_ && hasNext() ? std::min(at, *commit_by_) : at;
}

// When the thread has something to do if nobody wakes it; max(): nothing.
CrtcQueue::Clock::time_point CrtcQueue::nextLook() const {
  if (in_flight_ && flipped_) return Clock::time_point::min();
  if (in_flight_) return watched_ ? flip_deadline_ : std::min(flip_deadline_, lookAt());
  if (mayCommit() || (lost_ && someoneLooks())) return retry_at_;
  return Clock::time_point::max();
}

void CrtcQueue::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (flipped_ && in_flight_) {
      finishFlip(lock);
      continue;
    }
    bool let_go = false; // others may have come and gone meanwhile
    for (size_t i = 0; i < lanes_.size() && !let_go; ++i) let_go = settle(lock, *lanes_[i]);
    if (let_go) continue;
    const auto now = Clock::now();
    if (in_flight_ && !watched_ && now >= lookAt()) {
      if (now >= committed_at_ + limits_.look)
        prompt_ = prompt_ || !disturbed_; // no frame has come, and nothing is known that kept it
      if (seesFlip())
        flipped_ = true;
      else
        watchFlip(lock);
      continue;
    }
    if (in_flight_ && now >= flip_deadline_)
      failFlip(lock);
    else if (lost_ && someoneLooks() && now >= retry_at_)
      regainMaster(lock);
    else if (mayCommit() && now >= retry_at_)
      commit(lock);
    else
      sleep(lock);
  }
}

// Until a flip that is watched, the timer, or a call to wake().
void CrtcQueue::sleep(Lock &lock) {
  arm(nextLook());
  sleeping_ = true;
  lock.unlock();
  epoll_event events[4];
  const int n = epoll_wait(epoll_.get(), events, 4, -1);
  bool rang = false;
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == kWake) drain(wake_.get());
    if (events[i].data.u64 != kTimer) continue;
    drain(timer_.get());
    rang = true;
  }
  lock.lock();
  sleeping_ = false;
  if (rang) armed_ = Clock::time_point::max();
  for (int i = 0; i < n; ++i) {
    if (!in_flight_ || !watched_ || flipped_) continue;
    if (events[i].data.u64 == kFlips + flip_serial_) flipped_ = true;
    if (events[i].data.u64 != kEvents) continue;
    flipped_ = seesFlip();
    if (!flipped_) watchFlip(lock); // it was of an earlier commit
  }
}

void CrtcQueue::arm(Clock::time_point until) {
  if (until == armed_) return;
  itimerspec at = {};
  if (until != Clock::time_point::max()) {
    const int64_t ns = std::max<int64_t>(nanoseconds(until), 1); // 0 would switch it off
    at.it_value.tv_sec = ns / 1'000'000'000;
    at.it_value.tv_nsec = ns % 1'000'000'000;
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  armed_ = until;
}

// By another thread, while the queue's sleeps: what that would do if it were awake, but for its timer.
void CrtcQueue::advance(Lock &lock) {
  if (sleeping_ && mayCommit() && Clock::now() >= retry_at_) commit(lock);
}

// By another thread: that the queue's wakes up in time, and not for what has been done meanwhile. A timer that is set
// for later stays, so that it costs nothing for most frames.
void CrtcQueue::rearm() {
  if (!sleeping_) return;
  const auto next = nextLook();
  if (next < armed_ || armed_ < Clock::now() + limits_.look / 4) arm(next);
}

// Waits for the flip here, so that no other thread has to wake up for it and then wake this one.
void CrtcQueue::lead(Lock &lock, Clock::time_point deadline) {
  leading_ = true;
  watched_ = true;
  const auto left = std::min(deadline, flip_deadline_) - Clock::now();
  pollfd ready[] = {{events_ >= 0 ? events_ : flip_.get(), POLLIN, 0}, {lead_wake_.get(), POLLIN, 0}};
  lock.unlock();
  poll(ready, 2,
       static_cast<int>(std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0, 60000)));
  lock.lock();
  leading_ = false;
  watched_ = false;
  if (ready[1].revents != 0) drain(lead_wake_.get());
  if (!in_flight_) return;
  const bool alone = sleeping_ && hands_ == 0;
  if (alone && seesFlip()) {
    finishFlip(lock);
    advance(lock);
  } else if (Clock::now() >= flip_deadline_) {
    failFlip(lock);
  } else if (!alone || isAwaited()) {
    watchFlip(lock);
  } else {
    rearm();
    tell(); // others may wait for the same flip
  }
}

// Whether what is in flight is on screen.
bool CrtcQueue::seesFlip() {
  if (events_ >= 0) {
    flip_time_ = port_->readFlip();
    return flip_time_.has_value();
  }
  pollfd request = {flip_.get(), POLLIN, 0};
  return poll(&request, 1, 0) == 1;
}

// Whether somebody has use for the flip of what is in flight as soon as it happens.
bool CrtcQueue::isAwaited() const {
  return prompt_ || std::any_of(lanes_.begin(), lanes_.end(), [this](const Lane *lane) {
           return !lane->stopped && (lane->events.prompt || (!lane->waiting.empty() && !commit_by_));
         });
}

// It will end the thread's sleep.
void CrtcQueue::watchFlip(Lock &lock) {
  if (!in_flight_) return;
  watched_ = true;
  const bool done = events_ >= 0 ? watch(epoll_.get(), events_, kEvents, EPOLLIN | EPOLLONESHOT, EPOLL_CTL_MOD)
                                 : !flip_.isValid() || watch(epoll_.get(), flip_.get(), kFlips + ++flip_serial_,
                                                             EPOLLIN | EPOLLONESHOT);
  if (!done) failAll(lock, Error{"wait for a flip", errno, "The process may be out of memory"});
}

// True: the lock was let go meanwhile.
bool CrtcQueue::settle(Lock &lock, Lane &lane) {
  if (lane.failed || lane.stopped) return false;
  FrameQueue::Ended ended;
  const std::optional<Error> error = lane.waiting.settle(ended, [this](const ScreenState &state) {
    return !refuses_fences_ && !state.planes.empty() && port_->takesInFence(state.planes[0].plane) &&
           port_->signalledFence() >= 0;
  });
  if (ended.empty()) return false;
  ++lane.in_hand;
  ++hands_;
  lock.unlock();
  if (lane.events.bad_fence)
    for (const auto &[frame, verdict] : ended.bad) lane.events.bad_fence(*frame, verdict);
  ended = {};
  lock.lock();
  // after the report, so that whoever waits for the end of a frame has it
  --hands_;
  if (error) fail(lock, lane, *error);
  --lane.in_hand;
  tell();
  return true;
}

void CrtcQueue::finishFlip(Lock &lock) {
  // nobody else looks for it any more
  flipped_ = false;
  watched_ = true;
  flip_deadline_ = Clock::time_point::max();
  int64_t when = flip_time_.value_or(0);
  if (events_ < 0) {
    const int flip = flip_.get(); // this thread closes it
    lock.unlock();
    when = port_->flipTime(flip);
    lock.lock();
  }
  // A CRTC that was off may answer its first commit with the time of its last vertical blank, long ago; and an event's
  // time has microseconds only.
  if (when >= 0 && when < nanoseconds(committed_at_)) when = nanoseconds(Clock::now());
  flip_.reset();
  if (when < 0) {
    failAll(lock, Error{"a commit ended without a flip", static_cast<int>(-when),
                        "Look for messages of the display driver in dmesg"});
    return;
  }
  last_flip_ns_ = static_cast<uint64_t>(when);
  std::vector<std::shared_ptr<DisplayFrame>> replaced; // let go without the lock
  replaced.swap(replaced_);
  ++calls_;
  for (size_t i = 0; i < flight_.size(); ++i) {
    Lane &lane = *flight_[i];
    if (lane.stopped || !lane.events.flipped || lane.in_flight->farewell) continue;
    const DisplayFrame &frame = *lane.in_flight;
    lock.unlock();
    lane.events.flipped(frame, static_cast<uint64_t>(when));
    lock.lock();
  }
  --calls_;
  // after the report, so that whoever waits for the flip finds it made
  for (Lane *lane : flight_) {
    if (lane->stopped) continue;
    replaced.push_back(std::move(lane->shown));
    lane->shown = std::move(lane->in_flight);
    lane->last_flip_ns = static_cast<uint64_t>(when);
    lane->counters.shown += !lane->shown->farewell;
  }
  flight_.clear();
  in_flight_ = false;
  tell();
  lock.unlock();
  replaced.clear();
  lock.lock();
  replaced_.swap(replaced);
}

void CrtcQueue::note(Lock &lock, const std::string &text) {
  ++calls_;
  lock.unlock();
  for (size_t i = 0;; ++i) {
    const CommitEvents *events = nullptr;
    {
      const std::lock_guard guard(mutex_);
      if (i >= lanes_.size()) break;
      if (!lanes_[i]->stopped) events = &lanes_[i]->events;
    }
    if (events != nullptr && events->note) events->note(text);
  }
  lock.lock();
  --calls_;
  tell();
}

void CrtcQueue::loseMaster(Lock &lock) {
  lost_ = true;
  retry_at_ = Clock::now() + limits_.regain;
  Gone gone;
  for (Lane *lane : lanes_) {
    ++lane->counters.suspensions;
    lane->waiting.dropAllButLast(gone);
  }
  tell();
  lock.unlock();
  gone.clear();
  lock.lock();
  note(lock, "the display was given to another process (a switch of virtual terminals?): frames are dropped until it "
             "comes back");
}

void CrtcQueue::regainMaster(Lock &lock) {
  lock.unlock();
  const bool back = port_->regain();
  lock.lock();
  if (back) {
    lost_ = false;
    restore_due_ = true;
    tell();
  } else {
    retry_at_ = Clock::now() + limits_.regain;
  }
}

void CrtcQueue::fail(Lock &lock, Lane &lane, const Error &error) {
  if (lane.failed || lane.stopped) return;
  lane.failed = error;
  tell();
  ++calls_;
  lock.unlock();
  if (lane.events.failed) lane.events.failed(error);
  lock.lock();
  --calls_;
  tell();
}

void CrtcQueue::failFlip(Lock &lock) {
  failAll(lock, Error{"no flip came within " + std::to_string(limits_.flip.count() / 1000) + " s of a commit",
                      ETIMEDOUT, "Look for messages of the display driver in dmesg"});
}

void CrtcQueue::failAll(Lock &lock, const Error &error) {
  // what is in flight may still come on screen: it stays held, and is no longer waited for
  flip_deadline_ = Clock::time_point::max();
  for (size_t i = 0; i < lanes_.size(); ++i) fail(lock, *lanes_[i], error);
}

} // namespace gstzc
