// SPDX-License-Identifier: LGPL-2.1-or-later
// zerocopy-inspect on displays of the kernel: what it records of one is what it would say of the device itself.
#include <string>
#include <vector>

#include <glib.h>
#include <sys/wait.h>
#include <xf86drm.h>
#include <gtest/gtest.h>

#include "tests/lab/support/card.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/json.h"
#include "tool.h"

namespace {

using namespace gstzc;
using namespace gstzc::inspect;
using namespace gstzc::test;

const char *const kFrame = "video/x-raw(memory:DMABuf),format=DMA_DRM,width=64,height=48,drm-format=";

std::string node(const char *driver) {
  auto path = lab::cardPath(driver);
  EXPECT_TRUE(path) << path.error().message();
  return path ? *path : "";
}

std::string recorded(const TempDir &dir, const char *driver) {
  const std::string file = dir.file(std::string(driver) + ".json");
  const Outcome outcome = runTool({"record", "--device", node(driver), "--output", file});
  EXPECT_EQ(outcome.exit, Exit::Shown) << outcome.err;
  return file;
}

class Displays : public testing::TestWithParam<const char *> {};

TEST_P(Displays, RecordedAndRealTakeTheSame) {
  const TempDir dir;
  const std::string file = recorded(dir, GetParam());
  const Json real(runTool({"caps", "--json", "--device", node(GetParam())}).out);
  const Json described(runTool({"caps", "--json", "--profile", file}).out);
  EXPECT_EQ(real.at("$.driver"), GetParam());
  for (const char *what : {"$.driver", "$.output", "$.mode", "$.min_width", "$.max_width", "$.max_height",
                           "$.modifiers", "$.planes", "$.caps"}) {
    EXPECT_NE(real.at(what), "") << what;
    EXPECT_EQ(described.at(what), real.at(what)) << what;
  }
}

TEST_P(Displays, ExplainSaysTheSameOfBoth) {
  const TempDir dir;
  const std::string file = recorded(dir, GetParam());
  for (const char *format : {"XR24", "NV12", "NV12:0x0100000000000002", "P030"}) {
    const Outcome real = runTool({"explain", kFrame + std::string(format), "--json", "--device", node(GetParam())});
    const Outcome described = runTool({"explain", kFrame + std::string(format), "--json", "--profile", file});
    EXPECT_EQ(described.exit, real.exit) << format << described.err << real.err;
    EXPECT_EQ(Json(described.out).at("$.frames[0].choice"), Json(real.out).at("$.frames[0].choice")) << format;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Displays, testing::Values("vkms", "virtio_gpu", "bochs-drm"), [](const auto &p) {
  std::string name = p.param;
  for (char &c : name)
    if (c == '-') c = '_';
  return name;
});

// what the sink finds out by trying
TEST(Inspect, RecordsThatADisplayTakesNoMemoryButItsOwn) {
  for (const auto &[driver, own] : {std::pair{"virtio_gpu", true}, {"vkms", false}}) {
    const Outcome recorded = runTool({"record", "--device", node(driver)});
    EXPECT_EQ(recorded.out.find("no_foreign_memory") != std::string::npos, own) << driver;
    const Outcome explained = runTool({"explain", kFrame + std::string("XR24"), "--device", node(driver)});
    EXPECT_EQ(explained.out.find("memory has to be the display's own") != std::string::npos, own) << explained.out;
  }
}

TEST(Inspect, VkmsIsExplained) {
  const TempDir dir;
  const std::string file = recorded(dir, "vkms");
  for (const char *format : {"NV12", "XR24", "P010"})
    EXPECT_EQ(runTool({"explain", kFrame + std::string(format), "--profile", file}).exit, Exit::Shown) << format;
  const Outcome tiled = runTool({"explain", std::string(kFrame) + "NV12:0x0100000000000002", "--profile", file});
  EXPECT_EQ(tiled.exit, Exit::Impossible);
  EXPECT_NE(tiled.out.find("INTEL_Y_TILED"), std::string::npos) << tiled.out;
  EXPECT_NE(tiled.out.find("linear"), std::string::npos) << tiled.out;
  const Outcome odd = runTool({"explain", std::string(kFrame) + "P030", "--profile", file});
  EXPECT_EQ(odd.exit, Exit::Impossible);
}

// A compositor keeps its display while it is looked at.
TEST(Inspect, ReadsADisplayThatIsInUse) {
  auto master = lab::openCard("vkms");
  ASSERT_TRUE(master) << master.error().message();
  ASSERT_TRUE(drmIsMaster(master->get()));
  EXPECT_EQ(runTool({"caps", "--device", node("vkms")}).exit, Exit::Shown);
  EXPECT_TRUE(drmIsMaster(master->get()));
}

// And leaves one that is not in use to whoever comes next.
TEST(Inspect, LeavesTheDisplayFree) {
  EXPECT_EQ(runTool({"caps", "--device", node("vkms")}).exit, Exit::Shown);
  auto master = lab::openCard("vkms");
  ASSERT_TRUE(master) << master.error().message();
  EXPECT_TRUE(drmIsMaster(master->get()));
}

TEST(Inspect, NegotiatesWithTheDisplayItself) {
  const Outcome shown = runTool({"negotiate", "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=64,height=48",
                                 "--device", node("vkms"), "--timeout=60"});
  EXPECT_EQ(shown.exit, Exit::Shown) << shown.out << shown.err;
  EXPECT_NE(shown.out.find("NV12"), std::string::npos) << shown.out;
  const Outcome refused =
      runTool({"negotiate", "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=64,height=48", "--device",
               node("bochs-drm"), "--timeout=60"});
  EXPECT_EQ(refused.exit, Exit::Impossible) << refused.out << refused.err;
}

TEST(Inspect, NegotiatesACamera) {
  const Outcome shown =
      runTool({"negotiate", "v4l2src io-mode=dmabuf ! video/x-raw(memory:DMABuf),width=320,height=180", "--device",
               node("vkms"), "--timeout=120"});
  EXPECT_EQ(shown.exit, Exit::Shown) << shown.out << shown.err;
}

TEST(Inspect, IsAProgramWithExitStatuses) {
  const auto status = [](std::vector<std::string> args) {
    args.insert(args.begin(), INSPECT_TOOL);
    std::vector<gchar *> argv;
    for (std::string &a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    gint wait_status = -1;
    gchar *out = nullptr, *err = nullptr;
    GError *error = nullptr;
    EXPECT_TRUE(g_spawn_sync(nullptr, argv.data(), nullptr, G_SPAWN_DEFAULT, nullptr, nullptr, &out, &err, &wait_status,
                             &error))
        << (error != nullptr ? error->message : "");
    g_clear_error(&error);
    g_free(out);
    g_free(err);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  };
  const std::string vkms = node("vkms");
  EXPECT_EQ(status({"caps", "--device", vkms}), 0);
  EXPECT_EQ(status({"explain", std::string(kFrame) + "P030", "--device", vkms}), 1);
  EXPECT_EQ(status({"caps", "--device", "/dev/dri/card99"}), 2);
  EXPECT_EQ(status({"--help"}), 0);
  EXPECT_EQ(status({}), 2);
}

} // namespace
