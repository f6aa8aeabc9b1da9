// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/cuda_event.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include <sys/eventfd.h>

#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::cuda {
namespace {

constexpr int kPending = 0, kDone = 1, kLost = -EIO; // as in GstZcDeviceEventFuncs::status

// How an event ended, without CUDA: host functions write it, and whoever waits on the poller's thread reads it.
struct Ending {
  std::atomic<int> status = kPending;
  std::shared_ptr<std::atomic<int>> failure;

  int done() {
    const int code = failure ? std::abs(failure->load()) : 0;
    return settle(code == 0 ? kDone : -code);
  }
  // The first to find out decides.
  int settle(int now) {
    int before = kPending;
    return status.compare_exchange_strong(before, now) ? now : before;
  }
};

void signal(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(fd, &one, sizeof one); // full means it is readable already
}

struct Waker;

// Descriptors that the device still has to write.
struct Wakers {
  std::mutex mutex;
  std::set<Waker *> waiting;
};

struct Waker {
  std::shared_ptr<Wakers> all;
  std::shared_ptr<Ending> ending;
  UniqueFd fd;
};

// The host function of a Waker: no call of CUDA is allowed here.
void wake(void *data) {
  const std::unique_ptr<Waker> waker(static_cast<Waker *>(data));
  waker->ending->done(); // before the descriptor says so
  signal(waker->fd.get());
  const std::lock_guard lock(waker->all->mutex);
  waker->all->waiting.erase(waker.get());
}

class Source final : public EventSource, public std::enable_shared_from_this<Source> {
public:
  Source(ContextPtr context, Stream notify) : context_(std::move(context)), notify_(std::move(notify)) {}
  ~Source() override {
    const std::lock_guard lock(wakers_->mutex);
    if (lost_ && !wakers_->waiting.empty()) KeptForGood::add(wakers_); // nobody calls them
  }

  Result<GstZcDeviceEvent *> record(CUstream stream, std::shared_ptr<std::atomic<int>> failure) override;

  int status(CUevent event, Ending &ending);
  int makeFd(CUevent event, const std::shared_ptr<Ending> &ending);
  // No call of CUDA: the last reference may go on a thread that must not wait for the driver.
  void giveBack(Event event) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(event));
  }

private:
  Result<Event> takeEvent();
  bool enqueueWake(CUevent event, std::unique_ptr<Waker> &waker);
  void allIsLost();

  const ContextPtr context_;
  const Stream notify_;
  const std::shared_ptr<Wakers> wakers_ = std::make_shared<Wakers>();
  std::atomic<bool> lost_ = false;
  std::mutex mutex_; // of the spare events
  std::vector<Event> spare_;
};

struct CudaEvent {
  std::shared_ptr<Source> source;
  Event event;
  std::shared_ptr<Ending> ending;
};

CudaEvent &eventOf(gpointer data) { return *static_cast<CudaEvent *>(data); }

const GstZcDeviceEventFuncs event_funcs = {
    kCudaEventKind,
    [](gpointer data) -> gint {
      return eventOf(data).source->status(eventOf(data).event.get(), *eventOf(data).ending);
    },
    [](gpointer data) -> gint { return eventOf(data).source->makeFd(eventOf(data).event.get(), eventOf(data).ending); },
    [](gpointer data) -> gpointer { return eventOf(data).event.get(); },
    [](gpointer data) {
      const std::unique_ptr<CudaEvent> event(&eventOf(data));
      event->source->giveBack(std::move(event->event));
    },
    {},
};

Result<Event> Source::takeEvent() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      Event event = std::move(spare_.back());
      spare_.pop_back();
      return event;
    }
  }
  return newEvent(context_);
}

