// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that wait in the queue for their fences, for which eventfds stand in.
#include "gst/infer/stream/frame_queue.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "gst/infer/stats.h"
#include "tests/unit/infer/stream/queue_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

class FrameQueueFences : public testing::Test {
protected:
  FrameQueueFences() {
    queue_.setCapacity(4);
    queue_.start();
  }
  ~FrameQueueFences() override {
    for (GstEvent *event : queue_.clear().events) gst_event_unref(event);
    EXPECT_EQ(waiting(), 0u) << "a wait outlives its frame";
  }

  static uint64_t waiting() { return FencePoller::process().counters().pending; }

  // Pushes a frame that is only waited for.
  GstFlowReturn push(guint64 n, Result<FrameFences> fences, std::chrono::milliseconds timeout) {
    return queue_.pushBuffer(numbered(n), doneAtOnce(queue_), std::move(fences), timeout);
  }
  std::future<std::optional<FrameQueue::Item>> popping() {
    return std::async(std::launch::async, [this] { return queue_.pop(); });
  }
  // Takes the item, which has to be the buffer with this number, through.
  FrameQueue::FenceEnd take(std::future<std::optional<FrameQueue::Item>> &popped, guint64 n) {
    if (!finishes(popped)) {
      ADD_FAILURE() << "no item came out";
      queue_.setFlushing();
      return {};
    }
    auto item = popped.get();
    if (!item || !GST_IS_BUFFER(item->object)) {
      ADD_FAILURE() << "no buffer";
      return {};
    }
    EXPECT_EQ(GST_BUFFER_OFFSET(item->object), n);
    gst_mini_object_unref(item->object);
    queue_.finishedBuffer();
    return item->fence;
  }
  FrameQueue::FenceEnd take(guint64 n) {
    auto popped = popping();
    return take(popped, n);
  }

  FrameQueue queue_;
};

TEST_F(FrameQueueFences, NothingToWaitFor) {
  Producer done;
  done.finish();
  ASSERT_EQ(push(1, FrameFences{}, kLong), GST_FLOW_OK);
  ASSERT_EQ(push(2, done.fences(), kLong), GST_FLOW_OK);
  EXPECT_EQ(waiting(), 0u);
  for (guint64 n : {1, 2}) {
    const auto end = take(n);
    ASSERT_TRUE(end.result.ok());
    EXPECT_EQ(end.result.value().outcome, FenceOutcome::Signalled);
    EXPECT_FALSE(end.waited);
    EXPECT_EQ(end.wait, 0ns);
  }
}

TEST_F(FrameQueueFences, TheFrameComesOutWhenItsProducerIsDone) {
  Producer producer;
  ASSERT_EQ(push(1, producer.fences(), kLong), GST_FLOW_OK);
  auto popped = popping();
  EXPECT_TRUE(waits(popped));
  producer.finish();
  const auto end = take(popped, 1);
  ASSERT_TRUE(end.result.ok());
  EXPECT_EQ(end.result.value().outcome, FenceOutcome::Signalled);
  EXPECT_TRUE(end.waited);
  EXPECT_GE(end.wait, 100ms);
  EXPECT_LT(end.wait, kLong);
}

