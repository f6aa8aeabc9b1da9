// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_queue.h"

#include <algorithm>

namespace gstzc::infer {
namespace {

bool isEvent(const FrameQueue::Item &item, GstEventType type) {
  return GST_IS_EVENT(item.object) && GST_EVENT_TYPE(item.object) == type;
}

} // namespace

FrameQueue::~FrameQueue() {
  for (GstEvent *event : clear().events) gst_event_unref(event);
  Lock lock(mutex_);
  started_.wait(lock, [this] { return starting_.empty(); }); // of frames that came out of pop(), too
}

void FrameQueue::setCapacity(guint buffers) {
  std::lock_guard lock(mutex_);
  capacity_ = std::max(buffers, 1u);
  room_.notify_all();
}

guint FrameQueue::capacity() const {
  std::lock_guard lock(mutex_);
  return capacity_;
}

void FrameQueue::setWhenFull(WhenFull what) {
  std::lock_guard lock(mutex_);
  if (when_full_ == what) return;
  when_full_ = what;
  room_.notify_all();
}

// --- buffers that come

GstFlowReturn FrameQueue::pushBuffer(GstBuffer *buffer, std::shared_ptr<Work> work, Result<FrameFences> fences,
                                     std::chrono::milliseconds timeout, bool *left_out) {
  Entry entry;
  entry.item.object = GST_MINI_OBJECT_CAST(buffer);
  if (work == nullptr) return push(entry, left_out);
  entry.item.work = std::move(work);
  entry.item.fence.timeout = timeout;
  entry.began = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    entry.id = ++next_id_;
  }
  if (!fences) {
    entry.item.fence.result = fences.error();
  } else if (!fences->none()) {
    auto wait = startWait(entry.id, std::move(*fences), entry.began + timeout);
    if (!wait) {
      entry.item.fence.result = wait.error();
    } else if (const auto over = (*wait)->result()) {
      entry.item.fence.result = *over;
    } else {
      entry.item.fence.waited = true;
      entry.wait = wait.take();
    }
  }
  return push(entry, left_out);
}

GstFlowReturn FrameQueue::pushBuffer(GstBuffer *buffer) {
  Entry entry;
  entry.item.object = GST_MINI_OBJECT_CAST(buffer);
  return push(entry);
}

GstFlowReturn FrameQueue::push(Entry &entry, bool *left_out) {
  const uint64_t id = entry.id;
  const bool passing = onlyPasses(entry);
  GstFlowReturn flow = GST_FLOW_OK;
  bool taken = false, due = false;
  Leaving leaving;
  Lock lock(mutex_);
  while ((flow = stopReason()) == GST_FLOW_OK && !taken) {
    if (in_flight_ < capacity_) {
      taken = true;
    } else if (when_full_ == WhenFull::Block) {
      ++arriving_;
      room_.wait(lock);
      --arriving_;
    } else if (when_full_ == WhenFull::DropNewest || !dropOldest(passing, leaving)) {
      gap_ = true;
      if (left_out != nullptr) *left_out = true;
      break;
    }
  }
  if (taken) {
    entry.item.discont = gap_;
    gap_ = false;
    if (entry.wait == nullptr)
      entry.due = entry.item.work != nullptr;
    else if (entry.wait->result()) // before there was room: its callback found no such entry
      leaving.waits.push_back(endWait(entry));
    due = entry.due;
    ++in_flight_;
    append(std::move(entry));
  } else {
    ++dropped_;
    leaving.buffers.push_back(GST_BUFFER_CAST(entry.item.object));
    abandon(entry, leaving);
  }
  if (!leaving.waits.empty() || !leaving.works.empty() || !leaving.buffers.empty()) {
    lock.unlock();
    seeOff(std::move(leaving));
    lock.lock();
  }
  if (due) startWork(lock, id);
  return flow;
}

// With the lock held. Who waits in pop() is woken for what can come out only: each time costs a change of threads.
void FrameQueue::append(Entry entry) {
  items_.push_back(std::move(entry));
  if (items_.size() == 1 && frontIsReady()) front_.notify_one();
}

