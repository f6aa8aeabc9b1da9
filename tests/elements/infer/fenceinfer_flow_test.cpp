// SPDX-License-Identifier: LGPL-2.1-or-later
// Which frames the model looks at, which ones are dropped, and in which order they leave.
#include "tests/elements/infer/fixture.h"

#include <atomic>
#include <thread>

#include "gst/zerocopy/gstzcinferencemeta.h"

namespace gstzc::test {
namespace {

using namespace std::chrono_literals;

constexpr const char *kCaps = "video/x-raw,format=RGB,width=128,height=128,framerate=30/1";

class Flow : public FenceInferTest {
protected:
  std::string fast() { return save(constantFaces(128, {kMiddleFace}, 3.0f), "fast.onnx"); }
  // About a second a frame: long enough that frames pile up, short enough to wait for.
  std::string slow() { return save(slowFaces({kMiddleFace}, 3.0f, 800), "slow.onnx"); }
  // One number for each picture of 8x8, any number of them: the mean of its colours.
  std::string means() {
    OnnxModel model;
    model.input("image", kOnnxFloat, {OnnxDim("batch"), 3, 8, 8})
        .node("ReduceMean", {"image"}, "mean", {{"axes", {1, 2, 3}}, OnnxAttribute::integer("keepdims", 0)})
        .constant("columns", {2}, std::vector<int64_t>{-1, 1})
        .node("Reshape", {"mean", "columns"}, "out")
        .output("out", kOnnxFloat, {OnnxDim("batch"), 1});
    return save(model, "means.onnx");
  }
  // Does not end by itself in the time of a test.
  std::string endless() { return save(slowFaces({kMiddleFace}, 3.0f, 6000), "endless.onnx"); }

  GstFlowReturn push(guint64 number, guint flags = 0) {
    GstBuffer *buffer = solid("RGB", 128, 128, {1, 2, 3});
    GST_BUFFER_PTS(buffer) = number * GST_SECOND / 30;
    GST_BUFFER_OFFSET(buffer) = number;
    GST_BUFFER_FLAG_SET(buffer, flags);
    return gst_harness_push(harness_, buffer);
  }
  void setProperty(const char *text) {
    const std::string whole = text;
    const size_t equals = whole.find('=');
    gst_util_set_object_arg(G_OBJECT(harness_->element), whole.substr(0, equals).c_str(),
                            whole.substr(equals + 1).c_str());
  }
  void untilEos() {
    bool eos = false;
    while (!eos) {
      GstEvent *event = gst_harness_pull_event(harness_); // within 60 s
      ASSERT_NE(event, nullptr);
      eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
      gst_event_unref(event);
    }
  }
  static bool lookedAt(GstBuffer *buffer) { return gst_buffer_get_analytics_relation_meta(buffer) != nullptr; }
};

TEST_F(Flow, ManyWorkersAndFramesLeaveInOrder) {
  start(fast(), kCaps, "workers=4 max-in-flight=8");
  for (guint64 i = 0; i < 200; ++i) {
    ASSERT_EQ(push(i), GST_FLOW_OK);
    if (i < 8) continue;
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(out), i - 8);
    EXPECT_EQ(boxesOf(out).size(), 1u);
    gst_buffer_unref(out);
  }
  gst_harness_push_event(harness_, gst_event_new_eos());
  for (guint64 i = 192; i < 200; ++i) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(out), i);
    gst_buffer_unref(out);
  }
}

