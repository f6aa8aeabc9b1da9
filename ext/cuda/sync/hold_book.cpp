// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/hold_book.h"

#include <algorithm>
#include <cerrno>

namespace gstzc::cuda {
namespace {

constexpr FenceResult kCancelled{FenceOutcome::Cancelled, ECANCELED, 0};

} // namespace

Result<HoldBook::HoldPtr> HoldBook::begin(std::vector<Fence> fences, FencePoller::Clock::time_point deadline,
                                          Ended ended, FencePoller &poller) {
  auto hold = std::make_shared<Hold>();
  auto wait = FenceWait::start(
      std::move(fences), deadline, [self = shared_from_this(), hold] { self->resolved(hold); }, poller);
  if (!wait) return wait.error();
  if (const auto result = (*wait)->result()) { // resolved() leaves what is not enqueued alone
    wait->reset();
    if (ended) ended(*result);
    return HoldPtr();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!open_) {
      hold->ended = std::move(ended);
      hold->wait = wait.take();
      hold->ticket = ++last_;
      holds_.push_back(hold);
      return hold;
    }
  }
  wait->reset();
  if (ended) ended(kCancelled);
  return HoldPtr();
}

void HoldBook::commit(const HoldPtr &hold) {
  Lock lock(mutex_);
  hold->enqueued = true;
  if (hold->over || hold->opened) settle(lock, hold);
}

void HoldBook::drop(const HoldPtr &hold) {
  Lock lock(mutex_);
  hold->settled = true;
  auto wait = std::move(hold->wait);
  auto ended = std::move(hold->ended);
  lock.unlock();
  wait.reset();
  ended = nullptr;
  lock.lock();
  hold->passed = true;
  advance();
}

void HoldBook::resolved(const HoldPtr &hold) {
  Lock lock(mutex_);
  hold->over = true;
  if (hold->enqueued && !hold->settled) settle(lock, hold);
}

// Tells how the fences ended, without the lock: its owner may be in the callback of them that wants it.
void HoldBook::settle(Lock &lock, const HoldPtr &hold) {
  hold->settled = true;
  const FenceResult result = hold->wait->result().value_or(kCancelled);
  auto wait = std::move(hold->wait);
  const auto ended = std::move(hold->ended);
  lock.unlock();
  wait.reset();
  if (ended) ended(result);
  lock.lock();
  hold->passed = true;
  advance();
}

void HoldBook::advance() {
  if (holds_.empty() || !holds_.front()->passed) return;
  uint32_t ticket = 0;
  for (; !holds_.empty() && holds_.front()->passed; holds_.pop_front()) ticket = holds_.front()->ticket;
  pass_(ticket);
  changed_.notify_all();
}

void HoldBook::open() {
  Lock lock(mutex_);
  const std::vector<HoldPtr> waiting(holds_.begin(), holds_.end());
  for (const HoldPtr &hold : waiting) hold->opened = true;
  for (const HoldPtr &hold : waiting)
    if (hold->enqueued && !hold->settled) settle(lock, hold);
}

void HoldBook::keepOpen(bool on) {
  {
    const std::lock_guard lock(mutex_);
    open_ = on;
  }
  if (on) open();
}

void HoldBook::waitUntilEmpty() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return holds_.empty(); });
}

size_t HoldBook::pending() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(holds_.begin(), holds_.end(), [](const HoldPtr &hold) {
    return !hold->over && !hold->opened && !hold->settled;
  }));
}

} // namespace gstzc::cuda
