// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport on a driver that fails: each function once, at each of its first calls, and devices that are lost.
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

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
  SweepOutcome run(const std::string &properties, const std::string &behind) {
    SweepOutcome outcome;
    pipeline = std::make_unique<Pipeline>(sourceLine(kTelling, properties) + behind +
                                          " ! appsink name=sink sync=false async=false");
    if (pipeline->setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE) {
      outcome.error = true;
      // cudadownload does not say why it does not start
      EXPECT_TRUE(!message(GST_MESSAGE_ERROR).empty() || !behind.empty()) << "it does not start, and does not say why";
      pipeline.reset();
      return outcome;
    }
    const GstVideoInfo info = infoOf(kTelling);
    EventSource producer;
    for (unsigned i = 0; i < 3; ++i) {
      GstMemory *memory = frames.memory(info.size);
      const Picture picture(info, i);
      if (i != 1) Frames::write(memory, picture);
      GstBuffer *frame = Frames::buffer(kTelling, gst_memory_ref(memory), i);
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
    collect(
        [&](GstBuffer *buffer, unsigned number) { return Picture(info, number).sameAs(buffer, plainInfo(kTelling)); },
        &outcome);
    pipeline.reset();
    return outcome;
  }
};

class ImportSweep : public ImportFaults, public testing::WithParamInterface<std::tuple<const char *, const char *>> {};

TEST_P(ImportSweep, EachFunctionFailsOnce) {
  const auto &[properties, behind] = GetParam();
  const bool foreign = std::string(behind).find("cudadownload") != std::string::npos;
  if (foreign && !has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  const SweepOutcome well = run(properties, behind);
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, 3u);
  const std::vector<std::string> names = SoftCuda::get().callNames();
  ASSERT_GT(names.size(), 10u);
  eachFunctionFailsOnce(names, 3, foreign, [&](const std::function<void()> &arm) {
    arm();
    return run(properties, behind);
  });
}

INSTANTIATE_TEST_SUITE_P(, ImportSweep,
                         testing::Values(std::tuple("", ""), std::tuple("route=staged-copy", ""),
                                         std::tuple("", " ! cudadownload ! video/x-raw")),
                         [](const auto &test) {
                           const std::string text = std::string(std::get<0>(test.param)) + std::get<1>(test.param);
                           return text.empty() ? "Import" : text[0] == 'r' ? "StagedCopy" : "Download";
                         });

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