TEST_F(Flow, EveryThirdFrameIsLookedAtAndTheOthersPass) {
  start(fast(), kCaps, "inference-interval=3");
  for (guint64 i = 0; i < 7; ++i) {
    ASSERT_EQ(push(i), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_EQ(lookedAt(out), i % 3 == 0) << i;
    EXPECT_EQ(gst_buffer_get_zc_inference_meta(out, nullptr) != nullptr, i % 3 == 0) << i;
    gst_buffer_unref(out);
  }
  EXPECT_EQ(stat("frames"), 7u);
  EXPECT_EQ(stat("inferred"), 3u);
  EXPECT_EQ(stat("skipped"), 4u);
  EXPECT_EQ(stat("stale"), 0u);
  setProperty("inference-interval=1");
  ASSERT_EQ(push(7), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_TRUE(lookedAt(out));
  gst_buffer_unref(out);
}

TEST_F(Flow, RepeatedResultsSayHowOldTheyAre) {
  start(fast(), kCaps, "inference-interval=3 repeat-results=true");
  for (guint64 i = 0; i < 6; ++i) {
    ASSERT_EQ(push(i), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_EQ(boxesOf(out).size(), 1u) << i;
    GstZcInferenceMeta *meta = gst_buffer_get_zc_inference_meta(out, nullptr);
    ASSERT_NE(meta, nullptr) << i;
    EXPECT_EQ(gst_zc_inference_meta_is_fresh(meta), i % 3 == 0) << i;
    EXPECT_EQ(gst_zc_inference_meta_get_age(meta), i % 3) << i;
    EXPECT_EQ(gst_zc_inference_meta_get_timestamp(meta), (i - i % 3) * GST_SECOND / 30) << i;
    gst_buffer_unref(out);
  }
  EXPECT_EQ(stat("stale"), 4u);
}

// Pixels of other frames say nothing of these; what was found before repeating was asked for is older than it seems.
TEST_F(Flow, ResultsAreNotRepeatedOnFramesOfOtherCapsNorAfterAPause) {
  start(fast(), kCaps, "inference-interval=2 repeat-results=true");
  const auto looked = [&](guint64 number) {
    EXPECT_EQ(push(number), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    const bool has = lookedAt(out);
    gst_buffer_unref(out);
    return has;
  };
  EXPECT_TRUE(looked(0));
  gst_harness_set_src_caps_str(harness_, "video/x-raw,format=RGB,width=128,height=64,framerate=30/1");
  EXPECT_FALSE(looked(1));
  EXPECT_TRUE(looked(2));
  EXPECT_TRUE(looked(3)) << "repeated";
  setProperty("repeat-results=false");
  EXPECT_TRUE(looked(4));
  setProperty("repeat-results=true");
  EXPECT_FALSE(looked(5));
}

TEST_F(Flow, AFlushForgetsTheResultsToRepeat) {
  start(fast(), kCaps, "inference-interval=2 repeat-results=true");
  ASSERT_EQ(push(0), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  gst_harness_push_event(harness_, gst_event_new_flush_start());
  gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  ASSERT_EQ(push(1, GST_BUFFER_FLAG_GAP), GST_FLOW_OK); // nothing is in it: not looked at
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_FALSE(lookedAt(out));
  gst_buffer_unref(out);
  ASSERT_EQ(push(2), GST_FLOW_OK);
  out = gst_harness_pull(harness_);
  EXPECT_TRUE(lookedAt(out)) << "the first frame after a flush";
  gst_buffer_unref(out);
}

TEST_F(Flow, FramesThatComeTooLatePassUnlookedAt) {
  start(fast(), kCaps);
  ASSERT_EQ(push(0), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  // frame 0 came 100 ms late: in time are those from 200 ms on
  gst_harness_push_upstream_event(harness_, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1.5, 100 * GST_MSECOND, 0));
  for (const auto &[number, looked] : {std::pair{1, false}, {5, false}, {6, true}, {7, true}}) {
    ASSERT_EQ(push(static_cast<guint64>(number)), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_EQ(lookedAt(out), looked) << number;
    gst_buffer_unref(out);
  }
  setProperty("qos=false");
  ASSERT_EQ(push(1), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_TRUE(lookedAt(out));
  gst_buffer_unref(out);
}

TEST_F(Flow, LeakyNewDropsWhatComesWhileItIsFull) {
  start(endless(), kCaps, "drop-policy=leaky-new max-in-flight=2 workers=1");
  for (guint64 i = 0; i < 10; ++i) ASSERT_EQ(push(i), GST_FLOW_OK) << "the streaming thread must not wait";
  EXPECT_EQ(stat("dropped"), 8u);
  EXPECT_EQ(stat("queue-depth"), 2u);
}

TEST_F(Flow, LeakyOldKeepsTheFrameInWorkAndTheNewest) {
  start(slow(), kCaps, "drop-policy=leaky-old max-in-flight=2 workers=1");
  ASSERT_EQ(push(0), GST_FLOW_OK);
  std::this_thread::sleep_for(100ms); // a worker has it, whatever the machine; else it is the one that goes
  for (guint64 i = 1; i < 10; ++i) ASSERT_EQ(push(i), GST_FLOW_OK);
  gst_harness_push_event(harness_, gst_event_new_eos());
  untilEos();
  guint64 next = 0, dropped = 0;
  while (GstBuffer *out = gst_harness_try_pull(harness_)) {
    const guint64 number = GST_BUFFER_OFFSET(out);
    EXPECT_GE(number, next);
    if (number != next) {
      EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_DISCONT)) << number;
    }
    dropped += number - next;
    next = number + 1;
    gst_buffer_unref(out);
  }
  EXPECT_EQ(next, 10u) << "the newest stays";
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(stat("dropped"), dropped);
  EXPECT_EQ(stat("frames"), 10 - dropped);
}

// Else frames that pass would take the place of each one whose turn it is.
TEST_F(Flow, AFrameThatIsLeftOutDoesNotUseUpTheTurn) {
  start(slow(), kCaps, "drop-policy=leaky-new inference-interval=3 max-in-flight=2 workers=1");
  for (guint64 i = 0; i < 4; ++i) ASSERT_EQ(push(i), GST_FLOW_OK); // 1 passes, 2 and 3 find no room
  for (const bool looked : {true, false}) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(lookedAt(out), looked);
    gst_buffer_unref(out);
  }
  EXPECT_EQ(stat("dropped"), 2u);
  ASSERT_EQ(push(4), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  ASSERT_NE(out, nullptr);
  EXPECT_TRUE(lookedAt(out)) << "it was the turn of 3";
  gst_buffer_unref(out);
}

// What came is what left, what was dropped and what is here: at any time, also for the frame that waits for room.
TEST_F(Flow, EachFrameIsCountedOnce) {
  start(endless(), kCaps, "max-in-flight=1 workers=1");
  std::thread pushing([this] {
    EXPECT_EQ(push(0), GST_FLOW_OK);
    EXPECT_EQ(push(1), GST_FLOW_FLUSHING);
  });
  for (int i = 0; i < 1000 && stat("queue-depth") < 2; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(stat("queue-depth"), 2u);
  EXPECT_EQ(stat("frames") + stat("dropped"), 0u);
  gst_harness_push_event(harness_, gst_event_new_flush_start());
  pushing.join();
  EXPECT_EQ(stat("dropped"), 1u);
  EXPECT_EQ(stat("queue-depth"), 1u);
  gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE));
  EXPECT_EQ(stat("dropped"), 2u);
  EXPECT_EQ(stat("queue-depth"), 0u);
}

TEST_F(Flow, AFrameThatIsBeingPushedHasLeft) {
  start(fast(), kCaps);
  GstPad *src = gst_element_get_static_pad(harness_->element, "src");
  const gulong probe = gst_pad_add_probe(
      src, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BLOCK | GST_PAD_PROBE_TYPE_BUFFER),
      [](GstPad *, GstPadProbeInfo *, gpointer) { return GST_PAD_PROBE_OK; }, nullptr, nullptr);
  ASSERT_EQ(push(0), GST_FLOW_OK);
  for (int i = 0; i < 1000 && stat("frames") < 1; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(stat("frames"), 1u);
  EXPECT_EQ(stat("queue-depth"), 0u);
  gst_pad_remove_probe(src, probe);
  gst_object_unref(src);
  gst_buffer_unref(gst_harness_pull(harness_));
}

// A source that hears "error" of them posts one of its own.
TEST_F(Flow, EventsThatMeetAClosedQueueSayWhatClosedIt) {
  start(fast(), kCaps);
  GstPad *sink = gst_element_get_static_pad(harness_->element, "sink");
  const auto tags = [] { return gst_event_new_tag(gst_tag_list_new(GST_TAG_TITLE, "x", nullptr)); };
  EXPECT_TRUE(gst_pad_push_event(harness_->srcpad, tags()));
  GstPad *src = gst_element_get_static_pad(harness_->element, "src");
  ASSERT_TRUE(gst_pad_unlink(src, harness_->sinkpad));
  ASSERT_EQ(push(0), GST_FLOW_OK);
  for (int i = 0; i < 1000 && push(1) != GST_FLOW_NOT_LINKED; ++i) std::this_thread::sleep_for(10ms);
  // GStreamer sends events that stay before the next frame, and takes what comes of them for what came of that
  EXPECT_TRUE(gst_pad_push_event(harness_->srcpad, tags()));
  EXPECT_EQ(push(2), GST_FLOW_NOT_LINKED);
  EXPECT_EQ(GST_PAD_LINK_OK, gst_pad_link(src, harness_->sinkpad));
  gst_object_unref(src);
  gst_object_unref(sink);
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
}

TEST_F(Flow, BatchesAreFilledAndTheEndOfTheStreamDoesNotWaitForMore) {
  start(means(), "video/x-raw,format=RGB,width=8,height=8,framerate=30/1",
        "decoder=none output=tensor-meta batch-size=4 batch-timeout=10000 workers=1 max-in-flight=4");
  const auto before = std::chrono::steady_clock::now();
  for (guint8 i = 0; i < 6; ++i) ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 8, 8, {i, i, i})), GST_FLOW_OK);
  gst_harness_push_event(harness_, gst_event_new_eos());
  for (guint8 i = 0; i < 6; ++i) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    GstTensorMeta *meta = gst_buffer_get_tensor_meta(out);
    ASSERT_NE(meta, nullptr);
    GstMapInfo map;
    gst_buffer_map(gst_tensor_meta_get(meta, 0)->data, &map, GST_MAP_READ);
    ASSERT_EQ(map.size, sizeof(float)) << "of one picture alone";
    EXPECT_FLOAT_EQ(reinterpret_cast<const float *>(map.data)[0], static_cast<float>(i)) << "another picture's";
    gst_buffer_unmap(gst_tensor_meta_get(meta, 0)->data, &map);
    gst_buffer_unref(out);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 9s);
  GstStructure *stats = nullptr;
  g_object_get(harness_->element, "stats", &stats, nullptr);
  gdouble mean = 0;
  EXPECT_TRUE(gst_structure_get_double(stats, "batch-size-mean", &mean));
  EXPECT_DOUBLE_EQ(mean, 3.0) << "four and two";
  gst_structure_free(stats);
}

