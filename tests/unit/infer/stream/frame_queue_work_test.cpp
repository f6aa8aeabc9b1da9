// SPDX-License-Identifier: LGPL-2.1-or-later
// What is done with frames between the end of their fences and their turn to leave.
#include "gst/infer/stream/frame_queue.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/infer/stream/queue_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

using WorkPtr = std::shared_ptr<CountedWork>;

class FrameQueueWork : public testing::Test {
protected:
  FrameQueueWork() {
    queue_.setCapacity(4);
    queue_.start();
  }

  WorkPtr push(guint64 n, Result<FrameFences> fences = FrameFences{}) {
    auto work = std::make_shared<CountedWork>();
    EXPECT_EQ(queue_.pushBuffer(numbered(n), work, std::move(fences), kLong), GST_FLOW_OK);
    return work;
  }
  std::future<std::optional<FrameQueue::Item>> popping() {
    return std::async(std::launch::async, [this] { return queue_.pop(); });
  }
  // The buffer's number; takes it through.
  guint64 number(std::optional<FrameQueue::Item> item) {
    if (!item || !GST_IS_BUFFER(item->object)) {
      ADD_FAILURE() << "no buffer";
      return 0;
    }
    const guint64 n = GST_BUFFER_OFFSET(item->object);
    gst_mini_object_unref(item->object);
    queue_.finishedBuffer();
    return n;
  }
  guint64 pop() {
    auto popped = popping();
    if (finishes(popped)) return number(popped.get());
    ADD_FAILURE() << "nothing came out";
    queue_.setFlushing();
    return 0;
  }

  FrameQueue queue_;
};

TEST_F(FrameQueueWork, StartsAtOnceWhereNothingIsPending) {
  const auto work = push(1);
  EXPECT_EQ(work->starts(), 1);
  EXPECT_TRUE(work->end().result.ok());
  EXPECT_FALSE(work->end().waited);
  EXPECT_EQ(work->end().timeout, kLong);
  const auto failed = push(2, Error{"memory 0", EBADF, ""});
  EXPECT_EQ(failed->starts(), 1);
  ASSERT_FALSE(failed->end().result.ok());
  EXPECT_EQ(failed->end().result.error().code, EBADF);
}

TEST_F(FrameQueueWork, AFrameLeavesWhenItIsDone) {
  const auto work = push(1);
  EXPECT_EQ(queue_.waiting(), 1u);
  auto popped = popping();
  EXPECT_TRUE(waits(popped));
  queue_.done(work.get());
  ASSERT_TRUE(finishes(popped));
  auto item = popped.get();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->work, work);
  EXPECT_FALSE(item->discont);
  EXPECT_EQ(queue_.waiting(), 0u);
  EXPECT_EQ(queue_.inFlight(), 1u) << "it counts until it is finished";
  EXPECT_EQ(number(std::move(item)), 1u);
  EXPECT_EQ(queue_.inFlight(), 0u);
  queue_.setFlushing();
  EXPECT_FALSE(work->isAbandoned());
}

TEST_F(FrameQueueWork, FramesAreDoneInAnyOrderAndLeaveInTheirs) {
  const std::array works = {push(0), push(1), push(2), push(3)};
  auto popped = popping();
  for (const size_t n : {2, 3, 1}) {
    queue_.done(works[n].get());
    EXPECT_EQ(popped.wait_for(20ms), std::future_status::timeout) << "frame " << n << " overtook";
  }
  EXPECT_EQ(queue_.waiting(), 1u);
  queue_.done(works[0].get());
  ASSERT_TRUE(finishes(popped));
  EXPECT_EQ(number(popped.get()), 0u);
  for (guint64 n : {1, 2, 3}) EXPECT_EQ(pop(), n);
}

