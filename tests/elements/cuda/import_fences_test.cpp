// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport with frames whose producer is not done: who waits, how long, and what becomes of it.
#include "tests/elements/cuda/import_pipeline.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"
#include "tests/support/quickest.h"
#include "tests/support/scale.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

// a wait that nothing ends takes as long
constexpr guint kForEver = 60'000; // ms
constexpr auto kLong = std::chrono::seconds(20);
constexpr std::chrono::milliseconds kStop{200}; // for a state change that waits for nobody

GstZcDeviceEvent *failedEvent() {
  static const GstZcDeviceEventFuncs funcs = {
      "failed", [](gpointer) { return -ENOSPC; }, [](gpointer) { return -EBADF; }, nullptr, nullptr, {}};
  return gst_zc_device_event_new(&funcs, nullptr);
}

class ImportFences : public CudaImport {
protected:
  void startWith(const std::string &properties, const std::string &behind = "", const Layout &layout = kTelling) {
    start(sourceLine(layout, properties) + behind +
          " ! appsink name=sink sync=false async=false enable-last-sample=false");
  }

  // A frame in `memory` (taken) that `producer` finishes.
  GstBuffer *pendingFrame(GstMemory *memory, const EventSource &producer, const Layout &layout = kTelling) {
    GstBuffer *frame = Frames::buffer(layout, memory);
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 0);
    gst_zc_device_event_unref(event);
    return frame;
  }
  GstMemory *emptyMemory(const Layout &layout = kTelling) {
    GstMemory *memory = frames.memory(infoOf(layout).size);
    Frames::write(memory, Picture(infoOf(layout), 200));
    return memory;
  }

  // Stops a pipeline whose `nth` frame has a producer that never ends: how long that takes. The others are done.
  std::chrono::steady_clock::duration stopUnderAWait(const std::string &behind, unsigned nth) {
    startWith("fence-timeout=" + std::to_string(kForEver), behind);
    if (nth > 1) warmUp();
    const EventSource producer;
    push(pendingFrame(emptyMemory(), producer));
    EXPECT_TRUE(waits());
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // downstream may be in the driver now, or not
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(pipeline->setState(GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took, kLong);
    EXPECT_EQ(message(GST_MESSAGE_ERROR), "");
    pipeline.reset();
    return took;
  }
  void stopsAtOnce(const std::string &behind, unsigned nth) {
    const auto took = quickest(kStop, [&] { return stopUnderAWait(behind, nth); });
    if (measuresTime()) {
      EXPECT_LE(took, kStop);
    }
  }

  // Somebody waits for a fence.
  static bool waits() {
    for (int i = 0; i < 20'000 && FencePoller::process().counters().pending == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FencePoller::process().counters().pending > 0;
  }
  static int eventStatus(GstBuffer *buffer) {
    GstZcFenceMeta *meta = gst_buffer_get_zc_fence_meta(buffer);
    if (meta == nullptr || gst_zc_fence_meta_get_event(meta) == nullptr) return 99;
    EXPECT_STREQ(gst_zc_device_event_get_kind(gst_zc_fence_meta_get_event(meta)), "cuda-event");
    return gst_zc_device_event_get_status(gst_zc_fence_meta_get_event(meta));
  }
};

TEST_F(ImportFences, TheFirstFrameIsLookedAtWhenItIsComplete) {
  startWith("");
  EventSource producer;
  GstMemory *memory = emptyMemory();
  const Picture picture(infoOf(kTelling), 5);
  push(pendingFrame(gst_memory_ref(memory), producer));
  ASSERT_TRUE(waits());
  // whoever waits now does so before the frame is looked at, or after
  EXPECT_EQ(SoftCuda::get().calls("cuMemcpy2DAsync_v2"), 0u) << "it was read back before it was complete";
  Frames::write(memory, picture);
  gst_memory_unref(memory);
  producer.signal();
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
  EXPECT_NE(chosenRoute(), "");
}

TEST_F(ImportFences, LaterFramesGoOnAtOnceAndTheDeviceWaits) {
  startWith("fence-timeout=60000");
  warmUp();
  EventSource producer;
  GstMemory *memory = emptyMemory();
  const Picture picture(infoOf(kTelling), 5);
  push(pendingFrame(gst_memory_ref(memory), producer));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  GstBuffer *buffer = gst_sample_get_buffer(sample);
  EXPECT_EQ(eventStatus(buffer), 0);
  EXPECT_TRUE(GST_MEMORY_FLAG_IS_SET(gst_buffer_peek_memory(buffer, 0), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC))
      << "for those who know gst-cuda only";
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 0, &error));
  g_clear_error(&error);

  Frames::write(memory, picture);
  gst_memory_unref(memory);
  producer.signal();
  EXPECT_TRUE(gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, &error));
  EXPECT_EQ(eventStatus(buffer), 1);
  EXPECT_TRUE(picture.sameAs(buffer, plainInfo(kTelling)));
  gst_sample_unref(sample);
  EXPECT_EQ(pipeline->stat("fence-waits"), 1u);
  EXPECT_EQ(pipeline->stat("fence-timeouts"), 0u);
}

