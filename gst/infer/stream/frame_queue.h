// SPDX-License-Identifier: LGPL-2.1-or-later
// What is between the streaming thread and the source-pad task: buffers, serialized events and queries in the order
// they came. Here, and nowhere else, frames wait for their fences.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <gst/gst.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc::infer {

// Buffers are bounded by the capacity; a buffer counts from pushBuffer() to finishedBuffer(), so that frames being
// worked on are in the bound. Events and queries are not bounded. A new queue is flushing: start() opens it.
//
// An item comes out when it is the oldest and, if it is a buffer, its fences are over one way or another. Waiting is
// the poller's: it marks and wakes, no thread sleeps for one frame. Whatever takes a buffer out of the stream
// (flushing, clear(), endSegment(), a flow that ends it) ends its wait at once.
class FrameQueue {
public:
  using Clock = FencePoller::Clock;

  // How a buffer's fences ended.
  struct FenceEnd {
    Result<FenceResult> result = FenceResult{}; // an error: they could not be asked for, or not be waited for
    std::chrono::milliseconds timeout{0};       // that they had from pushBuffer() on
    bool waited = false;                        // they were pending when somebody looked
    std::chrono::nanoseconds wait{0};           // from the buffer's arrival, or that look, until their end
  };

  struct Item {
    GstMiniObject *object = nullptr; // the taker owns buffers and events; a query stays its sender's
    FenceEnd fence;                  // of a buffer
  };

  FrameQueue() = default;
  ~FrameQueue();
  FrameQueue(const FrameQueue &) = delete;
  FrameQueue &operator=(const FrameQueue &) = delete;

  void setCapacity(guint buffers); // at least 1

  // Takes the buffer. Waits while the queue is full, but never for the fences; ends with GST_FLOW_FLUSHING as soon as
  // it is flushing, or with what setFlow() said. The time for the fences runs from now on.
  GstFlowReturn pushBuffer(GstBuffer *buffer, Result<FrameFences> fences = FrameFences{},
                           std::chrono::milliseconds timeout = std::chrono::milliseconds{0});
  // Takes the event. Never waits. The result is as above, but events are taken after GST_FLOW_EOS too: they do not end
  // with the buffers. A SEGMENT makes buffers welcome again.
  GstFlowReturn pushEvent(GstEvent *event);
  // Waits until answered() and returns its value; false as soon as the queue is flushing or stopped.
  bool pushQuery(GstQuery *query);

  // The next item; waits for one, and for its fences. Nothing: the queue is flushing.
  std::optional<Item> pop();
  // For the buffer popped before, with the fences that have come to it since pushBuffer(): waits for them, `timeout`
  // from now on. Whatever ends pop() ends this, and the buffer's end is Cancelled.
  void waitAgain(Item &item, Result<FrameFences> fences, std::chrono::milliseconds timeout);
  void finishedBuffer();      // the buffer popped before is through: there is room again
  void answered(bool result); // for the query popped before
  // Downstream wants no more of this segment (GST_FLOW_EOS): drops the buffers up to the next SEGMENT, those that are
  // yet to come too; events and queries go on. The number of those that lay here.
  guint64 endSegment();
  // Downstream or the model failed: no more is taken until start(); waiters end. After GST_FLOW_NOT_LINKED the fences
  // go on being waited for: restart() may follow. True if an end of stream lies here: nobody upstream will see what
  // failed.
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
  struct Entry {
    Item item;
    Clock::time_point arrival;
    std::unique_ptr<FenceWait> wait; // until it is looked at as over
  };
  // Ending a wait waits for its callback, which takes mutex_: they are collected with the lock and ended without.
  using Waits = std::vector<std::unique_ptr<FenceWait>>;
  bool stopped() const { return flushing_ || (flow_ != GST_FLOW_OK && flow_ != GST_FLOW_EOS); }
  GstFlowReturn stopReason() const { return flushing_ ? GST_FLOW_FLUSHING : flow_; }
  // Wakes whoever waits here when they are over. Without the lock.
  Result<std::unique_ptr<FenceWait>> startWait(FrameFences fences, Clock::time_point deadline);
  void dropQueries();
  bool frontIsReady() const;
  Waits abandonWaits();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> items_;
  guint capacity_ = 1;
  guint in_flight_ = 0;
  bool flushing_ = true;
  GstFlowReturn flow_ = GST_FLOW_OK;
  QueryState query_ = QueryState::None;
  bool query_result_ = false;
  bool query_popped_ = false; // the task is using the sender's query: it must not return before answered()
};

} // namespace gstzc::infer
