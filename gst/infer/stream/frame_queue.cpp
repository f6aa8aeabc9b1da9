// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_queue.h"

#include <algorithm>
#include <cerrno>

namespace gstzc::infer {
namespace {

bool isEvent(const FrameQueue::Item &item, GstEventType type) {
  return GST_IS_EVENT(item.object) && GST_EVENT_TYPE(item.object) == type;
}

} // namespace

FrameQueue::~FrameQueue() {
  for (GstEvent *event : clear().events) gst_event_unref(event);
}

void FrameQueue::setCapacity(guint buffers) {
  std::lock_guard lock(mutex_);
  capacity_ = std::max(buffers, 1u);
  changed_.notify_all();
}

Result<std::unique_ptr<FenceWait>> FrameQueue::startWait(FrameFences fences, Clock::time_point deadline) {
  return FenceWait::start(std::move(fences).take(), deadline, [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
}

GstFlowReturn FrameQueue::pushBuffer(GstBuffer *buffer, Result<FrameFences> fences, std::chrono::milliseconds timeout) {
  Entry entry;
  entry.item.object = GST_MINI_OBJECT_CAST(buffer);
  entry.item.fence.timeout = timeout;
  entry.arrival = Clock::now();
  if (!fences) {
    entry.item.fence.result = fences.error();
  } else if (!fences->none()) {
    auto wait = startWait(std::move(*fences), entry.arrival + timeout);
    if (!wait) {
      entry.item.fence.result = wait.error();
    } else if (const auto over = (*wait)->result()) {
      entry.item.fence.result = *over;
    } else {
      entry.item.fence.waited = true;
      entry.wait = wait.take();
    }
  }

  std::unique_lock lock(mutex_);
  const auto refused = [this] { return stopReason() != GST_FLOW_OK; };
  changed_.wait(lock, [&] { return refused() || in_flight_ < capacity_; });
  if (refused()) {
    const GstFlowReturn reason = stopReason();
    lock.unlock();
    gst_buffer_unref(buffer);
    return reason;
  }
  ++in_flight_;
  items_.push_back(std::move(entry));
  changed_.notify_all();
  return GST_FLOW_OK;
}

GstFlowReturn FrameQueue::pushEvent(GstEvent *event) {
  std::unique_lock lock(mutex_);
  if (stopped()) {
    const GstFlowReturn reason = stopReason();
    lock.unlock();
    gst_event_unref(event);
    return reason;
  }
  if (GST_EVENT_TYPE(event) == GST_EVENT_SEGMENT) flow_ = GST_FLOW_OK;
  items_.push_back({{GST_MINI_OBJECT_CAST(event), {}}, {}, nullptr});
  changed_.notify_all();
  return GST_FLOW_OK;
}

bool FrameQueue::pushQuery(GstQuery *query) {
  std::unique_lock lock(mutex_);
  // serialized queries come from the one streaming thread; a second one at the same time has no place
  if (stopped() || query_ != QueryState::None) return false;
  query_ = QueryState::Waiting;
  query_result_ = false;
  items_.push_back({{GST_MINI_OBJECT_CAST(query), {}}, {}, nullptr});
  changed_.notify_all();
  changed_.wait(lock, [this] { return query_ == QueryState::Answered || (stopped() && !query_popped_); });
  dropQueries();
  query_ = QueryState::None;
  return query_result_;
}

bool FrameQueue::frontIsReady() const {
  return !items_.empty() && (items_.front().wait == nullptr || items_.front().wait->result().has_value());
}

std::optional<FrameQueue::Item> FrameQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped() || frontIsReady(); });
  if (stopped()) return std::nullopt;
  Entry entry = std::move(items_.front());
  items_.pop_front();
  if (GST_IS_QUERY(entry.item.object)) query_popped_ = true;
  lock.unlock();
  if (entry.wait != nullptr) {
    const FenceResult result = *entry.wait->result();
    const Clock::time_point end{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(result.time_ns))};
    entry.item.fence.result = result;
    // a fence may have signalled before it was seen as pending
    entry.item.fence.wait = std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(end - entry.arrival));
  }
  return std::move(entry.item);
}

void FrameQueue::waitAgain(Item &item, Result<FrameFences> fences, std::chrono::milliseconds timeout) {
  if (fences && fences->none()) return;
  const auto start = Clock::now();
  item.fence.timeout = timeout;
  if (!fences) {
    item.fence.result = fences.error();
    return;
  }
  auto wait = startWait(std::move(*fences), start + timeout);
  if (!wait) {
    item.fence.result = wait.error();
    return;
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped() || (*wait)->result().has_value(); });
  }
  item.fence.result = (*wait)->result().value_or(FenceResult{FenceOutcome::Cancelled, ECANCELED, 0});
  item.fence.waited = true;
  item.fence.wait += Clock::now() - start;
}

