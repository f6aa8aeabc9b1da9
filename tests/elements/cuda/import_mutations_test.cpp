// SPDX-License-Identifier: LGPL-2.1-or-later
// That some test would notice if the element forgot a wait: a build of the plugin in which each can be left out.
#include "tests/elements/cuda/import_pipeline.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

struct Mutation {
  const char *wait; // that is left out
};

class ImportMutations : public CudaImport, public testing::WithParamInterface<Mutation> {
protected:
  void TearDown() override {
    unsetenv("GSTZC_SKIP_WAIT");
    CudaImport::TearDown();
  }

  static GstBuffer *pendingFrame(GstBuffer *frame, const EventSource &producer) {
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 0);
    gst_zc_device_event_unref(event);
    return frame;
  }
  static bool somebodyWaits() {
    for (int i = 0; i < 20'000 && FencePoller::process().counters().pending == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FencePoller::process().counters().pending > 0;
  }

  // Whether a frame whose producer is not done is one, for those who know of fences and for those who do not.
  bool waits() {
    start(sourceLine(kTelling, "fence-timeout=60000") + " ! appsink name=sink sync=false async=false");
    warmUp();
    EventSource producer;
    push(pendingFrame(Frames::buffer(kTelling, frames.memory(infoOf(kTelling).size)), producer));
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    if (sample == nullptr) return false;
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    const bool early = gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 500 * GST_MSECOND, nullptr);
    const bool marked = GST_MEMORY_FLAG_IS_SET(gst_buffer_peek_memory(buffer, 0), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    producer.signal();
    gst_sample_unref(sample);
    return !early && marked;
  }
};

TEST_F(ImportMutations, NothingIsLeftOut) { EXPECT_TRUE(waits()); }

// The first frame is compared, and for that it has to be complete: nothing is read back before.
class ImportFirstFrame : public ImportMutations {
protected:
  bool waits() {
    if (!SoftCuda::get().there()) return true;
    start(sourceLine(kTelling, "fence-timeout=60000") + " ! appsink name=sink sync=false async=false");
    EventSource producer;
    push(pendingFrame(Frames::buffer(kTelling, frames.memory(infoOf(kTelling).size)), producer));
    // Somebody waits now: before the look at the frame, or after it.
    EXPECT_TRUE(somebodyWaits());
    const bool looked = SoftCuda::get().calls("cuMemcpy2DAsync_v2") > 0;
    producer.signal();
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_clear_sample(&sample);
    return !looked;
  }
};

// A frame that the CPU copies, since it is no dma-buf. Who copies waits for fences, too, but not as long as the user
// says.
class ImportOfTheHost : public ImportMutations {
protected:
  bool waits(GstClockTime patience) {
    start("appsrc name=src format=time caps=video/x-raw,format=NV12,width=64,height=48,framerate=25/1 ! "
          "dmabufcudaimport name=up allow-copy=true fence-timeout=60000 ! appsink name=sink sync=false async=false");
    EventSource producer;
    push(pendingFrame(gst_buffer_new_allocate(nullptr, plainInfo(kSmall).size, nullptr), producer));
    GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), patience);
    const bool early = sample != nullptr;
    producer.signal();
    if (!early) sample = pipeline->pull();
    const bool came = sample != nullptr;
    gst_clear_sample(&sample);
    return !early && came;
  }
};

TEST_F(ImportFirstFrame, IsWaitedFor) { EXPECT_TRUE(waits()); }
TEST_F(ImportFirstFrame, TheWaitIsNoticed) {
  setenv("GSTZC_SKIP_WAIT", "import-first-frame", 1);
  EXPECT_FALSE(waits());
}

TEST_F(ImportOfTheHost, IsWaitedFor) { EXPECT_TRUE(waits(100 * GST_MSECOND)); }
TEST_F(ImportOfTheHost, TheWaitIsNoticed) {
  setenv("GSTZC_SKIP_WAIT", "import-host-fences", 1);
  EXPECT_FALSE(waits(30 * GST_SECOND));
}

TEST_P(ImportMutations, AreNoticed) {
  setenv("GSTZC_SKIP_WAIT", GetParam().wait, 1);
  EXPECT_FALSE(waits());
}

INSTANTIATE_TEST_SUITE_P(, ImportMutations,
                         testing::Values(Mutation{"import-fences"}, Mutation{"import-need-sync"},
                                         Mutation{"word-gate-wait"}, Mutation{"gate-to-work"}),
                         [](const auto &test) {
                           std::string name = test.param.wait;
                           std::erase(name, '-');
                           return name;
                         });

} // namespace
