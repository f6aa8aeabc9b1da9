// SPDX-License-Identifier: LGPL-2.1-or-later
// What is between the streaming thread and the source-pad task: buffers, serialized events and queries in the order
// they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include <gst/gst.h>

namespace gstzc::infer {

// Buffers are bounded by the capacity; a buffer counts from pushBuffer() to finishedBuffer(), so that frames being
// worked on are in the bound. Events and queries are not bounded. A new queue is flushing: start() opens it.
class FrameQueue {
public:
  struct Item {
    GstMiniObject *object = nullptr; // the taker owns buffers and events; a query stays its sender's
  };

  FrameQueue() = default;
  ~FrameQueue();
  FrameQueue(const FrameQueue &) = delete;
  FrameQueue &operator=(const FrameQueue &) = delete;

  void setCapacity(guint buffers); // at least 1

  // Takes the buffer. Waits while the queue is full; ends with GST_FLOW_FLUSHING as soon as it is flushing, or with
  // what setFlow() said.
  GstFlowReturn pushBuffer(GstBuffer *buffer);
  // Takes the event. Never waits. The result is as above, but events are taken after GST_FLOW_EOS too: they do not end
  // with the buffers. A SEGMENT makes buffers welcome again.
  GstFlowReturn pushEvent(GstEvent *event);
  // Waits until answered() and returns its value; false as soon as the queue is flushing or stopped.
  bool pushQuery(GstQuery *query);

  // The next item; waits. Nothing: the queue is flushing.
  std::optional<Item> pop();
  void finishedBuffer();      // the buffer popped before is through: there is room again
  void answered(bool result); // for the query popped before
  // Downstream wants no more of this segment (GST_FLOW_EOS): drops the buffers up to the next SEGMENT, those that are
  // yet to come too; events and queries go on. The number of those that lay here.
  guint64 endSegment();
  // Downstream or the model failed: no more is taken until start(); waiters end. True if an end of stream lies here:
  // nobody upstream will see what failed.
  bool setFlow(GstFlowReturn r);
  GstFlowReturn flow() const;

  void setFlushing();  // wakes everybody
  void start();        // ends flushing; flow is GST_FLOW_OK again
  bool restart();      // as start() where GST_FLOW_NOT_LINKED stopped it, else nothing: a flush goes on
  bool closed() const; // nothing comes out of pop(): flushing, or stopped by setFlow()

  struct Cleared {
    guint64 buffers = 0;
    std::vector<GstEvent *> events; // in order; now the caller's
  };
  Cleared clear(); // takes out what lies in the queue

  guint inFlight() const;

private:
  enum class QueryState { None, Waiting, Answered };
  bool stopped() const { return flushing_ || (flow_ != GST_FLOW_OK && flow_ != GST_FLOW_EOS); }
  GstFlowReturn stopReason() const { return flushing_ ? GST_FLOW_FLUSHING : flow_; }
  void dropQueries();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  guint capacity_ = 1;
  guint in_flight_ = 0;
  bool flushing_ = true;
  GstFlowReturn flow_ = GST_FLOW_OK;
  QueryState query_ = QueryState::None;
  bool query_result_ = false;
  bool query_popped_ = false; // the task is using the sender's query: it must not return before answered()
};

} // namespace gstzc::infer