void FrameQueue::finishedBuffer() {
  std::lock_guard lock(mutex_);
  if (in_flight_ > 0) --in_flight_;
  changed_.notify_all();
}

void FrameQueue::answered(bool result) {
  std::lock_guard lock(mutex_);
  query_result_ = result;
  query_ = QueryState::Answered;
  query_popped_ = false;
  changed_.notify_all();
}

guint64 FrameQueue::endSegment() {
  std::vector<GstBuffer *> buffers;
  Waits waits;
  {
    std::lock_guard lock(mutex_);
    const auto next = std::find_if(items_.begin(), items_.end(),
                                   [](const Entry &entry) { return isEvent(entry.item, GST_EVENT_SEGMENT); });
    if (next == items_.end()) flow_ = GST_FLOW_EOS;
    for (auto entry = items_.begin(); entry != next; ++entry) {
      if (!GST_IS_BUFFER(entry->item.object)) continue;
      buffers.push_back(GST_BUFFER_CAST(entry->item.object));
      waits.push_back(std::move(entry->wait));
    }
    items_.erase(
        std::remove_if(items_.begin(), next, [](const Entry &entry) { return GST_IS_BUFFER(entry.item.object); }),
        next);
    in_flight_ -= std::min(in_flight_, static_cast<guint>(buffers.size()));
    changed_.notify_all();
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer); // may go back to a pool, which takes other locks
  return buffers.size();
}

bool FrameQueue::setFlow(GstFlowReturn r) {
  Waits waits; // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  flow_ = r;
  if (stopped() && flow_ != GST_FLOW_NOT_LINKED) waits = abandonWaits();
  changed_.notify_all();
  return std::any_of(items_.begin(), items_.end(),
                     [](const Entry &entry) { return isEvent(entry.item, GST_EVENT_EOS); });
}

GstFlowReturn FrameQueue::flow() const {
  std::lock_guard lock(mutex_);
  return stopReason();
}

void FrameQueue::setFlushing() {
  Waits waits; // destroyed after the lock is gone
  const std::lock_guard lock(mutex_);
  flushing_ = true;
  waits = abandonWaits();
  changed_.notify_all();
}

void FrameQueue::start() {
  std::lock_guard lock(mutex_);
  flushing_ = false;
  flow_ = GST_FLOW_OK;
  changed_.notify_all();
}

bool FrameQueue::restart() {
  std::lock_guard lock(mutex_);
  if (flushing_ || flow_ != GST_FLOW_NOT_LINKED) return false;
  flow_ = GST_FLOW_OK;
  changed_.notify_all();
  return true;
}

bool FrameQueue::closed() const {
  std::lock_guard lock(mutex_);
  return stopped();
}

FrameQueue::Cleared FrameQueue::clear() {
  Cleared cleared;
  std::vector<GstBuffer *> buffers;
  Waits waits;
  {
    std::lock_guard lock(mutex_);
    for (const Entry &entry : items_) {
      if (GST_IS_BUFFER(entry.item.object))
        buffers.push_back(GST_BUFFER_CAST(entry.item.object));
      else if (GST_IS_EVENT(entry.item.object))
        cleared.events.push_back(GST_EVENT_CAST(entry.item.object));
    }
    waits = abandonWaits();
    items_.clear();
    if (query_ == QueryState::Waiting && !query_popped_) query_ = QueryState::Answered; // with false: nobody will
    cleared.buffers = buffers.size();
    in_flight_ -= std::min(in_flight_, static_cast<guint>(buffers.size()));
    changed_.notify_all();
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer); // may go back to a pool, which takes other locks
  return cleared;
}

guint FrameQueue::inFlight() const {
  std::lock_guard lock(mutex_);
  return in_flight_;
}

void FrameQueue::dropQueries() {
  std::erase_if(items_, [](const Entry &entry) { return GST_IS_QUERY(entry.item.object); });
}

FrameQueue::Waits FrameQueue::abandonWaits() {
  Waits waits;
  for (Entry &entry : items_) {
    if (entry.wait == nullptr) continue;
    waits.push_back(std::move(entry.wait));
    entry.item.fence.result = FenceResult{FenceOutcome::Cancelled, ECANCELED, 0};
  }
  return waits;
}

} // namespace gstzc::infer
