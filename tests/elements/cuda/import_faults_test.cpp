// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport on a driver that fails: each function once, at each of its first calls, and devices that are lost.
#include "tests/elements/cuda/import_pipeline.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr int kUnknown = 999, kIllegalAddress = 700, kNoDevice = 100; // CUresult

class ImportFaults : public CudaImport {
protected:
  void SetUp() override {
    CudaImport::SetUp();
    if (!IsSkipped() && !SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to fail";
  }

  struct Outcome {
    bool error = false; // on the bus
    bool wrong = false; // a frame whose pixels are not right, and that does not say so
    unsigned frames = 0;
  };
  // Frames of which the second comes before its producer is done.
  Outcome run(const std::string &properties, const std::string &behind) {
    Outcome outcome;
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
    bool ended = false;
    while (!ended) {
      GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 50 * GST_MSECOND);
      if (sample != nullptr) {
        check(sample, info, &outcome);
        gst_sample_unref(sample);
        continue;
      }
      GstBus *bus = gst_element_get_bus(pipeline->get());
      GstMessage *found = gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
      gst_object_unref(bus);
      if (found == nullptr && ++idle_ > 400) ADD_FAILURE() << "it hangs", ended = true;
      if (found == nullptr) continue;
      ended = true;
      outcome.error = GST_MESSAGE_TYPE(found) == GST_MESSAGE_ERROR;
      gst_message_unref(found);
    }
    idle_ = 0;
    pipeline.reset();
    return outcome;
  }
  void check(GstSample *sample, const GstVideoInfo &info, Outcome *outcome) {
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    ++outcome->frames;
    GError *error = nullptr;
    const bool ready = gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, &error);
    g_clear_error(&error);
    if (!ready) return; // its event says that it is not
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return; // whoever reads it is told
    gst_buffer_unmap(buffer, &map);
    const auto number = static_cast<unsigned>(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND));
    if (!Picture(info, number).sameAs(buffer, plainInfo(kTelling))) outcome->wrong = true;
  }

private:
  int idle_ = 0;
};

class ImportSweep : public ImportFaults, public testing::WithParamInterface<std::tuple<const char *, const char *>> {};

TEST_P(ImportSweep, EachFunctionFailsOnce) {
  const auto &[properties, behind] = GetParam();
  const bool foreign = std::string(behind).find("cudadownload") != std::string::npos;
  if (foreign && !has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  const Outcome well = run(properties, behind);
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, 3u);
  const std::vector<std::string> names = SoftCuda::get().callNames();
  ASSERT_GT(names.size(), 10u);
  const size_t fds = openFds();
  for (const std::string &name : names)
    for (unsigned nth = 1; nth <= 3; ++nth) {
      SCOPED_TRACE(name + ", call " + std::to_string(nth));
      SoftCuda::get().reset();
      SoftCuda::get().fail(name.c_str(), nth, kUnknown);
      const Outcome outcome = run(properties, behind);
      SoftCuda::get().reset();
      // other elements of GStreamer do not look at all results
      if (!foreign) {
        EXPECT_FALSE(outcome.wrong);
        EXPECT_TRUE(outcome.error || outcome.frames == 3) << outcome.frames << " frames and no error";
      }
      EXPECT_LE(SoftCuda::get().live(), live) << SoftCuda::get().liveList();
      if (HasFatalFailure()) return;
    }
  EXPECT_LE(openFds(), fds + 4);
  EXPECT_FALSE(run(properties, behind).error) << "and then it works again";
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
  EXPECT_NE(message(GST_MESSAGE_ERROR, 20 * GST_SECOND), "");
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