TEST_F(FrameQueueFences, AProducerThatNeverIsCostsItsTime) {
  Producer producer;
  const auto before = FrameQueue::Clock::now();
  ASSERT_EQ(push(1, producer.fences(), 150ms), GST_FLOW_OK);
  const auto end = take(1);
  EXPECT_GE(FrameQueue::Clock::now() - before, 150ms);
  ASSERT_TRUE(end.result.ok());
  EXPECT_EQ(end.result.value().outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(end.timeout, 150ms);
  EXPECT_TRUE(end.waited);
  EXPECT_GE(end.wait, 150ms);
}

TEST_F(FrameQueueFences, TheTimeRunsFromTheArrivalNotFromTheFrontOfTheQueue) {
  Producer first, second;
  ASSERT_EQ(push(1, first.fences(), kLong), GST_FLOW_OK);
  ASSERT_EQ(push(2, second.fences(), 50ms), GST_FLOW_OK);
  std::this_thread::sleep_for(100ms);
  first.finish();
  EXPECT_EQ(take(1).result.value().outcome, FenceOutcome::Signalled);
  const auto end = take(2);
  EXPECT_EQ(end.result.value().outcome, FenceOutcome::TimedOut);
}

// Fences that came while the frame lay here: none, one that ends, one that does not, one that nobody can ask for, one
// that is over.
TEST_F(FrameQueueFences, AFrameCanWaitAgain) {
  auto work = std::make_shared<CountedWork>();
  ASSERT_EQ(queue_.pushBuffer(numbered(1), work, FrameFences{}, kLong), GST_FLOW_OK);
  EXPECT_EQ(work->starts(), 1);
  queue_.waitAgain(work.get(), FrameFences{}, 7ms);
  EXPECT_EQ(work->starts(), 2) << "nothing to wait for";
  EXPECT_FALSE(work->end().waited);
  ASSERT_TRUE(work->end().result.ok());
  EXPECT_EQ(work->end().result->outcome, FenceOutcome::Signalled);
  EXPECT_EQ(work->end().timeout, 7ms);

  Producer producer;
  queue_.waitAgain(work.get(), producer.fences(EIO), kLong);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(work->starts(), 2);
  producer.finish();
  ASSERT_TRUE(work->wasStarted(3));
  EXPECT_TRUE(work->end().waited);
  EXPECT_GE(work->end().wait, 20ms);
  ASSERT_TRUE(work->end().result.ok());
  EXPECT_EQ(work->end().result->error, EIO);

  Producer never;
  queue_.waitAgain(work.get(), never.fences(), 20ms);
  ASSERT_TRUE(work->wasStarted(4));
  ASSERT_TRUE(work->end().result.ok());
  EXPECT_EQ(work->end().result->outcome, FenceOutcome::TimedOut);
  EXPECT_EQ(work->end().timeout, 20ms);
  EXPECT_GE(work->end().wait, 40ms) << "both waits together";

  queue_.waitAgain(work.get(), Error{"memory 0", EBADF, ""}, kLong);
  ASSERT_TRUE(work->wasStarted(5)); // perhaps by the poller, which may not have returned from the start before
  ASSERT_FALSE(work->end().result.ok());
  EXPECT_EQ(work->end().result.error().code, EBADF);

  queue_.waitAgain(work.get(), producer.fences(), kLong);
  ASSERT_TRUE(work->wasStarted(6));
  EXPECT_EQ(work->end().result->outcome, FenceOutcome::Signalled);

  queue_.done(work.get());
  EXPECT_GE(take(1).wait, 40ms);
}

TEST_F(FrameQueueFences, AFlushEndsTheSecondWait) {
  auto work = std::make_shared<CountedWork>();
  ASSERT_EQ(queue_.pushBuffer(numbered(1), work, FrameFences{}, kLong), GST_FLOW_OK);
  Producer never;
  queue_.waitAgain(work.get(), never.fences(), kLong);
  EXPECT_EQ(waiting(), 1u);
  queue_.setFlushing();
  EXPECT_EQ(waiting(), 0u);
  EXPECT_TRUE(work->isAbandoned());
  EXPECT_EQ(work->starts(), 1);
  queue_.waitAgain(work.get(), never.fences(), kLong);
  EXPECT_EQ(waiting(), 0u) << "an abandoned work waits again";
}

TEST_F(FrameQueueFences, ErrorsComeOutWithTheFrame) {
  Producer now, later;
  now.finish();
  ASSERT_EQ(push(1, now.fences(EIO), kLong), GST_FLOW_OK);
  ASSERT_EQ(push(2, later.fences(EPROTO), kLong), GST_FLOW_OK);
  ASSERT_EQ(push(3, Error{"poll descriptor 7", EBADF, ""}, kLong), GST_FLOW_OK);
  later.finish();
  const int errors[] = {EIO, EPROTO};
  for (guint64 n : {1, 2}) {
    const auto end = take(n);
    ASSERT_TRUE(end.result.ok());
    EXPECT_EQ(end.result.value().outcome, FenceOutcome::Failed);
    EXPECT_EQ(end.result.value().error, errors[n - 1]);
  }
  const auto unknown = take(3);
  ASSERT_FALSE(unknown.result.ok());
  EXPECT_EQ(unknown.result.error().code, EBADF);
}

TEST_F(FrameQueueFences, OrderIsThatOfArrivalNotOfSignals) {
  std::array<Producer, 4> producers;
  for (guint64 n = 0; n < 4; ++n) ASSERT_EQ(push(n, producers[n].fences(), kLong), GST_FLOW_OK);
  auto popped = popping();
  for (size_t n : {2, 3, 1}) {
    producers[n].finish();
    EXPECT_EQ(popped.wait_for(20ms), std::future_status::timeout) << "frame " << n << " overtook";
  }
  producers[0].finish();
  take(popped, 0);
  for (guint64 n : {1, 2, 3}) take(n);
}

TEST_F(FrameQueueFences, EventsAndQueriesStayBehindTheFrame) {
  Producer producer;
  ASSERT_EQ(queue_.pushEvent(gst_event_new_gap(0, 1)), GST_FLOW_OK);
  ASSERT_EQ(push(1, producer.fences(), kLong), GST_FLOW_OK);
  ASSERT_EQ(queue_.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  auto gap = queue_.pop();
  ASSERT_TRUE(gap && GST_IS_EVENT(gap->object)) << "what came before does not wait";
  gst_mini_object_unref(gap->object);
  auto popped = popping();
  EXPECT_TRUE(waits(popped)) << "the end of the stream overtook its last frame";
  producer.finish();
  take(popped, 1);
  auto eos = queue_.pop();
  ASSERT_TRUE(eos && GST_IS_EVENT(eos->object));
  EXPECT_EQ(GST_EVENT_TYPE(eos->object), GST_EVENT_EOS);
  gst_mini_object_unref(eos->object);
}

TEST_F(FrameQueueFences, PushingNeverWaitsForAFence) {
  std::array<Producer, 4> producers;
  auto pushing = std::async(std::launch::async, [&] {
    for (guint64 n = 0; n < 4; ++n) push(n, producers[n].fences(), kLong);
  });
  EXPECT_TRUE(finishes(pushing));
  EXPECT_EQ(queue_.inFlight(), 4u);
}

TEST_F(FrameQueueFences, WhateverStopsTheQueueEndsTheWaits) {
  struct {
    const char *name;
    std::function<void(FrameQueue &)> stop;
    bool ends_popping;
  } const rows[] = {
      {"flush", [](FrameQueue &q) { q.setFlushing(); }, true},
      {"failure", [](FrameQueue &q) { q.setFlow(GST_FLOW_ERROR); }, true},
      {"end of the segment", [](FrameQueue &q) { EXPECT_EQ(q.endSegment(), 2u); }, false},
      {"clear", [](FrameQueue &q) { EXPECT_EQ(q.clear().buffers, 2u); }, false},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.name);
    Producer producer;
    queue_.start();
    for (guint64 n : {1, 2}) ASSERT_EQ(push(n, producer.fences(), kLong), GST_FLOW_OK);
    EXPECT_EQ(waiting(), 2u);
    auto popped = popping();
    EXPECT_TRUE(waits(popped));
    row.stop(queue_);
    EXPECT_EQ(waiting(), 0u);
    if (!row.ends_popping) {
      EXPECT_TRUE(waits(popped)) << "nothing is left to come out";
      queue_.setFlushing();
    }
    ASSERT_TRUE(finishes(popped));
    EXPECT_FALSE(popped.get().has_value());
    EXPECT_EQ(queue_.clear().buffers, row.ends_popping ? 2u : 0u);
  }
}

TEST_F(FrameQueueFences, AFrameThatFindsNoRoomEndsItsWaitWithTheFlush) {
  queue_.setCapacity(1);
  Producer producer;
  ASSERT_EQ(push(1, producer.fences(), kLong), GST_FLOW_OK);
  auto blocked = std::async(std::launch::async, [&] { return push(2, producer.fences(), kLong); });
  EXPECT_TRUE(waits(blocked));
  EXPECT_EQ(waiting(), 2u) << "its time runs already";
  queue_.setFlushing();
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(blocked.get(), GST_FLOW_FLUSHING);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(FrameQueueFences, FramesWithoutDownstreamGoOnWaitingForIt) {
  Producer producer;
  ASSERT_EQ(push(1, producer.fences(), kLong), GST_FLOW_OK);
  queue_.setFlow(GST_FLOW_NOT_LINKED);
  EXPECT_EQ(waiting(), 1u);
  ASSERT_TRUE(queue_.restart());
  auto popped = popping();
  EXPECT_TRUE(waits(popped)) << "a frame that is not finished came out";
  producer.finish();
  EXPECT_EQ(take(popped, 1).result.value().outcome, FenceOutcome::Signalled);
}

TEST_F(FrameQueueFences, AFlushedFrameThatWasLeftInTheQueueIsNoFinishedOne) {
  Producer producer;
  ASSERT_EQ(push(1, producer.fences(), kLong), GST_FLOW_OK);
  queue_.setFlushing();
  queue_.start();
  const auto end = take(1);
  ASSERT_TRUE(end.result.ok());
  EXPECT_EQ(end.result.value().outcome, FenceOutcome::Cancelled);
}

// Signals, flushes, pushes and pops at once: nobody deadlocks and no wait is left.
TEST_F(FrameQueueFences, SignalsAndFlushesCross) {
  std::array<Producer, 8> producers;
  std::atomic<bool> over = false;
  auto pushing = std::async(std::launch::async, [&] {
    for (guint64 n = 0; !over; ++n) {
      if (n % 8 == 0) producers = {};
      push(n, producers[n % 8].fences(), 1ms);
      if (n % 3 != 0) producers[n % 8].finish();
    }
  });
  std::atomic<int> came = 0;
  auto popping = std::async(std::launch::async, [&] {
    while (!over) {
      auto item = queue_.pop();
      if (!item) {
        std::this_thread::yield();
        continue;
      }
      gst_mini_object_unref(item->object);
      queue_.finishedBuffer();
      ++came;
    }
  });
  const auto until = FrameQueue::Clock::now() + 1s;
  for (int i = 0; FrameQueue::Clock::now() < until; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 * 300));
    if (i % 4 == 3)
      queue_.endSegment();
    else
      queue_.setFlushing();
    queue_.clear();
    queue_.start();
  }
  over = true;
  queue_.setFlushing();
  EXPECT_TRUE(finishes(pushing));
  EXPECT_TRUE(finishes(popping));
  EXPECT_GT(came, 0);
}

