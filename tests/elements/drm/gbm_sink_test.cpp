// SPDX-License-Identifier: LGPL-2.1-or-later
// The pool of tiled frames that drmmodifiersink offers, on the stand-in for libgbm: an upstream that writes where it is
// told, against described devices.
#include <cerrno>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "tests/elements/drm/profile_run.h"
#include "tests/softgbm/softgbm.h"

using namespace gstzc::test;

namespace {

const char kTiled[] = "NV12:0x0100000000000002";

class GbmSink : public testing::Test {
protected:
  GbmSink() { softgbm_reset(); }
  ~GbmSink() override {
    EXPECT_EQ(softgbm_live_devices(), 0u);
    EXPECT_EQ(softgbm_live_buffers(), 0u);
    EXPECT_EQ(softgbm_violation(), nullptr) << softgbm_violation();
  }

  // Frames of `formats` through the pools that are offered; how many were.
  struct Run {
    unsigned offered = 0;
    std::vector<std::string> negotiated;
    Outcome outcome;
  };
  Run play(const std::string &profile, std::vector<std::string> formats, unsigned frames = 6) {
    Run run;
    TiledSource source(profile, std::move(formats));
    source.takePools();
    source.on_allocation = [&](GstQuery *, bool pool) { run.offered += pool; };
    source.push(frames, 2);
    run.outcome = source.outcome();
    run.negotiated = source.negotiated();
    return run;
  }
};

TEST_F(GbmSink, TiledFramesOfItsPoolAreShownTiled) {
  const Run run = play(twoPlanes(), {"NV12", kTiled});
  ASSERT_TRUE(run.outcome.eos) << testing::PrintToString(run.outcome.errors);
  EXPECT_EQ(run.offered, 1u);
  EXPECT_NE(run.outcome.configuration.find(kTiled), std::string::npos) << run.outcome.configuration;
  EXPECT_EQ(run.outcome.stat("frames"), 6u);
  EXPECT_EQ(run.outcome.stat("copies"), 0u);
  EXPECT_GE(softgbm_buffers(), 5u) << "one asked for by the sink, one to learn the size, three";
  EXPECT_LE(run.outcome.stat("imports"), 5u) << "buffers come back";
  EXPECT_TRUE(run.outcome.infos.empty()) << testing::PrintToString(run.outcome.infos);
}

// Upstream's own memory is shown then, and the user is told once.
struct Refusal {
  const char *name;
  SoftGbmFaults faults;
  const char *part; // of the note
};
void PrintTo(const Refusal &r, std::ostream *out) { *out << r.name; }

class GbmRefusal : public GbmSink, public testing::WithParamInterface<Refusal> {};

TEST_P(GbmRefusal, LeavesUpstreamWithItsOwnMemory) {
  softgbm_set_faults(&GetParam().faults);
  const Run run = play(twoPlanes(), {kTiled});
  ASSERT_TRUE(run.outcome.eos) << testing::PrintToString(run.outcome.errors);
  EXPECT_EQ(run.offered, 0u);
  EXPECT_EQ(run.outcome.stat("frames"), 6u);
  EXPECT_GE(run.outcome.stat("shown"), 1u);
  ASSERT_EQ(run.outcome.infos.size(), 1u) << testing::PrintToString(run.outcome.infos);
  EXPECT_NE(run.outcome.infos[0].find("no memory is offered for tiled frames"), std::string::npos)
      << run.outcome.infos[0];
  EXPECT_NE(run.outcome.infos[0].find(GetParam().part), std::string::npos) << run.outcome.infos[0];
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, GbmRefusal,
    testing::Values(Refusal{"no driver", {.create_device = ENODEV}, "libgbm's device for"},
                    Refusal{"no buffer", {.create_bo = ENOMEM}, "INTEL_Y_TILED 640x480"},
                    Refusal{"another layout", {.other_modifier = 0x0100000000000001}, "it came as INTEL_X_TILED"},
                    Refusal{"another number of planes", {.extra_planes = 1}, "in 3 memory planes, not 2"},
                    Refusal{"no export", {.export_plane = 0}, "export of memory plane 0"}));

// What the display refuses when frames come is given up like any other tiled layout, the pool with it.
TEST_F(GbmSink, RefusedByTheDisplayItGivesWayToLinear) {
  const Run run =
      play(twoPlanes(R"(,"refuses": [{"modifiers": ["0x0100000000000002"], "error": "EINVAL"}])"), {"NV12", kTiled});
  ASSERT_TRUE(run.outcome.eos) << testing::PrintToString(run.outcome.errors);
  EXPECT_EQ(run.negotiated, (std::vector<std::string>{kTiled, "NV12"}));
  EXPECT_EQ(run.offered, 1u) << "linear dma-bufs are upstream's own";
  EXPECT_EQ(run.outcome.stat("renegotiations"), 1u);
}

} // namespace
