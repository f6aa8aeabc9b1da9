// SPDX-License-Identifier: LGPL-2.1-or-later
// cudadmabufexport on a driver that fails: each function that a route calls, once, at each of its first calls.
#include "tests/elements/cuda/export_pipeline.h"

#include <optional>
#include <vector>

#include "tests/elements/cuda/fault_sweep.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr unsigned kFrames = 3;

struct Way {
  const char *name, *profile;
  bool imported;                  // by dmabufcudaimport, else DeviceFrames
  const char *properties, *route; // that is taken where nothing fails
};

class ExportSweep : public FaultSweep<CudaExport>, public testing::WithParamInterface<Way> {
protected:
  void SetUp() override {
    FaultSweep::SetUp();
    SoftCuda::get().setProfile(GetParam().profile);
  }

  // `fail` is called when all that the test itself needs is there.
  SweepOutcome run(const std::function<void()> &fail) {
    const Way &way = GetParam();
    SweepOutcome outcome;
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
    collect([&](GstBuffer *buffer, unsigned number) { return Picture(info, number).sameAs(buffer, info); }, &outcome);
    route_ = chosenRoute();
    names_ = SoftCuda::get().callNames(); // not those of this test's own end
    pipeline.reset();
    return outcome;
  }

  std::vector<std::string> names_; // of the driver's functions that the last run called
  std::string route_;              // that it took
};

TEST_P(ExportSweep, EachFunctionFailsOnce) {
  const SweepOutcome well = run([] { SoftCuda::get().reset(); });
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, kFrames);
  ASSERT_EQ(route_, GetParam().route);
  const std::vector<std::string> names = names_;
  ASSERT_GT(names.size(), 5u);
  eachFunctionFailsOnce(names, kFrames, false, [this](const std::function<void()> &arm) { return run(arm); });
}

INSTANTIATE_TEST_SUITE_P(, ExportSweep,
                         testing::Values(Way{"Original", "dgpu", true, "", "original"},
                                         Way{"AddressRange", "dgpu", false, "", "address-range"},
                                         Way{"DeviceCopy", "orin", false, "allow-copy=true", "device-copy"}),
                         [](const auto &test) { return test.param.name; });

} // namespace
