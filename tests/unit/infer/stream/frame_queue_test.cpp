// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_queue.h"

#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/infer/stream/queue_helpers.h"

using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

TEST(FrameQueue, StartsFlushing) {
  FrameQueue queue;
  EXPECT_EQ(queue.pushBuffer(numbered(0)), GST_FLOW_FLUSHING);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_FLUSHING);
  EXPECT_FALSE(queue.pop().has_value());
}

TEST(FrameQueue, KeepsTheOrderOfBuffersAndEvents) {
  FrameQueue queue;
  queue.setCapacity(4);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_gap(7, 1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(2)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  const char kinds[] = "bebe";
  for (int i = 0; i < 4; ++i) {
    auto item = queue.pop();
    ASSERT_TRUE(item.has_value());
    EXPECT_EQ(GST_IS_BUFFER(item->object), kinds[i] == 'b') << i;
    if (GST_IS_BUFFER(item->object)) {
      EXPECT_EQ(GST_BUFFER_OFFSET(item->object), i == 0 ? 1u : 2u);
      queue.finishedBuffer();
    }
    gst_mini_object_unref(item->object);
  }
}

TEST(FrameQueue, ABufferCountsUntilItIsFinished) {
  FrameQueue queue;
  queue.setCapacity(2);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(2)), GST_FLOW_OK);
  auto item = queue.pop(); // being worked on
  EXPECT_EQ(queue.inFlight(), 2u);
  auto third = std::async(std::launch::async, [&] { return queue.pushBuffer(numbered(3)); });
  EXPECT_TRUE(waits(third));
  EXPECT_EQ(queue.pushEvent(gst_event_new_gap(0, 1)), GST_FLOW_OK) << "events are not bounded";
  gst_mini_object_unref(item->object);
  queue.finishedBuffer();
  ASSERT_TRUE(finishes(third));
  EXPECT_EQ(third.get(), GST_FLOW_OK);
}

TEST(FrameQueue, FlushingWakesEveryWaiter) {
  FrameQueue queue;
  queue.setCapacity(1);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  auto blocked = std::async(std::launch::async, [&] { return queue.pushBuffer(numbered(2)); });
  EXPECT_TRUE(waits(blocked));
  queue.setFlushing();
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(blocked.get(), GST_FLOW_FLUSHING);

  EXPECT_EQ(queue.clear().buffers, 1u);
  queue.start();
  EXPECT_EQ(queue.inFlight(), 0u);
  auto popping = std::async(std::launch::async, [&] { return queue.pop().has_value(); });
  EXPECT_TRUE(waits(popping));
  queue.setFlushing();
  ASSERT_TRUE(finishes(popping));
  EXPECT_FALSE(popping.get());
}

TEST(FrameQueue, AFlowOtherThanOkReachesUpstream) {
  FrameQueue queue;
  queue.setCapacity(1);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  auto blocked = std::async(std::launch::async, [&] { return queue.pushBuffer(numbered(2)); });
  EXPECT_TRUE(waits(blocked));
  queue.setFlow(GST_FLOW_NOT_NEGOTIATED);
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(blocked.get(), GST_FLOW_NOT_NEGOTIATED);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_NOT_NEGOTIATED);
  queue.start();
  EXPECT_EQ(queue.flow(), GST_FLOW_OK);
}

TEST(FrameQueue, AFlowSaysWhetherAnEndOfStreamWaits) {
  FrameQueue queue;
  queue.start();
  EXPECT_EQ(queue.pushEvent(gst_event_new_gap(0, 1)), GST_FLOW_OK);
  EXPECT_FALSE(queue.setFlow(GST_FLOW_NOT_LINKED));
  queue.start();
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  EXPECT_TRUE(queue.setFlow(GST_FLOW_NOT_LINKED));
}

