// SPDX-License-Identifier: LGPL-2.1-or-later
// What is between the streaming thread and the source-pad task: buffers, serialized events and queries in the order
// they came. Here, and nowhere else, frames wait for their fences, and for what is done with them after that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <gst/gst.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc::infer {

// Buffers are bounded by the capacity; a buffer counts from pushBuffer() to finishedBuffer(), so that frames being
// worked on are in the bound. Events and queries are not bounded. A new queue is flushing: start() opens it.
//
// An item comes out when it is the oldest and, if it is a buffer with work, that is done. Frames are worked on in the
// order in which their fences end, any number at a time; they leave in the order they came. Waiting for fences is the
// poller's: no thread sleeps for one frame. Whatever takes a buffer out of the stream (flushing, clear(), endSegment(),
// a flow that ends it) ends its wait at once and abandons its work.
//
// The queue calls start() and abandoned() of the works without its lock, and what takes buffers out of the stream
// waits for a start() that another thread is in: call none of that with a lock held that start() takes.
class FrameQueue : public std::enable_shared_from_this<FrameQueue> {
public:
  using Clock = FencePoller::Clock;

  // How a buffer's fences ended.
  struct FenceEnd {
    Result<FenceResult> result = FenceResult{}; // an error: they could not be asked for, or not be waited for
    std::chrono::milliseconds timeout{0};       // that they had from pushBuffer() or waitAgain() on
    bool waited = false;                        // they were pending when somebody looked
    std::chrono::nanoseconds wait{0};           // from the buffer's arrival, or that look, until their end; the sum
                                                // where it waited again
  };

  // What is done with a buffer between the end of its fences and its turn to leave. Each one that was pushed, with
  // whatever result, either comes out of pop() with its buffer or is abandoned. One that reads its buffer holds a
  // reference to it. One that ends in another thread keeps the queue alive until it has called it, which takes a queue
  // that std::shared_ptr owns; the last reference may go in a start() then.
  class Work {
  public:
    virtual ~Work() = default;
    // The fences are over, one way or another, which `end` says; never Cancelled. Called without locks, from any thread
    // (the poller's among them) and never twice at a time; must not block. Then, from any thread and also from in here,
    // done() or waitAgain().
    virtual void start(const FenceEnd &end) = 0;
    // Asked with the queue's lock held: it must not call the queue, nor take a lock with which the work calls the
    // queue. Possibly before start() or while that runs. True if nobody works on the buffer yet, and nobody will from
    // now on.
    virtual bool giveUp() = 0;
    // Asked with the queue's lock held. True for a buffer that only passes, waiting for its fences: where a policy has
    // a choice it goes before those that are worked on.
    virtual bool onlyPasses() const { return false; }
    // The buffer left otherwise than by pop(). Nothing more will be called; done() and waitAgain() are ignored from now
    // on. Without the queue's lock.
    virtual void abandoned() = 0;
  };

  // What becomes of a buffer that finds no room. One that is dropped is taken with GST_FLOW_OK.
  enum class WhenFull {
    Block,
    DropOldest, // the oldest of those that only pass goes instead; else, for one that does not only pass itself, the
                // oldest that nobody works on yet; where there is none, the new one goes
    DropNewest, // the new one goes
  };

  struct Item {
    GstMiniObject *object = nullptr; // the taker owns buffers and events; a query stays its sender's
    std::shared_ptr<Work> work = {}; // of a buffer; may be null
    FenceEnd fence = {};             // of a buffer with work, the last
    bool discont = false;            // buffers before this one were dropped: it has to be marked
  };

  FrameQueue() = default;
  ~FrameQueue(); // not from a work's call
  FrameQueue(const FrameQueue &) = delete;
  FrameQueue &operator=(const FrameQueue &) = delete;

  void setCapacity(guint buffers); // at least 1
  guint capacity() const;
  void setWhenFull(WhenFull what);

  // Takes the buffer. Waits while the queue is full, but never for the fences; ends with GST_FLOW_FLUSHING as soon as
  // it is flushing, or with what setFlow() said. The time for the fences runs from now on. Where they are over by the
  // time there is room, the work is started before this returns. `left_out`, where it is not null, becomes true if it
  // was the new one that found no room.
  GstFlowReturn pushBuffer(GstBuffer *buffer, std::shared_ptr<Work> work, Result<FrameFences> fences,
                           std::chrono::milliseconds timeout, bool *left_out = nullptr);
  // Nothing is to be done with it: it leaves when its turn comes, its fences travel on with it.
  GstFlowReturn pushBuffer(GstBuffer *buffer);
  // Takes the event. Never waits. The result is as above, but events are taken after GST_FLOW_EOS too: they do not end
  // with the buffers. A SEGMENT makes buffers welcome again. After GST_FLOW_NOT_LINKED those that stay on a pad are
  // kept, but for the end of the stream: restart() may follow, and nobody sends them again.
  GstFlowReturn pushEvent(GstEvent *event);
  // Waits until answered() and returns its value; false as soon as the queue is flushing or stopped.
  bool pushQuery(GstQuery *query);