TEST_F(FrameQueueWork, FramesStartInTheOrderTheirFencesEnd) {
  Producer first, third;
  const auto a = push(1, first.fences()), b = push(2), c = push(3, third.fences());
  EXPECT_EQ(a->starts(), 0);
  EXPECT_EQ(b->starts(), 1) << "a frame that is ready waits for an earlier one";
  third.finish();
  ASSERT_TRUE(c->wasStarted());
  EXPECT_EQ(a->starts(), 0);
  first.finish();
  ASSERT_TRUE(a->wasStarted());
  for (const auto &work : {c, b, a}) queue_.done(work.get());
  for (guint64 n : {1, 2, 3}) EXPECT_EQ(pop(), n);
}

TEST_F(FrameQueueWork, AFrameWithoutWorkOnlyWaitsForItsTurn) {
  const auto work = push(1);
  EXPECT_EQ(queue_.pushBuffer(numbered(2)), GST_FLOW_OK);
  EXPECT_EQ(queue_.pushBuffer(numbered(3), nullptr, Error{"not asked for", EIO, ""}, kLong), GST_FLOW_OK);
  EXPECT_EQ(queue_.waiting(), 1u);
  auto popped = popping();
  EXPECT_TRUE(waits(popped));
  queue_.done(work.get());
  ASSERT_TRUE(finishes(popped));
  EXPECT_EQ(number(popped.get()), 1u);
  auto item = queue_.pop();
  ASSERT_TRUE(item.has_value());
  EXPECT_EQ(item->work, nullptr);
  EXPECT_EQ(number(std::move(item)), 2u);
  EXPECT_EQ(pop(), 3u);
}

TEST_F(FrameQueueWork, EventsStayBehindTheFrame) {
  const auto work = push(1);
  EXPECT_EQ(queue_.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  auto popped = popping();
  EXPECT_TRUE(waits(popped)) << "the end of the stream overtook its last frame";
  queue_.done(work.get());
  ASSERT_TRUE(finishes(popped));
  EXPECT_EQ(number(popped.get()), 1u);
  auto eos = queue_.pop();
  ASSERT_TRUE(eos && GST_IS_EVENT(eos->object));
  gst_mini_object_unref(eos->object);
}

TEST_F(FrameQueueWork, AWorkMayBeDoneBeforeItIsStarted) {
  Producer never;
  const auto work = push(1, never.fences());
  queue_.done(work.get());
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
  EXPECT_EQ(pop(), 1u);
  EXPECT_EQ(work->starts(), 0);
}

// From start() itself, where it must not start again before it has returned.
TEST_F(FrameQueueWork, AWorkMayWaitAgainFromItsStart) {
  Producer over;
  over.finish();
  auto work = std::make_shared<CountedWork>([&](CountedWork &self) {
    if (self.starts() == 1)
      queue_.waitAgain(&self, over.fences(), kLong);
    else
      queue_.done(&self);
  });
  EXPECT_EQ(queue_.pushBuffer(numbered(1), work, FrameFences{}, kLong), GST_FLOW_OK);
  EXPECT_EQ(work->starts(), 2);
  EXPECT_EQ(pop(), 1u);
}

// Another thread is through with the work, and its next fences too, before start() has returned.
TEST_F(FrameQueueWork, StartsOfOneWorkFollowEachOther) {
  Producer producer;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  auto work = std::make_shared<CountedWork>([&](CountedWork &self) {
    if (self.starts() == 1) may_go_on.wait();
  });
  auto pushing =
      std::async(std::launch::async, [&] { return queue_.pushBuffer(numbered(1), work, FrameFences{}, kLong); });
  ASSERT_TRUE(work->wasStarted(1));
  queue_.waitAgain(work.get(), producer.fences(), kLong);
  producer.finish();
  for (int i = 0; i < 1000 && FencePoller::process().counters().pending > 0; ++i) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(work->starts(), 1);
  go_on.set_value();
  EXPECT_TRUE(work->wasStarted(2));
  ASSERT_TRUE(finishes(pushing));
}

TEST_F(FrameQueueWork, WhateverStopsTheQueueAbandonsTheWorks) {
  struct {
    const char *name;
    std::function<void(FrameQueue &)> stop;
  } const rows[] = {
      {"flush", [](FrameQueue &q) { q.setFlushing(); }},
      {"failure", [](FrameQueue &q) { q.setFlow(GST_FLOW_ERROR); }},
      {"end of the segment", [](FrameQueue &q) { EXPECT_EQ(q.endSegment(), 3u); }},
      {"clear", [](FrameQueue &q) { EXPECT_EQ(q.clear().buffers, 3u); }},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.name);
    queue_.start();
    Producer never;
    const auto pending = push(1, never.fences()), busy = push(2), done = push(3);
    queue_.done(done.get());
    row.stop(queue_);
    for (const auto &work : {pending, busy, done}) {
      EXPECT_TRUE(work->isAbandoned());
      queue_.done(work.get());
      queue_.waitAgain(work.get(), never.fences(), kLong);
    }
    EXPECT_EQ(queue_.waiting(), 0u);
    EXPECT_EQ(FencePoller::process().counters().pending, 0u);
    EXPECT_EQ(pending->starts(), 0);
    EXPECT_EQ(busy->starts(), 1);
    queue_.clear();
    queue_.start();
  }
}

