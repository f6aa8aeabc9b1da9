// SPDX-License-Identifier: LGPL-2.1-or-later
// What is done with buffers between the end of their fences and their turn to leave, and how that ends early.
#include "gst/infer/stream/frame_queue.h"

#include <algorithm>
#include <cerrno>

namespace gstzc::infer {

Result<std::unique_ptr<FenceWait>> FrameQueue::startWait(uint64_t id, FrameFences fences, Clock::time_point deadline) {
  return FenceWait::start(std::move(fences).take(), deadline, [this, id] { fencesOver(id); });
}

FrameQueue::Entry *FrameQueue::find(uint64_t id) {
  const auto it = std::find_if(items_.begin(), items_.end(), [id](const Entry &entry) { return entry.id == id; });
  return it != items_.end() ? &*it : nullptr;
}

FrameQueue::Entry *FrameQueue::find(const Work *work) {
  const auto it =
      std::find_if(items_.begin(), items_.end(), [work](const Entry &entry) { return entry.item.work.get() == work; });
  return it != items_.end() ? &*it : nullptr;
}

bool FrameQueue::starting(uint64_t id) const {
  return std::any_of(starting_.begin(), starting_.end(), [id](const Starting &s) { return s.id == id; });
}

// With the lock held, of a wait that is over; what it returns ends without the lock.
std::unique_ptr<FenceWait> FrameQueue::endWait(Entry &entry) {
  const FenceResult result = *entry.wait->result();
  const Clock::time_point end{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(result.time_ns))};
  entry.item.fence.result = result;
  // a fence may have signalled before it was seen as pending
  entry.item.fence.wait += std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(end - entry.began));
  entry.due = true;
  return std::move(entry.wait);
}

// From the wait's callback.
void FrameQueue::fencesOver(uint64_t id) {
  // the work may hold the last reference, and the queue cannot go before its start() has returned
  const std::shared_ptr<FrameQueue> self = weak_from_this().lock();
  std::unique_ptr<FenceWait> wait;
  Lock lock(mutex_);
  Entry *entry = find(id);
  if (entry == nullptr || entry->wait == nullptr || !entry->wait->result()) return;
  wait = endWait(*entry);
  startWork(lock, id);
}

// Returns with the lock held. Calls of one work follow each other: who finds it being started leaves it to that thread.
void FrameQueue::startWork(Lock &lock, uint64_t id) {
  if (starting(id)) return;
  starting_.push_back({id, std::this_thread::get_id()});
  for (Entry *entry = find(id); entry != nullptr && entry->due; entry = find(id)) {
    entry->due = false;
    std::shared_ptr<Work> work = entry->item.work;
    const FenceEnd end = entry->item.fence;
    lock.unlock();
    work->start(end);
    work.reset();
    lock.lock();
  }
  const auto self = [&] {
    return std::find_if(starting_.begin(), starting_.end(), [id](const Starting &s) { return s.id == id; });
  };
  if (std::shared_ptr<Work> work = std::move(self()->abandoned)) {
    lock.unlock();
    work->abandoned();
    work.reset();
    lock.lock();
  }
  starting_.erase(self());
  started_.notify_all();
}

void FrameQueue::done(const Work *work) {
  std::unique_ptr<FenceWait> wait; // ends when the lock is gone
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    Entry *entry = find(work);
    if (entry == nullptr) return;
    wait = std::move(entry->wait);
    entry->due = false;
    entry->done = true;
    first = entry == &items_.front();
  }
  if (first) front_.notify_one(); // without the lock, or who wakes would wait for it
}

void FrameQueue::waitAgain(const Work *work, Result<FrameFences> fences, std::chrono::milliseconds timeout) {
  std::unique_ptr<FenceWait> wait, before;
  Lock lock(mutex_);
  Entry *entry = find(work);
  if (entry == nullptr || entry->done) return;
  const uint64_t id = entry->id;
  before = std::move(entry->wait);
  entry->began = Clock::now();
  entry->item.fence.timeout = timeout;
  Result<FenceResult> result = FenceResult{};
  if (!fences) {
    result = fences.error();
  } else if (!fences->none()) {
    const Clock::time_point deadline = entry->began + timeout;
    lock.unlock();
    before.reset();
    auto started = startWait(id, std::move(*fences), deadline);
    if (started)
      wait = started.take();
    else
      result = started.error();
    lock.lock();
    entry = find(work); // by now it may be abandoned
    if (entry == nullptr || entry->done) return;
  }
  if (wait != nullptr) {
    const auto over = wait->result();
    if (!over) {
      entry->wait = std::move(wait);
      entry->item.fence.waited = true;
      return;
    }
    result = *over;
  }
  entry->item.fence.result = result;
  entry->due = true;
  lock.unlock();
  before.reset();
  wait.reset();
  lock.lock();
  startWork(lock, id);
}

// --- what is abandoned

// With the lock held: of a buffer that is not to be worked on any more.
void FrameQueue::abandon(Entry &entry, Leaving &leaving) {
  if (entry.wait != nullptr) leaving.waits.push_back(std::move(entry.wait));
  if (entry.item.work == nullptr) return;
  entry.due = false;
  entry.item.fence.result = FenceResult{FenceOutcome::Cancelled, ECANCELED, 0};
  const auto starting =
      std::find_if(starting_.begin(), starting_.end(), [&](const Starting &s) { return s.id == entry.id; });
  if (starting == starting_.end()) {
    leaving.works.push_back(std::move(entry.item.work));
  } else {
    starting->abandoned = std::move(entry.item.work);
  }
}

// With the lock held.
void FrameQueue::abandonAll(Leaving &leaving) {
  for (Entry &entry : items_) abandon(entry, leaving);
}

// Without the lock. When it returns, no start() is running that ran when it was called, and nothing more is called of
// works that have left.
void FrameQueue::seeOff(Leaving leaving) {
  leaving.waits.clear();
  for (auto &work : leaving.works) work->abandoned();
  leaving.works.clear();
  {
    Lock lock(mutex_);
    std::vector<uint64_t> running;
    bool inside = false;
    for (const Starting &s : starting_) {
      running.push_back(s.id);
      inside = inside || s.thread == std::this_thread::get_id();
    }
    // two threads that start works must not wait for each other, nor one for itself
    if (!inside)
      started_.wait(lock, [&] {
        return std::none_of(running.begin(), running.end(), [this](uint64_t id) { return starting(id); });
      });
  }
  for (GstBuffer *buffer : leaving.buffers) gst_buffer_unref(buffer); // may go back to a pool, which takes other locks
}

} // namespace gstzc::infer