  // The work's buffer may leave when its turn comes.
  void done(const Work *work);
  // The work needs fences that have come to its buffer since: it is started again when they are over, at the latest
  // `timeout` from now on; before this returns, where they are over.
  void waitAgain(const Work *work, Result<FrameFences> fences, std::chrono::milliseconds timeout);

  // The next item; waits for one, and for what is done with it. Nothing: the queue is flushing or stopped.
  std::optional<Item> pop();
  void finishedBuffer();      // the buffer popped before is through: there is room again
  void answered(bool result); // for the query popped before
  // Downstream wants no more of this segment (GST_FLOW_EOS): drops the buffers up to the next SEGMENT, those that are
  // yet to come too; events and queries go on. The number of those that lay here.
  guint64 endSegment();
  // Downstream or the model failed: no more is taken until start(); waiters end. After GST_FLOW_NOT_LINKED fences go on
  // being waited for and works go on: restart() may follow. True if an end of stream lies here: nobody upstream will
  // see what failed.
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

  bool drains() const;    // an end of stream or a query came last: nothing more comes for now
  guint inFlight() const; // buffers that count
  guint waiting() const;  // of them those whose work is not done
  // Both of one moment. What came is what was pop()ped, what was dropped and, of those held, what was not popped.
  struct Counts {
    guint held = 0;      // that count, and those that wait for room
    guint64 dropped = 0; // that did not come out of pop(), for whatever reason; since the queue was made
  };
  Counts counts() const;

private:
  enum class QueryState { None, Waiting, Answered };
  struct Entry {
    Item item;
    uint64_t id = 0;
    Clock::time_point began = {};         // of the present wait
    std::unique_ptr<FenceWait> wait = {}; // while it lasts
    bool due = false;                     // the fences are over, the work is to be started
    bool done = false;
  };
  // A work whose start() is being called.
  struct Starting {
    uint64_t id;
    std::thread::id thread;
    std::shared_ptr<Work> abandoned = {}; // meanwhile: to be told when start() has returned
  };
  // What leaves otherwise than by pop(). It is collected with the lock and seen off without: ending a wait waits for
  // its callback, which takes the lock.
  struct Leaving {
    std::vector<std::unique_ptr<FenceWait>> waits;
    std::vector<std::shared_ptr<Work>> works;
    std::vector<GstBuffer *> buffers;
  };
  using Lock = std::unique_lock<std::mutex>;

  bool stopped() const { return flushing_ || (flow_ != GST_FLOW_OK && flow_ != GST_FLOW_EOS); }
  GstFlowReturn stopReason() const { return flushing_ ? GST_FLOW_FLUSHING : flow_; }
  Result<std::unique_ptr<FenceWait>> startWait(uint64_t id, FrameFences fences, Clock::time_point deadline);
  GstFlowReturn push(Entry &entry, bool *left_out = nullptr); // takes it
  void append(Entry entry);
  bool dropOldest(bool passing, Leaving &leaving);
  bool keepForLater(GstEvent *event);
  static bool onlyPasses(const Entry &entry) {
    return GST_IS_BUFFER(entry.item.object) && (entry.item.work == nullptr || entry.item.work->onlyPasses());
  }
  static std::unique_ptr<FenceWait> endWait(Entry &entry);
  void fencesOver(uint64_t id);
  void startWork(Lock &lock, uint64_t id);
  Entry *find(uint64_t id);
  Entry *find(const Work *work);
  bool starting(uint64_t id) const;
  void wakeAll();
  bool frontIsReady() const;
  void dropQueries();
  void abandon(Entry &entry, Leaving &leaving);
  void abandonAll(Leaving &leaving);
  void seeOff(Leaving leaving);

  mutable std::mutex mutex_;
  std::condition_variable room_;     // for push()
  std::condition_variable front_;    // for pop()
  std::condition_variable answered_; // for pushQuery()
  std::condition_variable started_;  // for those who wait for a start() to return
  std::deque<Entry> items_;
  std::vector<Starting> starting_;
  uint64_t next_id_ = 0;
  guint capacity_ = 1;
  guint in_flight_ = 0;
  guint arriving_ = 0; // wait for room
  WhenFull when_full_ = WhenFull::Block;
  guint64 dropped_ = 0;
  bool gap_ = false; // buffers were dropped at the end of the queue
  bool flushing_ = true;
  GstFlowReturn flow_ = GST_FLOW_OK;
  QueryState query_ = QueryState::None;
  bool query_result_ = false;
  bool query_popped_ = false; // the task is using the sender's query: it must not return before answered()
};

} // namespace gstzc::infer