TEST(FrameStats, CountsWhatFencesDid) {
  Stats stats;
  const auto add = [&](Result<FenceResult> result, bool waited, std::chrono::nanoseconds wait) {
    FrameQueue::FenceEnd end;
    end.result = std::move(result);
    end.waited = waited;
    end.wait = wait;
    stats.add(end);
  };
  add(FenceResult{}, false, 0ns);
  add(FenceResult{}, true, 10us);
  add(FenceResult{FenceOutcome::TimedOut, ETIMEDOUT, 0}, true, 30us);
  add(FenceResult{FenceOutcome::Failed, EIO, 0}, true, 20us);
  add(FenceResult{FenceOutcome::Failed, EIO, 0}, false, 0ns);
  add(Error{"closed", EBADF, ""}, false, 0ns);
  add(FenceResult{FenceOutcome::Cancelled, ECANCELED, 0}, true, 0ns);
  GstStructure *s = stats.structure();
  struct {
    const char *field;
    guint64 value;
  } const rows[] = {{"fence-waits", 3},
                    {"fence-wait-us", 60},
                    {"fence-wait-p50-us", 20},
                    {"fence-wait-p95-us", 30},
                    {"fence-timeouts", 1},
                    {"fence-errors", 3},
                    {"frames", 0},
                    {"copies", 0}};
  for (const auto &row : rows) {
    guint64 value = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(s, row.field, &value)) << row.field;
    EXPECT_EQ(value, row.value) << row.field;
  }
  gst_structure_free(s);
}

} // namespace