// The thread that would bring more pictures waits for the answer.
TEST_F(Flow, ABatchDoesNotWaitWhereAQueryWaitsForIt) {
  start(means(), "video/x-raw,format=RGB,width=8,height=8,framerate=30/1",
        "decoder=none output=tensor-meta batch-size=4 batch-timeout=10000 workers=1");
  ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 8, 8, {1, 2, 3})), GST_FLOW_OK);
  const auto before = std::chrono::steady_clock::now();
  GstQuery *query = gst_query_new_drain();
  gst_pad_peer_query(harness_->srcpad, query);
  gst_query_unref(query);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 9s);
  GstBuffer *out = gst_harness_try_pull(harness_);
  ASSERT_NE(out, nullptr);
  gst_buffer_unref(out);
}

TEST_F(Flow, AnotherOutputIsOfFramesThatComeAfter) {
  start(slow(), kCaps, "max-in-flight=4 workers=1");
  ASSERT_EQ(push(0), GST_FLOW_OK);
  setProperty("output=both"); // while it is in work
  ASSERT_EQ(push(1), GST_FLOW_OK);
  for (const bool tensors : {false, true}) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(boxesOf(out).size(), 1u);
    EXPECT_EQ(gst_buffer_get_tensor_meta(out) != nullptr, tensors);
    gst_buffer_unref(out);
  }
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
}

