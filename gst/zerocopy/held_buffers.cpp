// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/held_buffers.h"

#include <cerrno>
#include <mutex>
#include <unordered_map>

namespace gstzc {

// Buffers are given back with the lock held, so that after takeBack() none is on its way. Waits end without it: that
// may have to wait for their callback.
struct HeldBuffers::State {
  struct Entry {
    GstBuffer *buffer = nullptr;
    std::unique_ptr<FenceWait> wait; // null while it is being started
    bool over = false;               // ended before it was here
  };
  using Entries = std::unordered_map<uint64_t, Entry>;

  [[nodiscard]] std::unique_ptr<FenceWait> finish(Entries::iterator it, const FenceResult &result) {
    Entry entry = std::move(it->second);
    entries.erase(it);
    give_back(entry.buffer, result);
    return std::move(entry.wait);
  }

  std::mutex mutex;
  GiveBack give_back;
  Entries entries;
  uint64_t next = 1;
};

HeldBuffers::HeldBuffers(GiveBack give_back, FencePoller &poller) : state_(std::make_shared<State>()), poller_(poller) {
  state_->give_back = std::move(give_back);
}

HeldBuffers::~HeldBuffers() { takeBack(); }

void HeldBuffers::hold(GstBuffer *buffer, std::vector<Fence> fences, std::chrono::nanoseconds timeout) {
  uint64_t id;
  {
    const std::lock_guard lock(state_->mutex);
    id = state_->next++;
    state_->entries[id].buffer = buffer;
  }

  const auto resolved = [weak = std::weak_ptr(state_), id] {
    const auto state = weak.lock();
    if (!state) return;
    std::unique_ptr<FenceWait> ended;
    const std::lock_guard lock(state->mutex);
    const auto it = state->entries.find(id);
    if (it == state->entries.end()) return; // taken back
    if (it->second.wait)
      ended = state->finish(it, *it->second.wait->result());
    else
      it->second.over = true;
  };
  auto started = FenceWait::start(std::move(fences), FencePoller::Clock::now() + timeout, resolved, poller_);

  std::unique_ptr<FenceWait> wait, ended;
  if (started) wait = started.take();
  const std::lock_guard lock(state_->mutex);
  const auto it = state_->entries.find(id);
  if (it == state_->entries.end()) return; // taken back meanwhile
  if (!wait) {
    ended = state_->finish(it, {FenceOutcome::Failed, started.error().code, 0});
  } else if (it->second.over || wait->result()) {
    it->second.wait = std::move(wait);
    ended = state_->finish(it, *it->second.wait->result());
  } else {
    it->second.wait = std::move(wait);
  }
}

void HeldBuffers::takeBack() {
  State::Entries all; // ends without the lock
  const std::lock_guard lock(state_->mutex);
  all.swap(state_->entries);
  for (const auto &[id, entry] : all) state_->give_back(entry.buffer, {FenceOutcome::Cancelled, ECANCELED, 0});
}

size_t HeldBuffers::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->entries.size();
}

} // namespace gstzc