TEST(FrameQueue, OnlyAQueueWithoutDownstreamRestarts) {
  FrameQueue queue;
  EXPECT_FALSE(queue.restart()) << "flushing";
  queue.start();
  EXPECT_FALSE(queue.closed());
  queue.setFlow(GST_FLOW_ERROR);
  EXPECT_FALSE(queue.restart());
  queue.setFlow(GST_FLOW_NOT_LINKED);
  EXPECT_TRUE(queue.closed());
  EXPECT_TRUE(queue.restart());
  EXPECT_EQ(queue.flow(), GST_FLOW_OK);
  queue.setFlow(GST_FLOW_NOT_LINKED);
  queue.setFlushing();
  EXPECT_FALSE(queue.restart()) << "a flush has begun meanwhile";
  EXPECT_EQ(queue.flow(), GST_FLOW_FLUSHING);
}

GstEvent *segment() {
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  return gst_event_new_segment(&segment);
}

// They are not sent again to who has no downstream, and are needed when it comes.
TEST(FrameQueue, WithoutDownstreamEventsThatStayAreKept) {
  FrameQueue queue;
  queue.start();
  queue.setFlow(GST_FLOW_NOT_LINKED);
  const auto caps = [](int width) {
    GstCaps *made = gst_caps_new_simple("video/x-raw", "width", G_TYPE_INT, width, nullptr);
    GstEvent *event = gst_event_new_caps(made);
    gst_caps_unref(made);
    return event;
  };
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  EXPECT_EQ(queue.pushEvent(caps(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_segment(&segment)), GST_FLOW_OK);
  GstEvent *const last = caps(2);
  EXPECT_EQ(queue.pushEvent(last), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_NOT_LINKED);
  EXPECT_EQ(queue.pushEvent(gst_event_new_gap(0, 1)), GST_FLOW_NOT_LINKED);
  ASSERT_TRUE(queue.restart());
  auto first = queue.pop(), second = queue.pop();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->object, GST_MINI_OBJECT_CAST(last)) << "in the place of the one before: caps come before segments";
  EXPECT_EQ(GST_EVENT_TYPE(second->object), GST_EVENT_SEGMENT);
  gst_mini_object_unref(first->object);
  gst_mini_object_unref(second->object);
  queue.setFlushing();
  EXPECT_EQ(queue.pushEvent(caps(3)), GST_FLOW_FLUSHING);
  EXPECT_EQ(queue.clear().events.size(), 0u);
}

// What came is what came out, what was dropped and what is here, at any time.
TEST(FrameQueue, EachBufferIsCountedOnce) {
  FrameQueue queue;
  queue.setCapacity(1);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  auto blocked = std::async(std::launch::async, [&] { return queue.pushBuffer(numbered(2)); });
  while (queue.counts().held < 2) std::this_thread::yield();
  EXPECT_EQ(queue.counts().dropped, 0u);
  queue.setFlushing();
  EXPECT_EQ(blocked.get(), GST_FLOW_FLUSHING);
  EXPECT_EQ(queue.counts().held, 1u);
  EXPECT_EQ(queue.counts().dropped, 1u);
  EXPECT_EQ(queue.clear().buffers, 1u);
  EXPECT_EQ(queue.counts().dropped, 2u);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(3)), GST_FLOW_OK);
  EXPECT_EQ(queue.endSegment(), 1u);
  EXPECT_EQ(queue.pushBuffer(numbered(4)), GST_FLOW_EOS);
  EXPECT_EQ(queue.counts().dropped, 4u);
  EXPECT_EQ(queue.counts().held, 0u);
}