// With the lock held, for a new one that is `passing` or not: else frames that pass, which nothing but their turn
// holds, would drive out the few that are to be looked at.
bool FrameQueue::dropOldest(bool passing, Leaving &leaving) {
  auto oldest = std::find_if(items_.begin(), items_.end(), onlyPasses);
  if (oldest == items_.end() && !passing)
    oldest = std::find_if(items_.begin(), items_.end(), [](const Entry &entry) {
      return entry.item.work != nullptr && !entry.done && entry.item.work->giveUp();
    });
  if (oldest == items_.end()) return false;
  leaving.buffers.push_back(GST_BUFFER_CAST(oldest->item.object));
  abandon(*oldest, leaving);
  const auto next = items_.erase(oldest);
  const auto after =
      std::find_if(next, items_.end(), [](const Entry &entry) { return GST_IS_BUFFER(entry.item.object); });
  (after != items_.end() ? after->item.discont : gap_) = true;
  --in_flight_;
  ++dropped_;
  if (frontIsReady()) front_.notify_one();
  return true;
}

// --- events and queries

GstFlowReturn FrameQueue::pushEvent(GstEvent *event) {
  std::unique_lock lock(mutex_);
  if (stopped()) {
    if (keepForLater(event)) return GST_FLOW_OK;
    const GstFlowReturn reason = stopReason();
    lock.unlock();
    gst_event_unref(event);
    return reason;
  }
  if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT) flow_ = GST_FLOW_OK;
  append({.item = {.object = GST_MINI_OBJECT_CAST(event)}});
  return GST_FLOW_OK;
}

// With the lock held: takes it where it does. One of each kind since the last buffer: whoever sends them to an element
// without downstream may do so for ever.
bool FrameQueue::keepForLater(GstEvent *event) {
  const GstEventType type = GST_EVENT_TYPE(event);
  const auto flags = gst_event_type_get_flags(type);
  if (flushing_ || flow_ != GST_FLOW_NOT_LINKED || type == GST_EVENT_EOS || (flags & GST_EVENT_TYPE_STICKY) == 0)
    return false;
  for (auto entry = items_.rbegin(); entry != items_.rend() && GST_IS_EVENT(entry->item.object); ++entry) {
    auto *const other = GST_EVENT_CAST(entry->item.object);
    if (GST_EVENT_TYPE(other) != type) continue;
    if ((flags & GST_EVENT_TYPE_STICKY_MULTI) != 0 && gst_event_get_structure(other) != nullptr &&
        !gst_event_has_name_id(event, gst_structure_get_name_id(gst_event_get_structure(other))))
      continue;
    entry->item.object = GST_MINI_OBJECT_CAST(event); // in its place: their order is a rule
    gst_event_unref(other);
    return true;
  }
  append({.item = {.object = GST_MINI_OBJECT_CAST(event)}});
  return true;
}

bool FrameQueue::pushQuery(GstQuery *query) {
  std::unique_lock lock(mutex_);
  // serialized queries come from the one streaming thread; a second one at the same time has no place
  if (stopped() || query_ != QueryState::None) return false;
  query_ = QueryState::Waiting;
  query_result_ = false;
  append({.item = {.object = GST_MINI_OBJECT_CAST(query)}});
  answered_.wait(lock, [this] { return query_ == QueryState::Answered || (stopped() && !query_popped_); });
  dropQueries();
  query_ = QueryState::None;
  return query_result_;
}

// --- what leaves

// With the lock held: whether anything comes, is taken or stays is another matter now.
void FrameQueue::wakeAll() {
  room_.notify_all();
  front_.notify_all();
  answered_.notify_all();
}

bool FrameQueue::frontIsReady() const {
  return !items_.empty() && (items_.front().item.work == nullptr || items_.front().done);
}

std::optional<FrameQueue::Item> FrameQueue::pop() {
  Lock lock(mutex_);
  front_.wait(lock, [this] { return stopped() || frontIsReady(); });
  if (stopped()) return std::nullopt;
  Item item = std::move(items_.front().item);
  items_.pop_front();
  if (GST_IS_QUERY(item.object)) query_popped_ = true;
  return item;
}

void FrameQueue::finishedBuffer() {
  {
    std::lock_guard lock(mutex_);
    if (in_flight_ > 0) --in_flight_;
  }
  room_.notify_one();
}

void FrameQueue::answered(bool result) {
  std::lock_guard lock(mutex_);
  query_result_ = result;
  query_ = QueryState::Answered;
  query_popped_ = false;
  answered_.notify_all();
}

