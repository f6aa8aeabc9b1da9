// SPDX-License-Identifier: LGPL-2.1-or-later
// The thread of a CRTC's queue: when it sleeps, flips, the loss of the display.
#include "gst/drm/crtc_queue.h"

#include <algorithm>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace gstzc {

using namespace std::chrono_literals;

namespace {

// epoll's data of what is no flip's descriptor; their serials begin above
constexpr uint64_t kWake = 0, kEvents = 1;

constexpr size_t kUsualSinks = 4;

bool watch(int epoll, int fd, uint64_t data, uint32_t events = EPOLLIN) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = data;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

} // namespace

CrtcQueue::CrtcQueue(std::unique_ptr<CommitPort> port, CommitLimits limits)
    : port_(std::move(port)), limits_(limits), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  lanes_.reserve(kUsualSinks);
  flight_.reserve(kUsualSinks);
  taken_.reserve(kUsualSinks);
  replaced_.reserve(kUsualSinks);
  next_.reserve(kUsualSinks);
  rest_.reserve(2 * kUsualSinks);
  const int events = port_->flipEvents();
  events_ = events >= 0;
  if (!wake_.isValid() || !epoll_.isValid() || !watch(epoll_.get(), wake_.get(), kWake) ||
      (events_ && !watch(epoll_.get(), events, kEvents)))
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

void CrtcQueue::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(wake_.get(), &one, sizeof one); // full means it is readable already
}

bool CrtcQueue::isNext(const Lane &lane) const {
  return lane.waiting.nextIsSettled() && !lane.failed && !lane.stopped && !isSuspended(lane);
}

bool CrtcQueue::mayCommit() const {
  return !in_flight_ && hands_ == 0 && !stopping_ &&
         std::any_of(lanes_.begin(), lanes_.end(), [this](const Lane *lane) { return isNext(*lane); });
}

// Whether anybody would see frames if this process were master.
bool CrtcQueue::someoneLooks() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane *lane) { return !lane->suspended && !lane->stopped && !lane->failed; });
}

// When the thread has something to do if nobody wakes it; max(): nothing.
CrtcQueue::Clock::time_point CrtcQueue::nextLook() const {
  if (in_flight_) return flipped_ ? Clock::time_point::min() : flip_deadline_;
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
    if (in_flight_ && now >= flip_deadline_)
      failAll(lock, Error{"no flip came within " + std::to_string(limits_.flip.count() / 1000) + " s of a commit",
                          ETIMEDOUT, "Look for messages of the display driver in dmesg"});
    else if (lost_ && someoneLooks() && now >= retry_at_)
      regainMaster(lock);
    else if (mayCommit() && now >= retry_at_)
      commit(lock);
    else
      sleep(lock);
  }
}

// Until the flip, a deadline, or a call to wake(). Commits that others make meanwhile are noticed by their flips alone:
// after a flip the thread sleeps no longer than the next commit's flip may take, so that nobody need tell it of that
// deadline.
void CrtcQueue::sleep(Lock &lock) {
  const auto now = Clock::now();
  sleeps_until_ = nextLook();
  if (sleeps_until_ == Clock::time_point::max() && !idle_ && !in_flight_) sleeps_until_ = now + limits_.flip;
  int timeout = -1; // ms
  if (sleeps_until_ != Clock::time_point::max())
    timeout = static_cast<int>(
        std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(sleeps_until_ - now).count(), 0, 60000));
  sleeping_ = true;
  lock.unlock();
  epoll_event events[4];
  const int n = epoll_wait(epoll_.get(), events, 4, timeout);
  std::optional<int64_t> time;
  for (int i = 0; i < n; ++i)
    if (events[i].data.u64 == kWake) {
      uint64_t count;
      [[maybe_unused]] const auto bytes = read(wake_.get(), &count, sizeof count);
    } else if (events[i].data.u64 == kEvents) {
      time = port_->readFlip();
    }
  lock.lock();
  sleeping_ = false;
  idle_ = n == 0 && !in_flight_;
  if (time) flip_time_ = time;
  flipped_ = flipped_ || time; // perhaps before the thread that commits has said so
  for (int i = 0; i < n; ++i) flipped_ = flipped_ || (in_flight_ && events[i].data.u64 == flip_serial_);
}

// The flip of what is in flight will end the thread's sleep.
bool CrtcQueue::awaitFlip() {
  return !flip_.isValid() || watch(epoll_.get(), flip_.get(), ++flip_serial_, EPOLLIN | EPOLLONESHOT);
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
  changed_.notify_all();
  return true;
}

void CrtcQueue::finishFlip(Lock &lock) {
  flipped_ = false;
  const auto nanoseconds = [](Clock::time_point t) { return int64_t{t.time_since_epoch() / 1ns}; };
  int64_t when = flip_time_.value_or(0);
  if (!events_) {
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
    replaced_.push_back(std::move(lane->shown));
    lane->shown = std::move(lane->in_flight);
    lane->last_flip_ns = static_cast<uint64_t>(when);
    lane->counters.shown += !lane->shown->farewell;
  }
  flight_.clear();
  in_flight_ = false;
  changed_.notify_all();
  lock.unlock();
  replaced_.clear();
  lock.lock();
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
  changed_.notify_all();
}

void CrtcQueue::loseMaster(Lock &lock) {
  lost_ = true;
  retry_at_ = Clock::now() + limits_.regain;
  Gone gone;
  for (Lane *lane : lanes_) {
    ++lane->counters.suspensions;
    lane->waiting.dropAllButLast(gone);
  }
  changed_.notify_all();
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
    changed_.notify_all();
  } else {
    retry_at_ = Clock::now() + limits_.regain;
  }
}

void CrtcQueue::fail(Lock &lock, Lane &lane, const Error &error) {
  if (lane.failed || lane.stopped) return;
  lane.failed = error;
  changed_.notify_all();
  ++calls_;
  lock.unlock();
  if (lane.events.failed) lane.events.failed(error);
  lock.lock();
  --calls_;
  changed_.notify_all();
}

void CrtcQueue::failAll(Lock &lock, const Error &error) {
  // what is in flight may still come on screen: it stays held, and is no longer waited for
  flip_deadline_ = Clock::time_point::max();
  for (size_t i = 0; i < lanes_.size(); ++i) fail(lock, *lanes_[i], error);
}

} // namespace gstzc