TEST_F(FrameQueueWork, TheEndOfTheQueueAbandonsTheWorks) {
  auto queue = std::make_unique<FrameQueue>();
  queue->start();
  const auto work = std::make_shared<CountedWork>();
  EXPECT_EQ(queue->pushBuffer(numbered(1), work, FrameFences{}, kLong), GST_FLOW_OK);
  queue.reset();
  EXPECT_TRUE(work->isAbandoned());
}

// Its frame has left, and so has everybody else, when the work returns from its start on the poller's thread.
TEST_F(FrameQueueWork, TheLastReferenceMayGoInAStart) {
  auto queue = std::make_shared<FrameQueue>();
  queue->start();
  const std::weak_ptr<FrameQueue> gone = queue;
  std::promise<void> alone;
  std::future<void> is_alone = alone.get_future();
  auto work = std::make_shared<CountedWork>([held = queue, &is_alone](CountedWork &self) mutable {
    held->done(&self);
    EXPECT_TRUE(finishes(is_alone));
    EXPECT_EQ(held.use_count(), 2) << "this one and that of who calls";
    held.reset();
  });
  const Producer producer;
  ASSERT_EQ(queue->pushBuffer(numbered(1), std::move(work), producer.fences(), kLong), GST_FLOW_OK);
  producer.finish();
  auto item = queue->pop();
  ASSERT_TRUE(item);
  gst_mini_object_unref(item->object);
  queue->finishedBuffer();
  queue.reset();
  item.reset();
  alone.set_value();
  for (int i = 0; i < 10'000 && !gone.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone.expired()) << "the thread that waits for fences is stuck";
}

TEST_F(FrameQueueWork, WorksGoOnWithoutDownstream) {
  Producer producer;
  const auto busy = push(1), pending = push(2, producer.fences());
  queue_.setFlow(GST_FLOW_NOT_LINKED);
  queue_.done(busy.get());
  producer.finish();
  ASSERT_TRUE(pending->wasStarted());
  queue_.done(pending.get());
  const auto refused = std::make_shared<CountedWork>();
  EXPECT_EQ(queue_.pushBuffer(numbered(3), refused, FrameFences{}, kLong), GST_FLOW_NOT_LINKED);
  EXPECT_TRUE(refused->isAbandoned());
  ASSERT_TRUE(queue_.restart());
  for (guint64 n : {1, 2}) EXPECT_EQ(pop(), n);
}

TEST_F(FrameQueueWork, AWorkThatIsRefusedIsAbandoned) {
  struct {
    GstFlowReturn flow;
    std::function<void(FrameQueue &)> stop;
  } const rows[] = {
      {GST_FLOW_FLUSHING, [](FrameQueue &q) { q.setFlushing(); }},
      {GST_FLOW_ERROR, [](FrameQueue &q) { q.setFlow(GST_FLOW_ERROR); }},
      {GST_FLOW_EOS, [](FrameQueue &q) { q.endSegment(); }},
  };
  for (const auto &row : rows) {
    queue_.start();
    row.stop(queue_);
    const auto work = std::make_shared<CountedWork>();
    Producer never;
    EXPECT_EQ(queue_.pushBuffer(numbered(1), work, never.fences(), kLong), row.flow);
    EXPECT_EQ(work->starts(), 0);
    EXPECT_TRUE(work->isAbandoned());
  }
}

// Its fences end while it still waits for room.
TEST_F(FrameQueueWork, AFrameIsNotStartedBeforeThereIsRoom) {
  queue_.setCapacity(1);
  const auto first = push(1);
  Producer producer;
  const auto second = std::make_shared<CountedWork>();
  auto blocked =
      std::async(std::launch::async, [&] { return queue_.pushBuffer(numbered(2), second, producer.fences(), kLong); });
  EXPECT_TRUE(waits(blocked));
  producer.finish();
  EXPECT_TRUE(waits(blocked));
  EXPECT_EQ(second->starts(), 0);
  queue_.done(first.get());
  EXPECT_EQ(pop(), 1u);
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(second->starts(), 1);
  EXPECT_TRUE(second->end().waited);
}

TEST_F(FrameQueueWork, AFullQueueDropsTheOldestThatNobodyWorksOn) {
  queue_.setCapacity(3);
  queue_.setWhenFull(FrameQueue::WhenFull::DropOldest);
  Producer never;
  const auto busy = push(1), idle = push(2, never.fences()), also_idle = push(3);
  idle->setIdle(true);
  also_idle->setIdle(true);
  const auto newest = push(4);
  EXPECT_TRUE(idle->isAbandoned());
  EXPECT_FALSE(also_idle->isAbandoned());
  EXPECT_EQ(also_idle->asked(), 0);
  EXPECT_EQ(queue_.counts().dropped, 1u);
  EXPECT_EQ(queue_.inFlight(), 3u);
  EXPECT_EQ(newest->starts(), 1);
  for (const auto &work : {busy, also_idle, newest}) queue_.done(work.get());
  const bool discont[] = {false, true, false};
  const guint64 numbers[] = {1, 3, 4};
  for (size_t i = 0; i < 3; ++i) {
    auto item = queue_.pop();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(item->discont, discont[i]) << "the gap is where the frame was";
    EXPECT_EQ(number(std::move(item)), numbers[i]);
  }
}

// The gap of one that was dropped goes on to the next when that is dropped too, and to the one that comes when it was
// the last.
TEST_F(FrameQueueWork, AGapStaysAGap) {
  queue_.setCapacity(2);
  queue_.setWhenFull(FrameQueue::WhenFull::DropOldest);
  const auto a = push(1), b = push(2);
  b->setIdle(true);
  const auto c = push(3); // instead of 2
  c->setIdle(true);
  const auto d = push(4); // instead of 3
  EXPECT_EQ(queue_.counts().dropped, 2u);
  queue_.done(a.get());
  queue_.done(d.get());
  EXPECT_EQ(pop(), 1u);
  auto item = queue_.pop();
  EXPECT_TRUE(item->discont);
  EXPECT_EQ(number(std::move(item)), 4u);
}

TEST_F(FrameQueueWork, TheNewOneGoesWhereAllAreWorkedOnOrDone) {
  queue_.setCapacity(3);
  queue_.setWhenFull(FrameQueue::WhenFull::DropOldest);
  const auto busy = push(1), done = push(2), also_busy = push(3);
  done->setIdle(true);
  queue_.done(done.get());
  const auto newest = push(4);
  EXPECT_TRUE(newest->isAbandoned());
  EXPECT_EQ(newest->starts(), 0);
  EXPECT_EQ(done->asked(), 0) << "what is done is not dropped";
  EXPECT_EQ(queue_.counts().dropped, 1u);
  queue_.done(busy.get());
  for (guint64 n : {1, 2}) EXPECT_EQ(pop(), n);
  const auto next = push(5);
  for (const auto &work : {also_busy, next}) queue_.done(work.get());
  EXPECT_EQ(pop(), 3u);
  auto item = queue_.pop();
  EXPECT_TRUE(item->discont);
  EXPECT_EQ(number(std::move(item)), 5u);
}

// Nothing but their turn holds them: they would fill the queue, and those few that are worked on would go.
TEST_F(FrameQueueWork, FramesThatOnlyPassGoFirst) {
  queue_.setCapacity(3);
  queue_.setWhenFull(FrameQueue::WhenFull::DropOldest);
  Producer never;
  const auto busy = push(1);
  EXPECT_EQ(queue_.pushBuffer(numbered(2)), GST_FLOW_OK);
  auto passing = std::make_shared<CountedWork>();
  passing->setPasses();
  EXPECT_EQ(queue_.pushBuffer(numbered(3), passing, never.fences(), kLong), GST_FLOW_OK);
  const auto idle = push(4); // instead of 2
  idle->setIdle(true);
  EXPECT_EQ(queue_.pushBuffer(numbered(5)), GST_FLOW_OK); // instead of 3
  EXPECT_TRUE(passing->isAbandoned());
  const auto next = push(6); // instead of 5
  next->setIdle(true);
  EXPECT_EQ(queue_.pushBuffer(numbered(7)), GST_FLOW_OK); // goes itself
  EXPECT_FALSE(idle->isAbandoned() || next->isAbandoned());
  EXPECT_EQ(queue_.counts().dropped, 4u);
  for (const auto &work : {busy, idle, next}) queue_.done(work.get());
  for (guint64 n : {1, 4, 6}) EXPECT_EQ(pop(), n);
}

TEST_F(FrameQueueWork, WhoIsLeftOutIsTold) {
  queue_.setCapacity(1);
  for (const auto policy : {FrameQueue::WhenFull::DropNewest, FrameQueue::WhenFull::DropOldest}) {
    queue_.setWhenFull(policy);
    bool left_out = false;
    const auto first = std::make_shared<CountedWork>(), second = std::make_shared<CountedWork>();
    EXPECT_EQ(queue_.pushBuffer(numbered(1), first, FrameFences{}, kLong, &left_out), GST_FLOW_OK);
    EXPECT_FALSE(left_out);
    EXPECT_EQ(queue_.pushBuffer(numbered(2), second, FrameFences{}, kLong, &left_out), GST_FLOW_OK);
    EXPECT_TRUE(left_out);
    queue_.done(first.get());
    EXPECT_EQ(pop(), 1u);
  }
}

TEST_F(FrameQueueWork, AFullQueueMayDropTheNewest) {
  queue_.setCapacity(1);
  queue_.setWhenFull(FrameQueue::WhenFull::DropNewest);
  const auto idle = push(1);
  idle->setIdle(true);
  Producer never;
  const auto dropped = push(2, never.fences());
  EXPECT_TRUE(dropped->isAbandoned());
  EXPECT_EQ(idle->asked(), 0);
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
  EXPECT_EQ(queue_.pushBuffer(numbered(3)), GST_FLOW_OK);
  EXPECT_EQ(queue_.counts().dropped, 2u);
  queue_.done(idle.get());
  EXPECT_EQ(pop(), 1u);
  EXPECT_EQ(queue_.pushBuffer(numbered(4)), GST_FLOW_OK);
  auto item = queue_.pop();
  EXPECT_TRUE(item->discont);
  EXPECT_EQ(number(std::move(item)), 4u);
  EXPECT_EQ(queue_.pushBuffer(numbered(5)), GST_FLOW_OK);
  item = queue_.pop();
  EXPECT_FALSE(item->discont);
  number(std::move(item));
}

TEST_F(FrameQueueWork, AFlushForgetsTheGap) {
  queue_.setCapacity(1);
  queue_.setWhenFull(FrameQueue::WhenFull::DropNewest);
  push(1);
  push(2);
  queue_.setFlushing();
  queue_.clear();
  queue_.start();
  EXPECT_EQ(queue_.pushBuffer(numbered(3)), GST_FLOW_OK);
  auto item = queue_.pop();
  EXPECT_FALSE(item->discont);
  EXPECT_EQ(number(std::move(item)), 3u);
}

TEST_F(FrameQueueWork, WhoWaitsForRoomHearsOfAnotherPolicy) {
  queue_.setCapacity(1);
  const auto first = push(1);
  auto blocked = std::async(std::launch::async, [&] { return queue_.pushBuffer(numbered(2)); });
  EXPECT_TRUE(waits(blocked));
  queue_.setWhenFull(FrameQueue::WhenFull::DropNewest);
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(blocked.get(), GST_FLOW_OK);
  EXPECT_EQ(queue_.counts().dropped, 1u);
}

// The flush comes while start() runs in another thread: abandoned() follows it, and the flush waits for both.
TEST_F(FrameQueueWork, AFlushWaitsForAStart) {
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  auto work = std::make_shared<CountedWork>([&](CountedWork &) { may_go_on.wait(); });
  Producer producer;
  EXPECT_EQ(queue_.pushBuffer(numbered(1), work, producer.fences(), kLong), GST_FLOW_OK);
  producer.finish();
  ASSERT_TRUE(work->wasStarted());
  auto flushing = std::async(std::launch::async, [&] { queue_.setFlushing(); });
  EXPECT_TRUE(waits(flushing));
  EXPECT_FALSE(work->isAbandoned());
  go_on.set_value();
  ASSERT_TRUE(finishes(flushing));
  EXPECT_TRUE(work->isAbandoned());
}

// A frame that cannot be used ends the stream from its own start(), while another does the same in another thread.
TEST_F(FrameQueueWork, StartsMayStopTheQueue) {
  Producer producers[2];
  std::atomic<int> inside = 0;
  const auto fail = [&](CountedWork &) {
    for (++inside; inside < 2;) std::this_thread::yield();
    queue_.setFlow(GST_FLOW_ERROR);
  };
  const auto a = std::make_shared<CountedWork>(fail), b = std::make_shared<CountedWork>(fail);
  EXPECT_EQ(queue_.pushBuffer(numbered(1), a, producers[0].fences(), kLong), GST_FLOW_OK);
  producers[0].finish();
  auto pushing =
      std::async(std::launch::async, [&] { return queue_.pushBuffer(numbered(2), b, FrameFences{}, kLong); });
  ASSERT_TRUE(finishes(pushing));
  queue_.setFlushing();
  EXPECT_TRUE(a->isAbandoned());
  EXPECT_TRUE(b->isAbandoned());
}

// The frame has left while its start() is still running: a flush is not over, and the queue does not go, before that
// returns.
TEST_F(FrameQueueWork, TheQueueOutlivesItsStarts) {
  auto queue = std::make_unique<FrameQueue>();
  queue->start();
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future().share();
  auto work = std::make_shared<CountedWork>([&](CountedWork &self) {
    queue->done(&self);
    may_go_on.wait();
  });
  Producer producer;
  EXPECT_EQ(queue->pushBuffer(numbered(1), work, producer.fences(), kLong), GST_FLOW_OK);
  producer.finish();
  auto item = queue->pop();
  ASSERT_TRUE(item.has_value());
  gst_mini_object_unref(item->object);
  auto flushing = std::async(std::launch::async, [&] { queue->setFlushing(); });
  EXPECT_TRUE(waits(flushing));
  auto ending = std::async(std::launch::async, [&] {
    flushing.wait();
    queue.reset();
  });
  EXPECT_TRUE(waits(ending));
  go_on.set_value();
  ASSERT_TRUE(finishes(ending));
  EXPECT_FALSE(work->isAbandoned());
}

} // namespace
