// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/frame_queue.h"

#include <algorithm>

namespace gstzc::infer {

FrameQueue::~FrameQueue() {
  for (GstEvent *event : clear().events) gst_event_unref(event);
}

void FrameQueue::setCapacity(guint buffers) {
  std::lock_guard lock(mutex_);
  capacity_ = std::max(buffers, 1u);
  changed_.notify_all();
}

GstFlowReturn FrameQueue::pushBuffer(GstBuffer *buffer) {
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
  items_.push_back({GST_MINI_OBJECT_CAST(buffer)});
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
  items_.push_back({GST_MINI_OBJECT_CAST(event)});
  changed_.notify_all();
  return GST_FLOW_OK;
}

bool FrameQueue::pushQuery(GstQuery *query) {
  std::unique_lock lock(mutex_);
  // serialized queries come from the one streaming thread; a second one at the same time has no place
  if (stopped() || query_ != QueryState::None) return false;
  query_ = QueryState::Waiting;
  query_result_ = false;
  items_.push_back({GST_MINI_OBJECT_CAST(query)});
  changed_.notify_all();
  changed_.wait(lock, [this] { return query_ == QueryState::Answered || (stopped() && !query_popped_); });
  dropQueries();
  query_ = QueryState::None;
  return query_result_;
}

std::optional<FrameQueue::Item> FrameQueue::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopped() || !items_.empty(); });
  if (stopped()) return std::nullopt;
  const Item item = items_.front();
  items_.pop_front();
  if (GST_IS_QUERY(item.object)) query_popped_ = true;
  return item;
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
  {
    std::lock_guard lock(mutex_);
    const auto next = std::find_if(items_.begin(), items_.end(), [](const Item &item) {
      return GST_IS_EVENT(item.object) && GST_EVENT_TYPE(item.object) == GST_EVENT_SEGMENT;
    });
    if (next == items_.end()) flow_ = GST_FLOW_EOS;
    for (auto item = items_.begin(); item != next; ++item)
      if (GST_IS_BUFFER(item->object)) buffers.push_back(GST_BUFFER_CAST(item->object));
    items_.erase(std::remove_if(items_.begin(), next, [](const Item &item) { return GST_IS_BUFFER(item.object); }),
                 next);
    in_flight_ -= std::min(in_flight_, static_cast<guint>(buffers.size()));
    changed_.notify_all();
  }
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer); // may go back to a pool, which takes other locks
  return buffers.size();
}

bool FrameQueue::setFlow(GstFlowReturn r) {
  std::lock_guard lock(mutex_);
  flow_ = r;
  changed_.notify_all();
  return std::any_of(items_.begin(), items_.end(), [](const Item &item) {
    return GST_IS_EVENT(item.object) && GST_EVENT_TYPE(item.object) == GST_EVENT_EOS;
  });
}

GstFlowReturn FrameQueue::flow() const {
  std::lock_guard lock(mutex_);
  return stopReason();
}

void FrameQueue::setFlushing() {
  std::lock_guard lock(mutex_);
  flushing_ = true;
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
  {
    std::lock_guard lock(mutex_);
    for (const Item &item : items_) {
      if (GST_IS_BUFFER(item.object))
        buffers.push_back(GST_BUFFER_CAST(item.object));
      else if (GST_IS_EVENT(item.object))
        cleared.events.push_back(GST_EVENT_CAST(item.object));
    }
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
  std::erase_if(items_, [](const Item &item) { return GST_IS_QUERY(item.object); });
}

} // namespace gstzc::infer
