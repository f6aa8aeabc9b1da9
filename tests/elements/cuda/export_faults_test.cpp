// SPDX-License-Identifier: LGPL-2.1-or-later
// cudadmabufexport on a driver that fails: each function that a route calls, once, at each of its first calls.
#include "tests/elements/cuda/export_pipeline.h"

#include <optional>
#include <string>
#include <vector>

#include "tests/elements/cuda/fault_sweep.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr unsigned kFrames = 3;

struct Way {
  const char *name;
  bool imported;                  // by dmabufcudaimport, else DeviceFrames
  const char *properties, *route; // that is taken where nothing fails
};

class ExportSweep : public FaultSweep<CudaExport>, public testing::WithParamInterface<Way> {
protected:
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
    made_ = calls(); // not those of this test's own end
    pipeline.reset();
    return outcome;
  }

  static bool makesDmaBufs() {
    int can = 0;
    EXPECT_EQ(CuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0), CUDA_SUCCESS);
    return can != 0;
  }

  Calls made_;        // by the last run
  std::string route_; // that it took
};

TEST_P(ExportSweep, EachFunctionFailsOnce) {
  if (std::string(GetParam().name) == "AddressRange" && !makesDmaBufs())
    GTEST_SKIP() << "this device makes no dma-bufs of its memory";
  const SweepOutcome well = run([] { SoftCuda::get().reset(); });
  ASSERT_FALSE(well.error);
  ASSERT_FALSE(well.wrong);
  ASSERT_EQ(well.frames, kFrames);
  ASSERT_EQ(route_, GetParam().route);
  const Calls made = made_;
  ASSERT_GT(made.size(), 5u);
  eachFunctionFailsOnce(made, kFrames, kFirstCalls, [this](const std::function<void()> &arm) { return run(arm); });
}

INSTANTIATE_TEST_SUITE_P(, ExportSweep,
                         testing::Values(Way{"Original", true, "", "original"},
                                         Way{"AddressRange", false, "route=address-range", "address-range"},
                                         Way{"DeviceCopy", false, "route=device-copy", "device-copy"}),
                         [](const auto &test) { return test.param.name; });

} // namespace