guint64 FrameQueue::endSegment() {
  Leaving leaving;
  {
    std::lock_guard lock(mutex_);
    const auto next = std::find_if(items_.begin(), items_.end(),
                                   [](const Entry &entry) { return isEvent(entry.item, GST_EVENT_SEGMENT); });
    if (next == items_.end()) flow_ = GST_FLOW_EOS;
    for (auto entry = items_.begin(); entry != next; ++entry) {
      if (!GST_IS_BUFFER(entry->item.object)) continue;
      leaving.buffers.push_back(GST_BUFFER_CAST(entry->item.object));
      abandon(*entry, leaving);
    }
    items_.erase(
        std::remove_if(items_.begin(), next, [](const Entry &entry) { return GST_IS_BUFFER(entry.item.object); }),
        next);
    in_flight_ -= std::min(in_flight_, static_cast<guint>(leaving.buffers.size()));
    dropped_ += leaving.buffers.size();
    wakeAll();
  }
  const guint64 dropped = leaving.buffers.size();
  seeOff(std::move(leaving));
  return dropped;
}

bool FrameQueue::setFlow(GstFlowReturn r) {
  Leaving leaving;
  bool ends = false;
  {
    const std::lock_guard lock(mutex_);
    flow_ = r;
    if (stopped() && flow_ != GST_FLOW_NOT_LINKED) abandonAll(leaving);
    ends = std::any_of(items_.begin(), items_.end(),
                       [](const Entry &entry) { return isEvent(entry.item, GST_EVENT_EOS); });
    wakeAll();
  }
  seeOff(std::move(leaving));
  return ends;
}

GstFlowReturn FrameQueue::flow() const {
  std::lock_guard lock(mutex_);
  return stopReason();
}

void FrameQueue::setFlushing() {
  Leaving leaving;
  {
    const std::lock_guard lock(mutex_);
    flushing_ = true;
    abandonAll(leaving);
    wakeAll();
  }
  seeOff(std::move(leaving));
}

void FrameQueue::start() {
  std::lock_guard lock(mutex_);
  flushing_ = false;
  flow_ = GST_FLOW_OK;
  wakeAll();
}

bool FrameQueue::restart() {
  std::lock_guard lock(mutex_);
  if (flushing_ || flow_ != GST_FLOW_NOT_LINKED) return false;
  flow_ = GST_FLOW_OK;
  wakeAll();
  return true;
}

bool FrameQueue::closed() const {
  std::lock_guard lock(mutex_);
  return stopped();
}

FrameQueue::Cleared FrameQueue::clear() {
  Cleared cleared;
  Leaving leaving;
  {
    std::lock_guard lock(mutex_);
    for (const Entry &entry : items_) {
      if (GST_IS_BUFFER(entry.item.object))
        leaving.buffers.push_back(GST_BUFFER_CAST(entry.item.object));
      else if (GST_IS_EVENT(entry.item.object))
        cleared.events.push_back(GST_EVENT_CAST(entry.item.object));
    }
    abandonAll(leaving);
    items_.clear();
    gap_ = false;
    if (query_ == QueryState::Waiting && !query_popped_) query_ = QueryState::Answered; // with false: nobody will
    cleared.buffers = leaving.buffers.size();
    in_flight_ -= std::min(in_flight_, static_cast<guint>(leaving.buffers.size()));
    dropped_ += leaving.buffers.size();
    wakeAll();
  }
  seeOff(std::move(leaving));
  return cleared;
}

bool FrameQueue::drains() const {
  std::lock_guard lock(mutex_);
  if (items_.empty()) return false;
  const Item &last = items_.back().item;
  return GST_IS_QUERY(last.object) || isEvent(last, GST_EVENT_EOS);
}

guint FrameQueue::inFlight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

guint FrameQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return static_cast<guint>(std::count_if(
      items_.begin(), items_.end(), [](const Entry &entry) { return entry.item.work != nullptr && !entry.done; }));
}

FrameQueue::Counts FrameQueue::counts() const {
  std::lock_guard lock(mutex_);
  return {in_flight_ + arriving_, dropped_};
}

void FrameQueue::dropQueries() {
  std::erase_if(items_, [](const Entry &entry) { return GST_IS_QUERY(entry.item.object); });
}

} // namespace gstzc::infer