TEST_F(ImportFences, WhoDoesNotKnowOfFencesWaitsForTheStream) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  startWith("fence-timeout=60000", " ! cudadownload ! video/x-raw");
  warmUp();
  EventSource producer;
  GstMemory *memory = emptyMemory();
  const Picture picture(infoOf(kTelling), 5);
  push(pendingFrame(gst_memory_ref(memory), producer));
  ASSERT_TRUE(waits());
  EXPECT_EQ(gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 50 * GST_MSECOND), nullptr);
  Frames::write(memory, picture);
  gst_memory_unref(memory);
  producer.signal();
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
}

TEST_F(ImportFences, TheInputIsHeldUntilTheDeviceIsDone) {
  const auto eventually = [](const auto &holds) {
    for (int i = 0; i < 20'000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return holds();
  };
  // not an appsink, which keeps its last sample
  start(sourceLine(kTelling, "fence-timeout=60000") + " ! fakesink sync=false async=false enable-last-sample=false");
  push(frames.buffer(kTelling, Picture(infoOf(kTelling), 1)));
  ASSERT_TRUE(eventually([&] { return pipeline->stat("retired") == 1; })) << message(GST_MESSAGE_ERROR);
  EventSource producer;
  GstBuffer *frame = pendingFrame(emptyMemory(), producer);
  const auto refs = [&] { return GST_MINI_OBJECT_REFCOUNT_VALUE(frame); };
  push(gst_buffer_ref(frame));
  ASSERT_TRUE(eventually([&] { return pipeline->stat("frames") == 2 && pipeline->stat("pending") > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100)); // nobody downstream has it any more
  EXPECT_GT(refs(), 1) << "but the device";
  EXPECT_EQ(pipeline->stat("retired"), 1u);
  producer.signal();
  EXPECT_TRUE(eventually([&] { return refs() == 1; }));
  EXPECT_TRUE(eventually([&] { return pipeline->stat("retired") == 2; }));
  gst_buffer_unref(frame);
}

TEST_F(ImportFences, AProducerThatHangsIsToldOfAndTheStreamGoesOn) {
  startWith("fence-timeout=100");
  warmUp();
  EventSource producer;
  push(pendingFrame(emptyMemory(), producer));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  const std::string text = message(GST_MESSAGE_WARNING, 20 * GST_SECOND);
  EXPECT_NE(text.find("was not done after 100 ms"), std::string::npos) << text;
  GError *error = nullptr;
  EXPECT_FALSE(
      gst_buffer_wait_zc_fences(gst_sample_get_buffer(sample), GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, &error));
  g_clear_error(&error);
  EXPECT_EQ(eventStatus(gst_sample_get_buffer(sample)), -ETIMEDOUT);
  gst_sample_unref(sample);
  const Picture picture(infoOf(kTelling), 9);
  push(frames.buffer(kTelling, picture));
  sample = pipeline->pull();
  ASSERT_NE(sample, nullptr);
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
  EXPECT_EQ(pipeline->stat("fence-timeouts"), 1u);
}

TEST_F(ImportFences, AProducerThatHangsEndsTheStreamWhereTheUserSaysSo) {
  startWith("fence-timeout=100 on-fence-error=error");
  warmUp();
  EventSource producer;
  push(pendingFrame(emptyMemory(), producer));
  GstSample *sample = pipeline->pull();
  if (sample != nullptr) gst_sample_unref(sample);
  EXPECT_NE(message(GST_MESSAGE_ERROR, 20 * GST_SECOND).find("was not done after 100 ms"), std::string::npos);
}

struct Policy {
  const char *name;
  unsigned frames, dropped;
  bool error;
};
class ImportFailedFences : public ImportFences, public testing::WithParamInterface<std::tuple<Policy, bool>> {};

// What is known before a frame goes on is judged as by all other elements
TEST_P(ImportFailedFences, AreJudged) {
  const auto &[policy, first] = GetParam();
  startWith(std::string("on-fence-error=") + policy.name);
  if (!first) warmUp();
  GstBuffer *frame = Frames::buffer(kTelling, emptyMemory());
  GstZcDeviceEvent *event = failedEvent();
  gst_buffer_add_zc_event_meta(frame, event, 0);
  gst_zc_device_event_unref(event);
  push(frame);
  end();
  unsigned n = 0;
  while (GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 5 * GST_SECOND)) {
    EXPECT_FALSE(
        gst_buffer_wait_zc_fences(gst_sample_get_buffer(sample), GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, nullptr));
    EXPECT_EQ(eventStatus(gst_sample_get_buffer(sample)), -ENOSPC);
    gst_sample_unref(sample);
    ++n;
  }
  EXPECT_EQ(n, policy.frames);
  EXPECT_EQ(pipeline->stat("dropped"), policy.dropped);
  EXPECT_EQ(pipeline->stat("fence-errors"), 1u);
  const std::string text = message(policy.error ? GST_MESSAGE_ERROR : GST_MESSAGE_WARNING);
  EXPECT_NE(text.find("fence ended in an error"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(, ImportFailedFences,
                         testing::Combine(testing::Values(Policy{"drop", 0, 1, false}, Policy{"pass", 1, 0, false},
                                                          Policy{"error", 0, 1, true}),
                                          testing::Bool()),
                         [](const auto &test) {
                           return std::string(std::get<0>(test.param).name) + (std::get<1>(test.param) ? "First" : "");
                         });

// ---- nothing waits when the pipeline goes down ----

class ImportTeardown : public ImportFences, public testing::WithParamInterface<const char *> {};

TEST_P(ImportTeardown, UnderAPendingWait) {
  const std::string behind = GetParam();
  if (behind.find("cudadownload") != std::string::npos && !has("cudadownload"))
    GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  stopsAtOnce(behind, 2);
}

TEST_P(ImportTeardown, ByAFlush) {
  const std::string behind = GetParam();
  if (behind.find("cudadownload") != std::string::npos && !has("cudadownload"))
    GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  startWith("fence-timeout=" + std::to_string(kForEver), behind);
  warmUp();
  EventSource producer;
  push(pendingFrame(emptyMemory(), producer));
  ASSERT_TRUE(waits());
  const auto begin = std::chrono::steady_clock::now();
  GstElement *src = pipeline->element("src");
  EXPECT_TRUE(gst_element_send_event(src, gst_event_new_flush_start()));
  EXPECT_TRUE(gst_element_send_event(src, gst_event_new_flush_stop(TRUE)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
  EXPECT_EQ(message(GST_MESSAGE_ERROR), "");

  // and after it frames wait again
  GstMemory *memory = emptyMemory();
  const Picture picture(infoOf(kTelling), 5);
  EventSource next;
  push(pendingFrame(gst_memory_ref(memory), next));
  ASSERT_TRUE(waits());
  Frames::write(memory, picture);
  gst_memory_unref(memory);
  next.signal();
  GstSample *sample = nullptr; // one that the flush let pass may be here
  for (int i = 0; i < 2; ++i) {
    sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    if (i == 1 || picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling))) break;
    gst_sample_unref(sample);
  }
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
}

INSTANTIATE_TEST_SUITE_P(, ImportTeardown,
                         testing::Values("", " ! cudadownload ! video/x-raw", " ! queue ! cudadownload ! video/x-raw",
                                         " ! cudadmabufexport ! video/x-raw(memory:DMABuf)",
                                         " ! queue ! cudadmabufexport ! video/x-raw(memory:DMABuf)"),
                         [](const auto &test) {
                           const std::string text = test.param;
                           const auto has = [&](const char *part) { return text.find(part) != std::string::npos; };
                           const std::string name = has("download") ? "Download" : has("export") ? "Export" : "Alone";
                           return name + (has("queue") ? "BehindAQueue" : "");
                         });

TEST_F(ImportFences, TheFirstFramesWaitEndsWithTheState) { stopsAtOnce("", 1); }

// Statistics and the context are asked for from other threads, at any time.
TEST_F(ImportFences, OthersMayAskWhileItStartsAndStops) {
  pipeline = std::make_unique<Pipeline>(sourceLine(kSmall) + " ! fakesink async=false");
  std::atomic<bool> over = false;
  std::thread asking([&] {
    GstPad *pad = gst_element_get_static_pad(pipeline->element("up"), "src");
    while (!over) {
      EXPECT_LE(pipeline->stat("copies"), 0u);
      GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
      gst_pad_query(pad, query);
      gst_query_unref(query);
    }
    gst_object_unref(pad);
  });
  for (int i = 0; i < rounds(100); ++i) {
    EXPECT_NE(pipeline->setState(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
    EXPECT_NE(pipeline->setState(GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  }
  over = true;
  asking.join();
}

} // namespace