Result<GstZcDeviceEvent *> Source::record(CUstream stream, std::shared_ptr<std::atomic<int>> failure) {
  auto event = takeEvent();
  if (!event) return event.error();
  CUresult result;
  {
    ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current.error();
    result = context_->driver.cuEventRecord(event->get(), stream);
  }
  if (auto status = context_->driver.check(result, "cuEventRecord"); !status) {
    giveBack(event.take());
    return status.error();
  }
  auto ending = std::make_shared<Ending>();
  ending->failure = std::move(failure);
  return gst_zc_device_event_new(&event_funcs, new CudaEvent{shared_from_this(), event.take(), std::move(ending)});
}

int Source::status(CUevent event, Ending &ending) {
  if (const int known = ending.status.load(); known != kPending) return known;
  CUresult result = CUDA_SUCCESS;
  // a refusal is one only where it is repeated: of a lost device all calls fail from then on
  for (int attempt = 0; attempt < 2; ++attempt) {
    ContextScope scope(*context_);
    if (!scope.status()) {
      result = CUDA_ERROR_INVALID_CONTEXT;
      continue;
    }
    result = context_->driver.cuEventQuery(event);
    if (result == CUDA_SUCCESS) return ending.done();
    if (result == CUDA_ERROR_NOT_READY) return kPending;
  }
  const int settled = ending.settle(kLost);
  allIsLost();
  return settled;
}

// Host functions are not called any more: whoever waits for one learns it here.
void Source::allIsLost() {
  lost_ = true;
  const std::lock_guard lock(wakers_->mutex);
  for (Waker *waker : wakers_->waiting) {
    waker->ending->settle(kLost);
    signal(waker->fd.get());
  }
}

int Source::makeFd(CUevent event, const std::shared_ptr<Ending> &ending) {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.isValid()) return -errno;
  auto waker = std::make_unique<Waker>(Waker{wakers_, ending, UniqueFd::duplicate(fd.get())});
  if (!waker->fd.isValid()) return -errno;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (status(event, *ending) != kPending) {
      signal(fd.get());
      return fd.release();
    }
    if (enqueueWake(event, waker)) return fd.release();
  }
  return -EIO;
}

// On a stream of the source: a host function holds up what comes after it on its own.
bool Source::enqueueWake(CUevent event, std::unique_ptr<Waker> &waker) {
  ContextScope scope(*context_);
  if (!scope.status()) return false;
  const Driver &driver = context_->driver;
  if (waitPoint("event-fd") && driver.cuStreamWaitEvent(notify_.get(), event, 0) != CUDA_SUCCESS) return false;
  Waker *raw = waker.get();
  {
    const std::lock_guard lock(wakers_->mutex);
    wakers_->waiting.insert(raw);
  }
  if (driver.cuLaunchHostFunc(notify_.get(), wake, raw) == CUDA_SUCCESS) {
    [[maybe_unused]] Waker *owned = waker.release(); // by the call
    return true;
  }
  const std::lock_guard lock(wakers_->mutex);
  wakers_->waiting.erase(raw);
  return false;
}

} // namespace

Result<std::shared_ptr<EventSource>> EventSource::create(ContextPtr context) {
  auto notify = newStream(context);
  if (!notify) return notify.error();
  return std::shared_ptr<EventSource>(std::make_shared<Source>(std::move(context), notify.take()));
}

bool isCudaEvent(GstZcDeviceEvent *event) {
  return std::strcmp(gst_zc_device_event_get_kind(event), kCudaEventKind) == 0;
}

bool waitForCudaEvent(const CudaContext &context, CUstream stream, GstZcDeviceEvent *event, Status *status) {
  if (!isCudaEvent(event)) return false;
  Status enqueued = Nothing{};
  if (waitPoint("event-to-stream")) {
    ContextScope scope(context);
    enqueued = scope.status();
    if (enqueued) {
      auto handle = static_cast<CUevent>(gst_zc_device_event_get_native(event));
      enqueued = context.driver.check(context.driver.cuStreamWaitEvent(stream, handle, 0), "cuStreamWaitEvent");
    }
  }
  if (status != nullptr) *status = std::move(enqueued);
  return true;
}

} // namespace gstzc::cuda