TEST_F(Flow, StatisticsArePostedAsOftenAsAsked) {
  start(fast(), kCaps, "stats-interval=1");
  for (guint64 i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(2ms);
    ASSERT_EQ(push(i), GST_FLOW_OK);
    gst_buffer_unref(gst_harness_pull(harness_));
  }
  GstMessage *posted = message(GST_MESSAGE_ELEMENT);
  ASSERT_NE(posted, nullptr);
  const GstStructure *structure = gst_message_get_structure(posted);
  EXPECT_TRUE(gst_structure_has_name(structure, "fenceinfer-stats"));
  for (const char *field : {"wait-p50-us", "pre-p95-us", "infer-p99-us", "post-p50-us", "queue-depth", "copies"})
    EXPECT_TRUE(gst_structure_has_field_typed(structure, field, G_TYPE_UINT64)) << field;
  gst_message_unref(posted);
}

class Latency : public Flow {
protected:
  GstClockTime ask() {
    GstQuery *query = gst_query_new_latency();
    GstPad *src = gst_element_get_static_pad(harness_->element, "src");
    EXPECT_TRUE(gst_pad_query(src, query));
    gst_object_unref(src);
    GstClockTime min = 0;
    gst_query_parse_latency(query, nullptr, &min, nullptr);
    gst_query_unref(query);
    return min;
  }
  bool posted() {
    GstMessage *told = message(GST_MESSAGE_LATENCY, 0);
    if (told != nullptr) gst_message_unref(told);
    return told != nullptr;
  }
};

