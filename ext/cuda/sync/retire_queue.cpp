// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/retire_queue.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>

#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// A lost device calls nobody: while something is pending it is asked now and then. Where the device refused to call, it
// is asked often.
constexpr std::chrono::milliseconds kLook{250}, kLookOften{5};

// What the device's calls touch; it holds nothing of CUDA, and outlives the queue where calls are still to come.
struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t called = 0;
};

void countCall(void *data) {
  auto &calls = *static_cast<Calls *>(data);
  const std::lock_guard lock(calls.mutex);
  ++calls.called;
  calls.changed.notify_all(); // with the lock: after it the queue may be gone
}

} // namespace

class RetireQueue::Private {
public:
  struct Entry {
    Entry(CUstream on, bool all, std::function<void()> then)
        : stream(on), behind_all(all), release(std::move(then)), since(Clock::now()) {}
    CUstream stream;
    bool behind_all; // streams that order themselves with the default one
    std::function<void()> release;
    Clock::time_point since;
    Event event;       // after the work; none: the device refused
    uint64_t call = 0; // the number of the call that says that it is done; 0: the device refused
    bool over = false;
  };

  Private(ContextPtr context, Stream notify, std::chrono::milliseconds longest)
      : context_(std::move(context)), notify_(std::move(notify)), longest_(longest) {}
  ~Private();
  Status start();
  void retire(CUstream stream, bool behind_all, std::function<void()> release);
  bool drain(std::chrono::milliseconds timeout);
  size_t pending() const {
    const std::lock_guard lock(calls_->mutex);
    return entries_.size() + releasing_;
  }

private:
  void run();
  void arm(Entry &entry); // with arming_ held and the context current
  bool record(Entry &entry);
  void look(Lock &lock);       // asks the device about all entries
  bool isOver(Entry &entry);   // by asking the device; the context is current
  std::list<Entry> takeDone(); // with the lock held
  Event spareEvent();

  const ContextPtr context_;
  const Stream notify_;
  const std::chrono::milliseconds longest_;
  const std::shared_ptr<Calls> calls_ = std::make_shared<Calls>(); // its mutex is for all that follows
  std::list<Entry> entries_;                                       // only the thread removes
  std::vector<Event> spare_;
  size_t releasing_ = 0;
  bool look_now_ = false, stopping_ = false;
  bool lost_ = false; // the device; the thread's
  std::mutex arming_; // the order of the calls on notify_ is that of the entries; never taken with the other held
  uint64_t made_ = 0; // calls that the device was asked for
  std::thread thread_;
};

Status RetireQueue::Private::start() {
  // signals are the application's: its handlers run on its threads
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  int code = 0;
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "gstzc-retire");
  } catch (const std::system_error &error) {
    code = error.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (code != 0) return Error{"start the thread that releases buffers", code, "The process may be out of threads"};
  return Nothing{};
}

RetireQueue::Private::~Private() {
  const auto end = Clock::now() + longest_;
  if (thread_.joinable()) {
    if (waitPoint("retire-drain")) drain(longest_);
    {
      const std::lock_guard lock(calls_->mutex);
      stopping_ = true;
      calls_->changed.notify_all();
    }
    thread_.join();
  }
  // what was found out by asking is still to be called for
  Lock lock(calls_->mutex);
  const auto called = [this] { return calls_->called >= made_; };
  if (lost_ ? !called() : !calls_->changed.wait_until(lock, end, called)) KeptForGood::add(calls_);
}

Event RetireQueue::Private::spareEvent() {
  {
    const std::lock_guard lock(calls_->mutex);
    if (!spare_.empty()) {
      Event event = std::move(spare_.back());
      spare_.pop_back();
      return event;
    }
  }
  auto made = newEvent(context_);
  return made ? made.take() : Event();
}

bool RetireQueue::Private::record(Entry &entry) {
  const Driver &driver = context_->driver;
  Event event = spareEvent();
  if (!event || driver.cuEventRecord(event.get(), entry.stream) != CUDA_SUCCESS) return false;
  // A wait is work: the default stream comes to it when all those streams are as far as they are told now. The event's
  // second record is behind the wait for its first.
  if (entry.behind_all && waitPoint("retire-all") &&
      (driver.cuStreamWaitEvent(CU_STREAM_LEGACY, event.get(), 0) != CUDA_SUCCESS ||
       driver.cuEventRecord(event.get(), CU_STREAM_LEGACY) != CUDA_SUCCESS))
    return false;
  entry.event = std::move(event);
  return true;
}

// On a stream of the queue, because a host function holds up what comes after it on its own.
void RetireQueue::Private::arm(Entry &entry) {
  const Driver &driver = context_->driver;
  if (!record(entry)) return;
  if (waitPoint("retire-event") && driver.cuStreamWaitEvent(notify_.get(), entry.event.get(), 0) != CUDA_SUCCESS)
    return;
  if (driver.cuLaunchHostFunc(notify_.get(), countCall, calls_.get()) == CUDA_SUCCESS) entry.call = ++made_;
}