TEST(FrameQueue, TheEndOfASegmentRefusesBuffersOnly) {
  FrameQueue queue;
  queue.setCapacity(2);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_gap(0, 1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(2)), GST_FLOW_OK);
  auto blocked = std::async(std::launch::async, [&] { return queue.pushBuffer(numbered(3)); });
  EXPECT_TRUE(waits(blocked));
  EXPECT_EQ(queue.endSegment(), 2u);
  ASSERT_TRUE(finishes(blocked));
  EXPECT_EQ(blocked.get(), GST_FLOW_EOS);
  EXPECT_EQ(queue.inFlight(), 0u);
  EXPECT_EQ(queue.pushBuffer(numbered(4)), GST_FLOW_EOS);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(segment()), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(5)), GST_FLOW_OK) << "a new segment";
  for (const GstEventType type : {GST_EVENT_GAP, GST_EVENT_EOS, GST_EVENT_SEGMENT}) {
    auto item = queue.pop();
    ASSERT_TRUE(item.has_value());
    ASSERT_TRUE(GST_IS_EVENT(item->object));
    EXPECT_EQ(GST_EVENT_TYPE(item->object), type);
    gst_mini_object_unref(item->object);
  }
}

TEST(FrameQueue, TheEndOfASegmentSparesTheNext) {
  FrameQueue queue;
  queue.setCapacity(3);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(segment()), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(2)), GST_FLOW_OK);
  EXPECT_EQ(queue.endSegment(), 1u);
  EXPECT_EQ(queue.flow(), GST_FLOW_OK);
  auto event = queue.pop();
  ASSERT_TRUE(GST_IS_EVENT(event->object));
  gst_mini_object_unref(event->object);
  auto buffer = queue.pop();
  ASSERT_TRUE(GST_IS_BUFFER(buffer->object));
  EXPECT_EQ(GST_BUFFER_OFFSET(buffer->object), 2u);
  gst_mini_object_unref(buffer->object);
}

TEST(FrameQueue, AQueryWaitsForItsTurnAndAnswer) {
  FrameQueue queue;
  queue.setCapacity(2);
  queue.start();
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  GstQuery *query = gst_query_new_drain();
  auto asked = std::async(std::launch::async, [&] { return queue.pushQuery(query); });
  EXPECT_TRUE(waits(asked));
  auto first = queue.pop();
  EXPECT_TRUE(GST_IS_BUFFER(first->object));
  gst_mini_object_unref(first->object);
  queue.finishedBuffer();
  auto second = queue.pop();
  ASSERT_TRUE(GST_IS_QUERY(second->object));
  queue.setFlushing(); // the query is in use: its sender must not go before the answer
  EXPECT_TRUE(waits(asked));
  queue.answered(true);
  ASSERT_TRUE(finishes(asked));
  EXPECT_TRUE(asked.get());
  gst_query_unref(query);
}

TEST(FrameQueue, AQueryThatNobodyTookEndsWithTheFlush) {
  for (const bool cleared_first : {false, true}) {
    FrameQueue queue;
    queue.start();
    GstQuery *query = gst_query_new_drain();
    auto asked = std::async(std::launch::async, [&] { return queue.pushQuery(query); });
    EXPECT_TRUE(waits(asked));
    if (cleared_first) {
      EXPECT_EQ(queue.clear().events.size(), 0u);
    } else {
      queue.setFlushing();
    }
    ASSERT_TRUE(finishes(asked));
    EXPECT_FALSE(asked.get());
    queue.start();
    auto popping = std::async(std::launch::async, [&] { return queue.pop().has_value(); });
    EXPECT_TRUE(waits(popping)) << "the query is no longer in the queue";
    queue.setFlushing();
    ASSERT_TRUE(finishes(popping));
    gst_query_unref(query);
  }
}

TEST(FrameQueue, ClearGivesTheEventsBack) {
  FrameQueue queue;
  queue.setCapacity(3);
  queue.start();
  EXPECT_EQ(queue.pushEvent(gst_event_new_stream_start("one")), GST_FLOW_OK);
  EXPECT_EQ(queue.pushBuffer(numbered(1)), GST_FLOW_OK);
  EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
  auto cleared = queue.clear();
  EXPECT_EQ(cleared.buffers, 1u);
  ASSERT_EQ(cleared.events.size(), 2u);
  EXPECT_EQ(GST_EVENT_TYPE(cleared.events[0]), GST_EVENT_STREAM_START);
  for (GstEvent *event : cleared.events) gst_event_unref(event);
}

} // namespace
