// SPDX-License-Identifier: LGPL-2.1-or-later
// negotiate and matrix: drmmodifiersink against described displays.
#include <filesystem>

#include <gtest/gtest.h>

#include "session.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace gstzc::inspect;
using namespace gstzc::test;

std::string profile(const char *name) { return testFile(std::string("profiles/") + name + ".json"); }

struct Case {
  const char *name, *fragment, *profile;
  Exit exit;
  std::vector<const char *> parts; // of the output
};

class Negotiate : public testing::TestWithParam<Case> {};

TEST_P(Negotiate, Says) {
  const Case &c = GetParam();
  const Words args = {"negotiate", c.fragment, "--timeout=60", "--profile", profile(c.profile)};
  const Outcome outcome = runTool(args);
  EXPECT_EQ(outcome.exit, c.exit) << outcome.out << outcome.err;
  for (const char *part : c.parts) EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(
    All, Negotiate,
    testing::Values(Case{"Frames",
                         "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=640,height=480",
                         "two-kinds",
                         Exit::Shown,
                         {"possible: NV12 linear on plane 4 (overlay, Video), 640x480", "display: ", "agreed"}},
                    Case{"Live",
                         "videotestsrc is-live=true ! video/x-raw,format=NV12,width=640,height=480",
                         "two-kinds",
                         Exit::Shown,
                         {"possible: NV12 linear"}},
                    Case{"Upstreams choice", "videotestsrc num-buffers=2", "linear", Exit::Shown, {"possible: "}},
                    Case{"Converted",
                         "videotestsrc num-buffers=2 ! video/x-raw,format=RGB ! videoconvert",
                         "linear",
                         Exit::Shown,
                         {"possible: "}},
                    Case{"Tiled",
                         "fakesrc ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000007,"
                         "width=640,height=480,framerate=30/1",
                         "two-kinds",
                         Exit::Shown,
                         {"possible: NV12 INTEL_Y_TILED_GEN12_MC_CCS on plane 4", "The caps are agreed on"}},
                    Case{"WrongTiling",
                         "fakesrc ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,"
                         "width=640,height=480,framerate=30/1",
                         "two-kinds",
                         Exit::Impossible,
                         {"drmmodifiersink.sink   <- here it becomes impossible",
                          "has NV12, but not with INTEL_Y_TILED",
                          "nearest: NV12 would be shown with INTEL_Y_TILED_GEN12_MC_CCS",
                          "What to do: Ask upstream for drm-format=NV12:0x0100000000000007"}},
                    Case{"TooLarge",
                         "videotestsrc ! video/x-raw,format=NV12,width=3840,height=2160",
                         "two-kinds",
                         Exit::Impossible,
                         {"takes NV12 linear up to 1920x1088", "not-negotiated"}},
                    Case{"TooSmall",
                         "videotestsrc ! video/x-raw,format=NV12,width=8,height=8",
                         "linear",
                         Exit::Impossible,
                         {"framebuffers have 10x10 at least", "NV12 10x10 would be shown in that size"}},
                    Case{"FieldsApart",
                         "fakesrc ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=640,height=480,"
                         "framerate=30/1,interlace-mode=fields",
                         "linear",
                         Exit::Impossible,
                         {"impossible: caps: interlace-mode=fields: a display shows frames",
                          "drmmodifiersink.sink   <- here it becomes impossible"}},
                    Case{"NoSuchFormat",
                         "videotestsrc ! video/x-raw,format=NV12",
                         "implicit",
                         Exit::Impossible,
                         {"plane 3 (primary) has no NV12"}},
                    Case{"BehindAQueue",
                         "videotestsrc ! video/x-raw,format=NV12 ! identity ! queue name=q",
                         "implicit",
                         Exit::Impossible,
                         {"q.src -> drmmodifiersink.sink   <- here"}}),
    [](const auto &p) {
      std::string name = p.param.name;
      std::erase(name, ' ');
      return name;
    });

TEST(Negotiate, Golden) {
  const std::string source = "fakesrc name=source ! capsfilter name=filter caps=\"video/x-raw(memory:DMABuf),"
                             "format=DMA_DRM,width=640,height=480,framerate=30/1,drm-format=";
  std::string text;
  for (const char *format : {"NV12:0x0100000000000007", "NV12:0x0100000000000002"})
    text += session({"negotiate", source + format + "\"", "--profile", profile("two-kinds")});
  expectGolden("negotiate.txt", text);
  expectGolden(
      "negotiate.json",
      runTool({"negotiate", "--json", source + "NV12:0x0100000000000002\"", "--profile", profile("two-kinds")}).out);
}

TEST(Negotiate, Json) {
  const Json json(runTool({"negotiate", "--json", "videotestsrc num-buffers=2 name=a ! video/x-raw,format=NV12",
                           "--profile", profile("linear")})
                      .out);
  EXPECT_EQ(json.at("$.verdict"), "possible");
  EXPECT_EQ(json.at("$.frames_shown"), "true");
  EXPECT_EQ(json.at("$.links[0].source"), "a.src");
  EXPECT_EQ(json.at("$.failed_link"), "null");
  EXPECT_NE(json.at("$.links[1].agreed").find("NV12"), std::string::npos);
  EXPECT_EQ(json.at("$.explained[0].choice.pair.format"), "NV12");
}

TEST(Negotiate, WhatFailsBeforeTheDisplayIsBadInput) {
  const Outcome outcome =
      runTool({"negotiate", "filesrc location=/nowhere/a.png ! pngdec ! videoconvert", "--profile", profile("linear")});
  EXPECT_EQ(outcome.exit, Exit::BadInput) << outcome.out;
  for (const char *part : {"untried: ", "/nowhere/a.png"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
}

// What explain says of frames, the element does with them.
TEST(Corpus, ElementAndExplanationAgree) {
  const std::string dir = testFile("../profiles");
  const auto dmabuf = [](const char *format) {
    return std::string("video/x-raw(memory:DMABuf),format=DMA_DRM,width=1280,height=720,framerate=30/1,drm-format=") +
           format;
  };
  size_t profiles = 0, shown = 0, refused = 0;
  for (const auto &entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() != ".json") continue;
    ++profiles;
    for (const std::string &caps :
         {dmabuf("NV12"), dmabuf("NV12:0x0100000000000007"), dmabuf("YU08:0x0800000000000041"),
          dmabuf("XR24:0x0100000000000001"), dmabuf("NV12:0x0200000000401901"), dmabuf("P010")}) {
      const Outcome said = runTool({"explain", caps, "--profile", entry.path().string()});
      const Outcome done = runTool({"negotiate", "fakesrc ! " + caps, "--profile", entry.path().string()});
      EXPECT_EQ(done.exit, said.exit) << entry.path() << "\n" << said.out << said.err << done.out << done.err;
      ++(said.exit == Exit::Shown ? shown : refused);
    }
  }
  EXPECT_GE(profiles, 19u);
  EXPECT_GT(shown, 0u);
  EXPECT_GT(refused, 0u);
}

TEST(Matrix, TableJsonAndPictures) {
  const TempDir dir;
  const std::string good = "videotestsrc num-buffers=2 name=source ! video/x-raw,format=NV12,width=64,height=48";
  const std::string tiled = "fakesrc name=source ! video/x-raw(memory:DMABuf),format=DMA_DRM,width=64,height=48,"
                            "framerate=30/1,drm-format=NV12:0x0100000000000007";
  const Words args = {"matrix", testFile("profiles"), good,     tiled,
                      "--svg",  dir.file("m.svg"),    "--html", dir.file("m.html")};
  const Outcome outcome = runTool(args);
  EXPECT_EQ(outcome.exit, Exit::Impossible);
  expectGolden("matrix.txt", outcome.out);
  expectGolden("matrix.svg", readText(dir.file("m.svg")));
  expectGolden("matrix.html", readText(dir.file("m.html")));
  const Json json(runTool({"matrix", "--json", testFile("profiles"), good, tiled}).out);
  EXPECT_EQ(json.at("$.profiles[0].profile"), "implicit");
  EXPECT_EQ(json.at("$.profiles[0].cells[0].verdict"), "impossible");
  EXPECT_EQ(json.at("$.profiles[2].cells[0].level"), "linear");
  EXPECT_EQ(json.at("$.profiles[2].cells[1].level"), "compressed");
}

TEST(Matrix, SucceedsWhereAllIsPossible) {
  EXPECT_EQ(runTool({"matrix", testFile("profiles"), "videotestsrc num-buffers=2 ! video/x-raw,format=BGRx"}).exit,
            Exit::Shown);
}

TEST(Matrix, ABadProfileIsBadInputBeforeAnythingRuns) {
  expectRefused({"matrix", testFile("bad-profiles"), "videotestsrc"});
}

} // namespace
