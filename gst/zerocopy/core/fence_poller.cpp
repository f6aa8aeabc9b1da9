// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/fence_poller.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

namespace gstzc {
namespace {

using Clock = FencePoller::Clock;

// epoll's data of the descriptors that are no fences; ids of waits begin above
constexpr uint64_t kWake = 0, kTimer = 1, kFirstId = 2;
constexpr size_t kEventsAtOnce = 64;

int64_t nanoseconds(Clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

uint64_t nowNs() { return static_cast<uint64_t>(nanoseconds(Clock::now())); }

// poll() and epoll have the same bits
constexpr short awaited(Fence::Kind kind) { return kind == Fence::Kind::DmaBufIdle ? POLLOUT : POLLIN; }

// How a fence ended whose descriptor reported `events`.
FenceResult ended(Fence::Kind kind, int fd, const std::function<int()> &status, unsigned events) {
  int error = 0;
  uint64_t at = 0;
  if ((events & POLLNVAL) != 0)
    error = EBADF;
  else if ((events & static_cast<unsigned>(awaited(kind))) == 0)
    error = EPIPE; // hung up without a signal: its producer is gone
  else if (kind == Fence::Kind::SyncFile)
    error = syncFileStatus(fd, &at).error; // that it failed shows in its status only
  else if (kind == Fence::Kind::Event && status)
    error = status();
  return {error != 0 ? FenceOutcome::Failed : FenceOutcome::Signalled, error, at != 0 ? at : nowNs()};
}

std::optional<FenceResult> now(Fence::Kind kind, int fd, const std::function<int()> &status) {
  if (fd < 0) return FenceResult{FenceOutcome::Failed, EBADF, nowNs()};
  pollfd request = {fd, awaited(kind), 0};
  int rc;
  do rc = poll(&request, 1, 0);
  while (rc < 0 && errno == EINTR);
  if (rc == 0) return std::nullopt;
  if (rc < 0) return FenceResult{FenceOutcome::Failed, errno, nowNs()};
  return ended(kind, fd, status, static_cast<unsigned>(request.revents));
}

FenceResult worse(const FenceResult &a, const FenceResult &b) {
  const auto rank = [](const FenceResult &r) {
    switch (r.outcome) {
    case FenceOutcome::Signalled: return 0;
    case FenceOutcome::Failed: return 1;
    case FenceOutcome::TimedOut: return 2; // may still be written
    case FenceOutcome::Cancelled: return 3;
    }
    return 3;
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b) ? a : b;
  return a.time_ns >= b.time_ns ? a : b;
}

} // namespace

std::optional<FenceResult> fenceNow(const Fence &fence) { return now(fence.kind, fence.fd.get(), fence.status); }

std::optional<FenceResult> fenceNow(Fence::Kind kind, int fd) { return now(kind, fd, {}); }

class FencePoller::Private {
public:
  struct Wait {
    Fence fence;
    Clock::time_point deadline;
    Callback done;
  };

  ~Private() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake();
    if (thread.joinable()) thread.join();
  }

  Status start(); // with the lock held
  void run();
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = write(wake_fd.get(), &one, sizeof one); // full means it is readable already
  }
  // With the lock held: arms the timer if `deadline` is earlier than what it is armed for.
  void arm(Clock::time_point deadline);
  void expire(std::unique_lock<std::mutex> &lock);
  std::optional<Wait> take(WaitId id); // with the lock held
  // Ends a wait that take() gave: asks how, counts it and calls back, all without the lock.
  void finish(std::unique_lock<std::mutex> &lock, WaitId id, Wait wait,
              const std::function<FenceResult(const Fence &)> &outcome);

  mutable std::mutex mutex;
  std::condition_variable finished;
  UniqueFd epoll, wake_fd, timer;
  std::thread thread;
  std::unordered_map<WaitId, Wait> waits;
  std::set<std::pair<Clock::time_point, WaitId>> deadlines;
  Clock::time_point armed = Clock::time_point::max();
  WaitId next = kFirstId;
  WaitId running = 0; // its callback is being called
  bool stopping = false;
  uint64_t watched = 0;
  std::atomic<uint64_t> signalled = 0, failed = 0, timed_out = 0, cancelled = 0;
};

