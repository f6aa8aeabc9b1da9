// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer between other elements: waiting, flushing, stopping, negotiation.
#include "tests/elements/infer/fixture.h"

#include <atomic>
#include <future>
#include <thread>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/scale.h"

namespace gstzc::test {
namespace {

using namespace std::chrono_literals;

constexpr const char *kRgb = "video/x-raw,format=RGB,width=256,height=128,framerate=30/1";
constexpr EncodedFace kFace = {0, 124, 124, 64, 48};

GstBuffer *frame() { return solid("RGB", 256, 128, {1, 2, 3}); }

class States : public FenceInferTest {
protected:
  // Some seconds a frame: no test waits for it to end.
  std::string slow() { return save(slowFaces({kFace}, 3.0f, 6000), "slow.onnx"); }
  std::string fast() { return save(constantFaces(128, {kMiddleFace}, 3.0f), "fast.onnx"); }

  void startWithoutDownstream() {
    GstElement *element = gst_element_factory_make("fenceinfer", nullptr);
    g_object_set(element, "model-file", fast().c_str(), nullptr);
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    harness_ = gst_harness_new_with_element(element, "sink", nullptr);
    gst_object_unref(element);
    gst_harness_set_src_caps_str(harness_, kRgb);
  }

  // Pushes from a thread of its own, which counts what was taken.
  void pushInBackground(int frames) {
    pushing_ = std::async(std::launch::async, [this, frames] {
      GstFlowReturn flow = GST_FLOW_OK;
      for (int i = 0; i < frames && flow == GST_FLOW_OK; ++i) {
        flow = gst_harness_push(harness_, frame());
        if (flow == GST_FLOW_OK) ++taken_;
      }
      return flow;
    });
  }
  std::future<GstFlowReturn> pushing_;
  std::atomic<int> taken_ = 0;
};

TEST_F(States, TheStreamingThreadWaitsOnlyAtTheBound) {
  start(slow(), kRgb, "max-in-flight=2");
  pushInBackground(4);
  for (int i = 0; i < 5000 && taken_ < 2; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(taken_, 2);
  EXPECT_EQ(stat("inferred"), 0u) << "the streaming thread waited for the model";
  EXPECT_EQ(pushing_.wait_for(200ms), std::future_status::timeout);
  EXPECT_EQ(taken_, 2) << "more frames are held than max-in-flight";

  const auto stopping = std::chrono::steady_clock::now();
  gst_element_set_state(harness_->element, GST_STATE_NULL);
  EXPECT_LT(std::chrono::steady_clock::now() - stopping, 3s) << "stopping waited for the model";
  ASSERT_EQ(pushing_.wait_for(5s), std::future_status::ready) << "the streaming thread was not woken";
  EXPECT_EQ(pushing_.get(), GST_FLOW_FLUSHING);
}

TEST_F(States, AFlushEndsTheRunAndDropsWhatWaits) {
  start(slow(), kRgb, "max-in-flight=2");
  pushInBackground(3);
  for (int i = 0; i < 5000 && taken_ < 2; ++i) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(taken_, 2);
  for (int i = 0; i < 5000 && stat("queue-depth") < 3; ++i) std::this_thread::sleep_for(1ms);
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
  ASSERT_EQ(pushing_.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(pushing_.get(), GST_FLOW_FLUSHING);
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
  EXPECT_EQ(stat("dropped"), 3u) << "the one that waited for room, too";
  EXPECT_EQ(stat("frames"), 0u);
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr) << "a cancelled run is no error";
}

TEST_F(States, CapsThatWaitDuringAFlushAreNotLost) {
  start(slow(), kRgb);
  ASSERT_EQ(gst_harness_push(harness_, frame()), GST_FLOW_OK);
  constexpr const char *next = "video/x-raw,format=NV12,width=64,height=48,framerate=30/1";
  gst_harness_set_src_caps_str(harness_, next); // waits behind the frame
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
  GstPad *src = gst_element_get_static_pad(harness_->element, "src");
  GstCaps *current = gst_pad_get_current_caps(src);
  ASSERT_NE(current, nullptr);
  GstCaps *expected = gst_caps_from_string(next);
  EXPECT_TRUE(gst_caps_is_subset(current, expected));
  gst_caps_unref(expected);
  gst_caps_unref(current);
  gst_object_unref(src);
}

TEST_F(States, FramesFlowAgainAfterAFlushWithTheCapsThatWaited) {
  start(fast(), kRgb);
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  for (int round = 0; round < 20; ++round) {
    const bool wide = round % 2 == 0;
    gst_harness_set_src_caps_str(harness_, wide ? kRgb : "video/x-raw,format=RGB,width=128,height=128,framerate=30/1");
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_segment(&segment)));
    ASSERT_EQ(gst_harness_push(harness_, wide ? frame() : solid("RGB", 128, 128, {1, 2, 3})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    const auto boxes = boxesOf(out);
    ASSERT_EQ(boxes.size(), 1u);
    EXPECT_EQ(boxes[0].w, wide ? 64 : 32);
    gst_buffer_unref(out);
  }
}

TEST_F(States, StartsAgainAfterStopping) {
  start(fast(), kRgb);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(gst_harness_push(harness_, frame()), GST_FLOW_OK);
    gst_buffer_unref(gst_harness_pull(harness_));
    EXPECT_EQ(stat("frames"), 1u);
    ASSERT_EQ(gst_element_set_state(harness_->element, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    ASSERT_NE(gst_element_set_state(harness_->element, GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(harness_, gst_event_new_stream_start("again"));
    GstCaps *caps = gst_caps_from_string(kRgb);
    gst_harness_push_event(harness_, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  }
}

TEST_F(States, InAPipelineToTheEnd) {
  const std::string line = "videotestsrc num-buffers=40 ! video/x-raw,format=NV12,width=321,height=241 ! fenceinfer "
                           "name=f model-file=\"" +
                           fast() + "\" ! fakesink sync=false";
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
  ASSERT_EQ(error, nullptr) << error->message;
  GstBus *bus = gst_element_get_bus(pipeline);
  GstElement *infer = gst_bin_get_by_name(GST_BIN(pipeline), "f");
  for (int i = 0; i < 2; ++i) {
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage *end = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND,
                                                 static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
    ASSERT_NE(end, nullptr) << "the pipeline hangs";
    EXPECT_EQ(GST_MESSAGE_TYPE(end), GST_MESSAGE_EOS);
    gst_message_unref(end);
    GstStructure *stats = nullptr;
    g_object_get(infer, "stats", &stats, nullptr);
    guint64 frames = 0;
    gst_structure_get_uint64(stats, "frames", &frames);
    EXPECT_EQ(frames, 40u);
    gst_structure_free(stats);
    gst_element_set_state(pipeline, GST_STATE_NULL);
  }
  gst_object_unref(infer);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
}

// What ends a pipeline of one chain, within 10 s; GST_MESSAGE_UNKNOWN where nothing does.
GstMessageType ending(const std::string &line) {
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
  EXPECT_EQ(error, nullptr) << error->message;
  GstBus *bus = gst_element_get_bus(pipeline);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstMessage *end = gst_bus_timed_pop_filtered(bus, 10 * GST_SECOND,
                                               static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  const GstMessageType type = end != nullptr ? GST_MESSAGE_TYPE(end) : GST_MESSAGE_UNKNOWN;
  gst_clear_message(&end);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
  return type;
}

TEST_F(States, TheStreamEndsWhereDownstreamEndsIt) {
  for (const int frames : {3, 50}) // the source is through before downstream has had enough, and is not
    EXPECT_EQ(ending("videotestsrc num-buffers=" + std::to_string(frames) +
                     " ! video/x-raw,format=RGB,width=64,height=48 ! fenceinfer model-file=\"" + fast() +
                     "\" ! identity eos-after=3 ! fakesink sync=false"),
              GST_MESSAGE_EOS)
        << frames;
}

TEST_F(States, AFailureBeforeAWaitingEndIsAnError) {
  // slow enough that the end of the stream waits behind the one frame
  const std::string model = save(slowFaces({kFace}, 3.0f, 100), "some.onnx");
  EXPECT_EQ(ending("videotestsrc num-buffers=1 ! video/x-raw,format=RGB,width=64,height=48 ! fenceinfer model-file=\"" +
                   model + "\""),
            GST_MESSAGE_ERROR);
}

TEST_F(States, SeeksWhilePlaying) {
  const std::string line = "videotestsrc num-buffers=100000 ! video/x-raw,format=RGB,width=64,height=48 ! fenceinfer "
                           "model-file=\"" +
                           fast() + "\" ! fakesink sync=false";
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
  ASSERT_EQ(error, nullptr) << error->message;
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  ASSERT_EQ(gst_element_get_state(pipeline, nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(gst_element_seek_simple(pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, i * GST_SECOND));
  ASSERT_EQ(gst_element_get_state(pipeline, nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *failure = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  EXPECT_EQ(failure, nullptr);
  gst_clear_message(&failure);
  gst_object_unref(bus);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
}

TEST_F(States, WithoutDownstreamTheProducerHearsOfIt) {
  startWithoutDownstream();
  GstFlowReturn flow = GST_FLOW_OK;
  for (int i = 0; i < 100 && flow == GST_FLOW_OK; ++i) flow = gst_harness_push(harness_, frame());
  EXPECT_EQ(flow, GST_FLOW_NOT_LINKED);
  EXPECT_FALSE(gst_harness_push_event(harness_, gst_event_new_eos()));
  GstMessage *error = message(GST_MESSAGE_ERROR);
  EXPECT_NE(error, nullptr) << "nobody sees flow returns after end of stream";
  gst_clear_message(&error);
}

// A reconfigure event that comes while the task stops must not leave an open queue without a task.
TEST_F(States, ReconfiguringWhileTheTaskStopsHangsNobody) {
  startWithoutDownstream();
  std::atomic<bool> over = false;
  auto reconfiguring = std::async(std::launch::async, [&] {
    GstPad *src = gst_element_get_static_pad(harness_->element, "src");
    while (!over) gst_pad_send_event(src, gst_event_new_reconfigure());
    gst_object_unref(src);
  });
  auto pushing = std::async(std::launch::async, [&] {
    for (int i = 0; i < rounds(3000); ++i) gst_harness_push(harness_, frame());
  });
  EXPECT_EQ(pushing.wait_for(20s), std::future_status::ready) << "the streaming thread waits for a task that is paused";
  over = true;
  reconfiguring.get();
  gst_element_set_state(harness_->element, GST_STATE_NULL); // wakes it
}

TEST_F(States, LatencyIsAddedWhenLive) {
  start(fast(), kRgb);
  ASSERT_EQ(gst_harness_push(harness_, frame()), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  gst_harness_set_upstream_latency(harness_, 10 * GST_MSECOND);
  // one frame of 30 a second, unless the run took longer than that
  EXPECT_GE(gst_harness_query_latency(harness_), 10 * GST_MSECOND + GST_SECOND / 30);
  EXPECT_LE(gst_harness_query_latency(harness_), 10 * GST_MSECOND + 10 * GST_SECOND);
  gst_harness_set_live(harness_, FALSE);
  EXPECT_EQ(gst_harness_query_latency(harness_), 10 * GST_MSECOND);
}

gboolean poolQuery(GstPad *pad, GstObject *parent, GstQuery *query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return gst_pad_query_default(pad, parent, query);
  auto *pool = static_cast<GstBufferPool *>(g_object_get_data(G_OBJECT(pad), "pool"));
  gst_query_add_allocation_pool(query, pool, 256 * 128 * 3, 3, 0);
  gst_query_add_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, nullptr);
  return TRUE;
}

TEST_F(States, DownstreamsPoolReachesTheProducer) {
  start(fast(), kRgb, "max-in-flight=5");
  GstBufferPool *pool = gst_buffer_pool_new();
  g_object_set_data(G_OBJECT(harness_->sinkpad), "pool", pool);
  gst_pad_set_query_function(harness_->sinkpad, poolQuery);
  GstCaps *caps = gst_caps_from_string(kRgb);
  GstQuery *query = gst_query_new_allocation(caps, TRUE);
  ASSERT_TRUE(gst_pad_peer_query(harness_->srcpad, query));
  ASSERT_EQ(gst_query_get_n_allocation_pools(query), 1u);
  GstBufferPool *offered = nullptr;
  guint size = 0, min = 0, max = 0;
  gst_query_parse_nth_allocation_pool(query, 0, &offered, &size, &min, &max);
  EXPECT_EQ(offered, pool);
  EXPECT_EQ(min, 8u) << "the sink's three and the five that are held here";
  EXPECT_EQ(max, 0u);
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr));
  EXPECT_FALSE(gst_query_find_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, nullptr)) << "crops are not read";
  gst_object_unref(offered);
  gst_query_unref(query);
  gst_caps_unref(caps);
  gst_object_unref(pool);
}

gboolean noAnswer(GstPad *pad, GstObject *parent, GstQuery *query) {
  return GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION && gst_pad_query_default(pad, parent, query);
}

gboolean emptyAnswer(GstPad *pad, GstObject *parent, GstQuery *query) {
  return GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION || gst_pad_query_default(pad, parent, query);
}

TEST_F(States, WithoutAPoolDownstreamTheProducerHearsHowManyAreHeld) {
  for (const GstPadQueryFunction downstream : {noAnswer, emptyAnswer}) {
    start(fast(), kRgb, "max-in-flight=5");
    gst_pad_set_query_function(harness_->sinkpad, downstream);
    GstCaps *caps = gst_caps_from_string(kRgb);
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    ASSERT_TRUE(gst_pad_peer_query(harness_->srcpad, query));
    ASSERT_EQ(gst_query_get_n_allocation_pools(query), 1u);
    GstBufferPool *pool = nullptr;
    guint size = 0, min = 0, max = 0;
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
    EXPECT_EQ(pool, nullptr);
    EXPECT_EQ(size, 256u * 128 * 3);
    EXPECT_EQ(min, 5u);
    EXPECT_EQ(max, 0u);
    gst_query_unref(query);
    gst_caps_unref(caps);
    stop();
  }
}

TEST_F(States, CapsAreWhatDownstreamTakesOfWhatIsRead) {
  start(fast(), nullptr);
  gst_harness_set_sink_caps_str(harness_,
                                "video/x-raw,format={NV12,P012_LE},width=64;"
                                "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={NV12,NV12:0x0100000000000001}");
  GstCaps *caps = gst_pad_peer_query_caps(harness_->srcpad, nullptr);
  const auto allows = [&](const char *text) {
    GstCaps *wanted = gst_caps_from_string(text);
    const bool yes = gst_caps_can_intersect(caps, wanted);
    gst_caps_unref(wanted);
    return yes;
  };
  EXPECT_TRUE(allows("video/x-raw,format=NV12,width=64"));
  EXPECT_FALSE(allows("video/x-raw,format=NV12,width=65"));
  EXPECT_FALSE(allows("video/x-raw,format=P012_LE"));
  EXPECT_FALSE(allows("video/x-raw,format=RGB"));
  EXPECT_TRUE(allows("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12"));
  EXPECT_FALSE(allows("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000001"));
  gst_caps_unref(caps);
}

} // namespace
} // namespace gstzc::test