void RetireQueue::Private::retire(CUstream stream, bool behind_all, std::function<void()> release) {
  std::list<Entry> one;
  one.emplace_back(stream, behind_all, std::move(release));
  const std::lock_guard order(arming_);
  {
    ContextScope scope(*context_);
    if (scope.status()) arm(one.front());
  }
  const std::lock_guard lock(calls_->mutex);
  entries_.splice(entries_.end(), one);
  calls_->changed.notify_all();
}

bool RetireQueue::Private::drain(std::chrono::milliseconds timeout) {
  Lock lock(calls_->mutex);
  look_now_ = true; // in case that the device is lost
  calls_->changed.notify_all();
  return calls_->changed.wait_for(lock, timeout, [this] { return entries_.empty() && releasing_ == 0; });
}

std::list<RetireQueue::Private::Entry> RetireQueue::Private::takeDone() {
  std::list<Entry> done;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (entry->over || stopping_ || (entry->call != 0 && entry->call <= calls_->called))
      done.splice(done.end(), entries_, entry);
  }
  return done;
}

bool RetireQueue::Private::isOver(Entry &entry) {
  const Driver &driver = context_->driver;
  // a refusal is one only where it is repeated: of a lost device all calls fail from then on
  const auto ended = [&](auto call, auto handle) {
    CUresult result = call(handle);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) result = call(handle);
    lost_ = lost_ || (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY);
    return result != CUDA_ERROR_NOT_READY;
  };
  if (entry.event) return ended(driver.cuEventQuery, entry.event.get());
  // there was no event to be had: all that is on the stream by now is more than needed, and one will do, later
  const auto query = [&] {
    const CUresult own = driver.cuStreamQuery(entry.stream);
    return own == CUDA_SUCCESS && entry.behind_all ? driver.cuStreamQuery(CU_STREAM_LEGACY) : own;
  };
  const CUresult state = query();
  if (state == CUDA_SUCCESS) return true;
  if (state != CUDA_ERROR_NOT_READY && query() == state) return true;
  record(entry);
  return !entry.event && Clock::now() - entry.since > longest_;
}

void RetireQueue::Private::look(Lock &lock) {
  look_now_ = false;
  std::vector<Entry *> asked;
  for (Entry &entry : entries_) asked.push_back(&entry);
  lock.unlock();
  std::vector<Entry *> over;
  {
    ContextScope first(*context_);
    if (first.status()) {
      for (Entry *entry : asked)
        if (isOver(*entry)) over.push_back(entry);
    } else if (!ContextScope(*context_).status()) {
      lost_ = true;
      over = asked;
    }
  }
  lock.lock();
  for (Entry *entry : over) entry->over = true;
}

void RetireQueue::Private::run() {
  Lock lock(calls_->mutex);
  Clock::time_point looked = Clock::now();
  for (;;) {
    std::list<Entry> done = takeDone();
    if (!done.empty()) {
      releasing_ = done.size();
      lock.unlock();
      for (Entry &entry : done) {
        entry.release();
        entry.release = nullptr; // what it holds goes before it counts as released
        const std::lock_guard counted(calls_->mutex);
        if (entry.event) spare_.push_back(std::move(entry.event));
        --releasing_;
        calls_->changed.notify_all();
      }
      lock.lock();
      continue;
    }
    if (stopping_ && entries_.empty()) return;
    if (look_now_) {
      look(lock);
      looked = Clock::now();
      continue;
    }
    const auto woken = [this, before = entries_.size(), called = calls_->called] {
      return stopping_ || look_now_ || entries_.size() != before || calls_->called != called;
    };
    if (entries_.empty()) {
      calls_->changed.wait(lock, woken);
      looked = Clock::now();
      continue;
    }
    const bool refused =
        std::any_of(entries_.begin(), entries_.end(), [](const Entry &entry) { return entry.call == 0; });
    if (!calls_->changed.wait_until(lock, looked + (refused ? kLookOften : kLook), woken)) look_now_ = true;
  }
}

RetireQueue::RetireQueue(std::unique_ptr<Private> p) : p_(std::move(p)) {}
RetireQueue::~RetireQueue() = default;

Result<std::unique_ptr<RetireQueue>> RetireQueue::create(ContextPtr context, std::chrono::milliseconds longest_wait) {
  auto notify = newStream(context);
  if (!notify) return notify.error();
  auto p = std::make_unique<Private>(std::move(context), notify.take(), longest_wait);
  if (auto started = p->start(); !started) return started.error();
  return std::unique_ptr<RetireQueue>(new RetireQueue(std::move(p)));
}

void RetireQueue::retire(CUstream stream, std::function<void()> release) {
  p_->retire(stream, false, std::move(release));
}
void RetireQueue::retireBehindAll(CUstream stream, std::function<void()> release) {
  p_->retire(stream, true, std::move(release));
}
bool RetireQueue::drain(std::chrono::milliseconds timeout) { return p_->drain(timeout); }
size_t RetireQueue::pending() const { return p_->pending(); }

} // namespace gstzc::cuda