TEST_F(Latency, IsAFramesTimeOrWhatAFrameTook) {
  start(slow(), kCaps);
  gst_harness_set_upstream_latency(harness_, 5 * GST_MSECOND);
  EXPECT_EQ(ask(), 5 * GST_MSECOND + GST_SECOND / 30);
  ASSERT_EQ(push(0), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  EXPECT_GE(ask(), 5 * GST_MSECOND + GST_SECOND / 30);
}

// A live pipeline asks when it starts to play; the first frame may come much later.
TEST_F(Latency, AskedForBeforeTheCapsIsAskedForAgain) {
  start(fast(), nullptr);
  gst_harness_set_upstream_latency(harness_, 5 * GST_MSECOND);
  EXPECT_EQ(ask(), 5 * GST_MSECOND);
  gst_harness_set_src_caps_str(harness_, kCaps);
  EXPECT_TRUE(posted());
  EXPECT_EQ(ask(), 5 * GST_MSECOND + GST_SECOND / 30);
  gst_harness_set_src_caps_str(harness_, "video/x-raw,format=RGB,width=128,height=128,framerate=10/1");
  EXPECT_TRUE(posted());
  EXPECT_EQ(ask(), 105 * GST_MSECOND);
  gst_harness_set_src_caps_str(harness_, kCaps);
  EXPECT_FALSE(posted()) << "less is no hurry";
  EXPECT_EQ(ask(), 5 * GST_MSECOND + GST_SECOND / 30);
}

TEST_F(Latency, HasTheTimeThatABatchWaits) {
  start(means(), "video/x-raw,format=RGB,width=8,height=8,framerate=10/1",
        "decoder=none output=tensor-meta batch-size=4 batch-timeout=200");
  gst_harness_set_upstream_latency(harness_, 5 * GST_MSECOND);
  EXPECT_EQ(ask(), 305 * GST_MSECOND);
  stop();
  start(means(), "video/x-raw,format=RGB,width=8,height=8,framerate=10/1",
        "decoder=none output=tensor-meta batch-timeout=200");
  gst_harness_set_upstream_latency(harness_, 5 * GST_MSECOND);
  EXPECT_EQ(ask(), 105 * GST_MSECOND) << "runs of one wait for nothing";
}

} // namespace
} // namespace gstzc::test
