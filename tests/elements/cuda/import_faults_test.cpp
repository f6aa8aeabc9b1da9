// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport on a driver that fails: each function once, at each of its first calls, and devices that are lost.
#include <cstdlib>
#include <string>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/elements/cuda/fault_sweep.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr int kIllegalAddress = 700, kNoDevice = 100; // CUresult

class ImportFaults : public FaultSweep<CudaImport> {
protected:
  // Frames of which the second comes before its producer is done.
  SweepOutcome run(const Layout &layout, const std::string &properties, const std::string &behind) {
    SweepOutcome outcome;
    pipeline = std::make_unique<Pipeline>(sourceLine(layout, properties) + behind +
                                          " ! appsink name=sink sync=false async=false");
    if (pipeline->setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE) {
      outcome.error = true;
      // cudadownload does not say why it does not start
      EXPECT_TRUE(!message(GST_MESSAGE_ERROR).empty() || !behind.empty()) << "it does not start, and does not say why";
      pipeline.reset();
      return outcome;
    }
    const GstVideoInfo info = infoOf(layout);
    EventSource producer;
    for (unsigned i = 0; i < 3; ++i) {
      GstMemory *memory = frames.memory(info.size);
      const Picture picture(info, i);
      if (i != 1) Frames::write(memory, picture);
      GstBuffer *frame = Frames::buffer(layout, gst_memory_ref(memory), i);
      if (i == 1) {
        GstZcDeviceEvent *event =
            gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
        gst_buffer_add_zc_event_meta(frame, event, 0);
        gst_zc_device_event_unref(event);
      }
      push(frame);
      if (i == 1) {
        Frames::write(memory, picture);
        producer.signal();
      }
      gst_memory_unref(memory);
    }
    end();
    collect([&](GstBuffer *buffer, unsigned number) { return Picture(info, number).sameAs(buffer, plainInfo(layout)); },
            &outcome);
    pipeline.reset();
    return outcome;
  }
};

struct Import {
  const char *name;
  Layout layout;
  const char *properties, *behind;
  uint64_t first_calls = kFirstCalls;
};

class ImportSweep : public ImportFaults, public testing::WithParamInterface<Import> {};

TEST_P(ImportSweep, EachFunctionFailsOnce) {
  const Import &way = GetParam();
  if (std::string(way.behind).find("cudadownload") != std::string::npos && !has("cudadownload"))
    GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  const SweepOutcome well = run(way.layout, way.properties, way.behind);
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, 3u);
  const Calls made = calls();
  ASSERT_GT(made.size(), 10u);
  eachFunctionFailsOnce(made, 3, way.first_calls, [&](const std::function<void()> &arm) {
    arm();
    return run(way.layout, way.properties, way.behind);
  });
}

// All layouts reach past the first 2 MiB, so that their content is compared.
INSTANTIATE_TEST_SUITE_P(, ImportSweep,
                         testing::Values(Import{"Import", kTelling, "", ""},
                                         Import{"StagedCopy", kTelling, "route=staged-copy", ""},
                                         Import{"VulkanBridge", kTelling, "route=vulkan-bridge", "", 1},
                                         Import{"Download", kTelling, "", " ! cudadownload ! video/x-raw"},
                                         Import{"I420", {"i420", GST_VIDEO_FORMAT_I420, 1921, 1079, 1984}, "", "", 1},
                                         Import{"Rgba", {"rgba", GST_VIDEO_FORMAT_RGBA, 1280, 720}, "", "", 1}),
                         [](const auto &test) { return test.param.name; });

TEST_F(ImportFaults, ALostContextIsAnErrorAndTheNextStartWorks) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false");
  warmUp();
  SoftCuda::get().loseDevice(0, kIllegalAddress);
  push(frames.buffer(kTelling, Picture(infoOf(kTelling), 2)));
  const std::string error = message(GST_MESSAGE_ERROR, 20 * GST_SECOND);
  EXPECT_EQ(error.find("the context on CUDA device 0 does not work any more"), 0u) << error;
  EXPECT_EQ(error.find("allow-copy"), std::string::npos) << "it would not help: " << error;
  EXPECT_NE(message(GST_MESSAGE_ERROR, 20 * GST_SECOND), "") << "the source's";
  pipeline->setState(GST_STATE_READY);
  SoftCuda::get().reset(); // the device is there again; the old context is not
  pipeline->setState(GST_STATE_PLAYING);
  const Picture picture(infoOf(kTelling), 4);
  push(frames.buffer(kTelling, picture));
  // The word that a lost device might still read is kept for good: not a leak to end this process with.
  live += 1;
  setenv("SOFTCUDA_LEAKCHECK", "0", 1);

  GstSample *sample = nullptr; // the sink may still think of the end that followed the error
  for (int i = 0; i < 400 && sample == nullptr; ++i) {
    sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 50 * GST_MSECOND);
    if (sample == nullptr) g_usleep(50'000);
  }
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
}

TEST_F(ImportFaults, ALostDeviceIsAnErrorAtTheStart) {
  SoftCuda::get().loseDevice(0, kNoDevice);
  pipeline = std::make_unique<Pipeline>(sourceLine(kSmall) + " ! fakesink");
  EXPECT_EQ(pipeline->setState(GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
  EXPECT_NE(message(GST_MESSAGE_ERROR), "");
}

} // namespace
