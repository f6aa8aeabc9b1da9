// SPDX-License-Identifier: LGPL-2.1-or-later
// cudadmabufexport on a driver that fails: each function that a route calls, once, at each of its first calls.
#include "tests/elements/cuda/export_pipeline.h"

#include <optional>
#include <vector>

#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr int kUnknown = 999; // CUresult
constexpr unsigned kFrames = 3;

struct Way {
  const char *name, *profile;
  bool imported;                  // by dmabufcudaimport, else DeviceFrames
  const char *properties, *route; // that is taken where nothing fails
};

class ExportSweep : public CudaExport, public testing::WithParamInterface<Way> {
protected:
  void SetUp() override {
    CudaExport::SetUp();
    if (!IsSkipped() && !SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to fail";
    SoftCuda::get().setProfile(GetParam().profile);
  }

  struct Outcome {
    bool error = false; // on the bus
    bool wrong = false; // a frame whose pixels are not right, and that does not say so
    unsigned frames = 0;
    std::string route;
  };
  // `fail` is called when all that the test itself needs is there.
  Outcome run(const std::function<void()> &fail) {
    const Way &way = GetParam();
    Outcome outcome;
    const GstVideoInfo info = plainInfo(kFrame);
    std::optional<DeviceFrames> device;
    if (!way.imported) device.emplace();
    std::vector<GstBuffer *> made;
    for (unsigned i = 0; i < kFrames; ++i)
      made.push_back(device ? device->frame(info, Picture(info, i), i) : frames.buffer(kFrame, Picture(info, i), i));
    fail();
    const std::string line = way.imported ? "appsrc name=src format=time caps=\"" + dmabufCaps(kFrame) +
                                                "\" ! dmabufcudaimport ! cudadmabufexport name=up ! "
                                                "video/x-raw(memory:DMABuf) ! appsink name=sink sync=false"
                                          : framesSource(way.properties);
    const auto downstream = startWith(line, offerPool);
    for (GstBuffer *frame : made) push(frame);
    end();
    for (int idle = 0; idle < 400;) {
      GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 50 * GST_MSECOND);
      if (sample != nullptr) {
        check(sample, info, &outcome);
        gst_sample_unref(sample);
        continue;
      }
      GstBus *bus = gst_element_get_bus(pipeline->get());
      GstMessage *found = gst_bus_pop_filtered(bus, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
      gst_object_unref(bus);
      if (found == nullptr && ++idle == 400) ADD_FAILURE() << "it hangs";
      if (found == nullptr) continue;
      outcome.error = GST_MESSAGE_TYPE(found) == GST_MESSAGE_ERROR;
      gst_message_unref(found);
      break;
    }
    outcome.route = chosenRoute();
    names_ = SoftCuda::get().callNames(); // not those of this test's own end
    pipeline.reset();
    return outcome;
  }
  static void check(GstSample *sample, const GstVideoInfo &info, Outcome *outcome) {
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    ++outcome->frames;
    if (!gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 20 * GST_SECOND, nullptr)) return; // it says so
    const auto number = static_cast<unsigned>(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND));
    if (!Picture(info, number).sameAs(buffer, info)) outcome->wrong = true;
  }

  std::vector<std::string> names_; // of the driver's functions that the last run called
};

TEST_P(ExportSweep, EachFunctionFailsOnce) {
  const Outcome well = run([] { SoftCuda::get().reset(); });
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, kFrames);
  ASSERT_EQ(well.route, GetParam().route);
  const std::vector<std::string> names = names_;
  ASSERT_GT(names.size(), 5u);
  const size_t fds = openFds();
  for (const std::string &name : names)
    for (unsigned nth = 1; nth <= 3; ++nth) {
      SCOPED_TRACE(name + ", call " + std::to_string(nth));
      const Outcome outcome = run([&] {
        SoftCuda::get().reset();
        SoftCuda::get().fail(name.c_str(), nth, kUnknown);
      });
      SoftCuda::get().reset();
      EXPECT_FALSE(outcome.wrong);
      EXPECT_TRUE(outcome.error || outcome.frames == kFrames) << outcome.frames << " frames and no error";
      EXPECT_LE(SoftCuda::get().live(), live) << SoftCuda::get().liveList();
      if (HasFatalFailure()) return;
    }
  EXPECT_LE(openFds(), fds + 4);
  EXPECT_FALSE(run([] {}).error) << "and then it works again";
}

INSTANTIATE_TEST_SUITE_P(, ExportSweep,
                         testing::Values(Way{"Original", "dgpu", true, "", "original"},
                                         Way{"AddressRange", "dgpu", false, "", "address-range"},
                                         Way{"DeviceCopy", "orin", false, "allow-copy=true", "device-copy"}),
                         [](const auto &test) { return test.param.name; });

} // namespace
