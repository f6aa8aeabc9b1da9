// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/teardown_watch.h"

#include <chrono>
#include <mutex>
#include <utility>

#include <sys/eventfd.h>

namespace gstzc::cuda {

bool goesDown(GstElement *element) {
  auto *object = GST_OBJECT_CAST(gst_object_ref(element));
  bool down = false;
  while (object != nullptr && !down) {
    if (!GST_IS_ELEMENT(object)) break;
    auto *here = GST_ELEMENT_CAST(object);
    GST_OBJECT_LOCK(here);
    // a bin that never was up says nothing of elements whose state somebody else sets
    down = GST_STATE(here) >= GST_STATE_PAUSED && GST_STATE_TARGET(here) < GST_STATE_PAUSED;
    GST_OBJECT_UNLOCK(here);
    GstObject *parent = gst_element_is_locked_state(here) ? nullptr : gst_object_get_parent(object);
    gst_object_unref(object);
    object = parent;
  }
  gst_clear_object(&object);
  return down;
}

struct TeardownWatch::Shared : std::enable_shared_from_this<Shared> {
  Shared(GstElement *of, std::function<bool()> is_pending, std::function<void()> then, FencePoller &by)
      : element(of), pending(std::move(is_pending)), goes_down(std::move(then)), poller(by),
        never(eventfd(0, EFD_CLOEXEC)) {}

  GstElement *const element;
  const std::function<bool()> pending;
  const std::function<void()> goes_down;
  FencePoller &poller;
  const UniqueFd never;

  std::mutex mutex;
  FencePoller::WaitId wait = 0; // 0: none
  bool closed = false;

  // with the mutex held
  void watch() {
    wait = 0;
    if (closed) return;
    const auto next = FencePoller::Clock::now() + std::chrono::milliseconds(20);
    auto id = poller.watch({Fence::Kind::Event, UniqueFd::duplicate(never.get()), {}}, next,
                           [self = shared_from_this()](const FenceResult &) { self->look(); });
    wait = id ? *id : 0; // without it the fence's own deadline is what ends the wait
  }

  void look() {
    {
      const std::lock_guard lock(mutex);
      if (!pending()) {
        wait = 0;
        return;
      }
    }
    if (goesDown(element)) goes_down();
    const std::lock_guard lock(mutex);
    watch();
  }
};

TeardownWatch::TeardownWatch(GstElement *element, std::function<bool()> pending, std::function<void()> goes_down,
                             FencePoller &poller)
    : shared_(std::make_shared<Shared>(element, std::move(pending), std::move(goes_down), poller)) {}

TeardownWatch::~TeardownWatch() {
  FencePoller::WaitId wait;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->closed = true;
    wait = shared_->wait;
  }
  if (wait != 0) shared_->poller.cancel(wait); // where it runs, it has returned then
}

void TeardownWatch::arm() {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->wait == 0) shared_->watch();
}

} // namespace gstzc::cuda