Status FencePoller::Private::start() {
  if (thread.joinable()) return Nothing{};
  UniqueFd e(epoll_create1(EPOLL_CLOEXEC)), w(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      t(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const auto add = [&](const UniqueFd &fd, uint64_t data) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = data;
    return epoll_ctl(e.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
  };
  if (!e.isValid() || !w.isValid() || !t.isValid() || !add(w, kWake) || !add(t, kTimer))
    return Error{"set up the thread that waits for fences", errno, "The process may be out of descriptors"};
  epoll = std::move(e);
  wake_fd = std::move(w);
  timer = std::move(t);
  // signals are the application's: its handlers run on its threads
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int code = 0;
  try {
    thread = std::thread([this] { run(); });
    pthread_setname_np(thread.native_handle(), "gstzc-fences");
  } catch (const std::system_error &error) {
    code = error.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != 0) return Error{"start the thread that waits for fences", code, "The process may be out of threads"};
  return Nothing{};
}

void FencePoller::Private::arm(Clock::time_point deadline) {
  if (deadline >= armed) return;
  armed = deadline;
  const int64_t ns = std::max<int64_t>(nanoseconds(deadline), 1); // 0 would disarm it
  itimerspec spec = {};
  spec.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
  spec.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

std::optional<FencePoller::Private::Wait> FencePoller::Private::take(WaitId id) {
  const auto it = waits.find(id);
  if (it == waits.end()) return std::nullopt;
  Wait wait = std::move(it->second);
  waits.erase(it);
  deadlines.erase({wait.deadline, id});
  epoll_ctl(epoll.get(), EPOLL_CTL_DEL, wait.fence.fd.get(), nullptr);
  return wait;
}

void FencePoller::Private::finish(std::unique_lock<std::mutex> &lock, WaitId id, Wait wait,
                                  const std::function<FenceResult(const Fence &)> &outcome) {
  running = id;
  lock.unlock();
  const FenceResult result = outcome(wait.fence);
  switch (result.outcome) {
  case FenceOutcome::Signalled: ++signalled; break;
  case FenceOutcome::Failed: ++failed; break;
  case FenceOutcome::TimedOut: ++timed_out; break;
  case FenceOutcome::Cancelled: ++cancelled; break;
  }
  wait.done(result);
  wait = {}; // what the callback holds goes before cancel() says that it is over
  lock.lock();
  running = 0;
  finished.notify_all();
}

void FencePoller::Private::expire(std::unique_lock<std::mutex> &lock) {
  armed = Clock::time_point::max(); // the timer is spent
  // no more than there are: callbacks that wait again with a deadline in the past come after the fences
  for (size_t left = deadlines.size(); left > 0 && !deadlines.empty() && !stopping; --left) {
    const auto [deadline, id] = *deadlines.begin();
    if (deadline > Clock::now()) break;
    // one that came in time but was not seen yet is no late one
    finish(lock, id, *take(id), [](const Fence &fence) {
      return fenceNow(fence).value_or(FenceResult{FenceOutcome::TimedOut, ETIMEDOUT, nowNs()});
    });
  }
  if (!deadlines.empty()) arm(deadlines.begin()->first);
}

void FencePoller::Private::run() {
  std::array<epoll_event, kEventsAtOnce> events;
  std::unique_lock lock(mutex);
  while (!stopping) {
    lock.unlock();
    const int n = epoll_wait(epoll.get(), events.data(), events.size(), -1);
    lock.lock();
    bool due = false;
    for (int i = 0; i < n && !stopping; ++i) {
      const auto &event = events[static_cast<size_t>(i)];
      const uint64_t id = event.data.u64;
      if (id == kWake) continue; // read by nobody: it is written once, to stop
      if (id == kTimer) {
        uint64_t count;
        due = read(timer.get(), &count, sizeof count) == sizeof count || due;
        continue;
      }
      if (auto wait = take(id)) // else cancelled meanwhile
        finish(lock, id, std::move(*wait),
               [&](const Fence &fence) { return ended(fence.kind, fence.fd.get(), fence.status, event.events); });
    }
    if (due) expire(lock);
  }
  while (!waits.empty()) {
    const WaitId id = waits.begin()->first;
    finish(lock, id, *take(id), [](const Fence &) { return FenceResult{FenceOutcome::Cancelled, ECANCELED, nowNs()}; });
  }
}

FencePoller &FencePoller::process() {
  static FencePoller *poller = new FencePoller; // its thread may outlive what runs at exit
  return *poller;
}

FencePoller::FencePoller() : p_(std::make_unique<Private>()) {}

FencePoller::~FencePoller() = default;

Result<FencePoller::WaitId> FencePoller::watch(Fence fence, Clock::time_point deadline, Callback done) {
  std::lock_guard lock(p_->mutex);
  if (p_->stopping) return Error{"wait for a fence", ECANCELED, "The poller is being shut down"};
  if (auto started = p_->start(); !started) return started.error();
  const WaitId id = p_->next++;
  const int fd = fence.fd.get();
  epoll_event event = {};
  event.events = static_cast<uint32_t>(awaited(fence.kind));
  event.data.u64 = id;
  if (epoll_ctl(p_->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int code = errno;
    return Error{"wait for the descriptor " + std::to_string(fd), code,
                 code == EPERM ? "It is a file of a kind that is always ready" : ""};
  }
  p_->waits.emplace(id, Private::Wait{std::move(fence), deadline, std::move(done)});
  p_->deadlines.emplace(deadline, id);
  p_->arm(deadline);
  ++p_->watched;
  return id;
}

bool FencePoller::cancel(WaitId id) {
  if (id < kFirstId) return false;   // 0 would be mistaken for "nothing is running"
  std::optional<Private::Wait> wait; // its fence and callback go without the lock
  {
    std::unique_lock lock(p_->mutex);
    wait = p_->take(id);
    if (wait) {
      ++p_->cancelled;
    } else if (p_->thread.get_id() != std::this_thread::get_id()) {
      p_->finished.wait(lock, [&] { return p_->running != id; });
    }
  }
  return wait.has_value();
}

FencePoller::Counters FencePoller::counters() const {
  const std::lock_guard lock(p_->mutex);
  return {p_->watched, p_->signalled, p_->failed, p_->timed_out, p_->cancelled, p_->waits.size()};
}

struct FenceWait::Shared {
  std::mutex mutex;
  size_t pending = 0;
  FenceResult worst;
  std::function<void()> resolved;
};

Result<std::unique_ptr<FenceWait>> FenceWait::start(std::vector<Fence> fences, Clock::time_point deadline,
                                                    std::function<void()> resolved, FencePoller &poller) {
  std::unique_ptr<FenceWait> wait(new FenceWait);
  wait->poller_ = &poller;
  wait->shared_ = std::make_shared<Shared>();
  Shared &shared = *wait->shared_;
  std::erase_if(fences, [&](const Fence &fence) {
    const auto over = fenceNow(fence);
    if (over) shared.worst = worse(shared.worst, *over);
    return over.has_value();
  });
  shared.pending = fences.size();
  shared.resolved = std::move(resolved);
  for (Fence &fence : fences) {
    auto id = poller.watch(std::move(fence), deadline, [held = wait->shared_](const FenceResult &result) {
      {
        const std::lock_guard lock(held->mutex);
        held->worst = worse(held->worst, result);
        if (--held->pending > 0) return;
      }
      if (held->resolved) held->resolved();
    });
    if (!id) return id.error(); // the others end with `wait`
    wait->waits_.push_back(*id);
  }
  return wait;
}

FenceWait::~FenceWait() {
  for (const FencePoller::WaitId id : waits_) poller_->cancel(id);
}

std::optional<FenceResult> FenceWait::result() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->pending > 0) return std::nullopt;
  return shared_->worst;
}

} // namespace gstzc
