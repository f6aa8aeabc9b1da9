// SPDX-License-Identifier: LGPL-2.1-or-later
// The commands that run no pipeline.
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "gst/drm/profile/device_profile.h"
#include "session.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace gstzc::inspect;
using namespace gstzc::test;

std::string profile(const char *name) { return testFile(std::string("profiles/") + name + ".json"); }

const char *const kFrame = "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=";

TEST(Caps, Golden) {
  std::string text;
  for (const char *name : {"two-kinds", "linear", "implicit"}) text += session({"caps", "--profile", profile(name)});
  expectGolden("caps.txt", text);
  expectGolden("caps.json", runTool({"caps", "--json", "--profile", profile("two-kinds")}).out);
}

TEST(Caps, InJsonAreTheOnesOfTheTable) {
  const Json json(runTool({"caps", "--json", "--profile", profile("two-kinds")}).out);
  EXPECT_EQ(json.at("$.planes[0].pairs[0].drm_format"), "NV12:0x0100000000000007");
  const std::string caps = json.at("$.caps");
  for (const char *part : {"XR24:0x0100000000000002", "NV12:0x0100000000000007", "memory:DMABuf"})
    EXPECT_NE(caps.find(part), std::string::npos) << caps;
}

TEST(Explain, Golden) {
  std::string text;
  const std::string p = profile("two-kinds");
  for (const Words &args : {
           Words{"explain", std::string(kFrame) + "NV12:0x0100000000000007,width=1920,height=1080", "--profile", p},
           Words{"explain", std::string(kFrame) + "NV12:0x0100000000000002,width=1920,height=1080", "--profile", p},
           Words{"explain", std::string(kFrame) + "NV12,width=3840,height=2160", "--profile", p},
           Words{"explain", std::string(kFrame) + "NV12,width=1280,height=720", "--target=1920x1080", "--profile", p},
           Words{"explain", std::string(kFrame) + "NV24,width=64,height=48", "--profile", p},
           Words{"explain", std::string(kFrame) + "{NV24,XR24},width=64,height=48", "--profile", p},
           Words{"explain", "video/x-raw,format=YUY2,width=64,height=48", "--profile", p},
           Words{"explain", "video/x-raw,format=NV12,width=64,height=48", "--profile", profile("implicit")},
           Words{"explain", "video/x-raw(memory:DMABuf),format=BGRx,width=64,height=48", "--profile",
                 profile("implicit")},
       })
    text += session(args);
  expectGolden("explain.txt", text);
  expectGolden("explain.json", runTool({"explain", "--json", "--profile", p,
                                        std::string(kFrame) + "NV12:0x0100000000000002,width=1920,height=1080"})
                                   .out);
}

TEST(Explain, IsShownWhereOneOfTheFramesIs) {
  const std::string p = profile("two-kinds");
  EXPECT_EQ(runTool({"explain", std::string(kFrame) + "{NV24,XR24},width=64,height=48", "-p", p}).exit, Exit::Shown);
  EXPECT_EQ(runTool({"explain", std::string(kFrame) + "{NV24,NV42},width=64,height=48", "-p", p}).exit,
            Exit::Impossible);
}

struct SizeCase {
  const char *size;
  Exit exit;
  const char *part; // of the output
};

TEST(Explain, NoSizeIsLeftOut) {
  for (const auto &[size, exit, part] : {
           SizeCase{"width=30000", Exit::Impossible, "NV12 1920 x any would be shown in that size"},
           SizeCase{"height=[2000,3000]", Exit::Impossible, "takes NV12 linear up to 1920x1088"},
           SizeCase{"height=[1000,3000]", Exit::Shown, "Shown on plane 4"},
           SizeCase{"width={1920,3840},height=1080", Exit::Shown, "1 of the 2 frames would be shown"},
           SizeCase{"width={3840,7680},height={1080,2160}", Exit::Impossible, "0 of the 4 frames would be shown"},
       }) {
    const Outcome o = runTool({"explain", std::string(kFrame) + "NV12," + size, "-p", profile("two-kinds")});
    EXPECT_EQ(o.exit, exit) << size << o.out << o.err;
    EXPECT_NE(o.out.find(part), std::string::npos) << size << "\n" << o.out;
  }
  for (const char *size : {"width=0", "width=[40000,50000]", "width={64,-1}", "height=(string)many"})
    expectRefused({"explain", std::string(kFrame) + "NV12," + size, "-p", profile("two-kinds")});
}

TEST(Explain, ADisplayThatTakesNoMemoryButItsOwn) {
  const TempDir dir;
  std::string text = readText(profile("linear"));
  text.insert(text.find('{') + 1, R"("quirks": {"no_foreign_memory": true},)");
  const std::string own = dir.file("own.json");
  std::ofstream(own) << text;
  const std::string frame = std::string(kFrame) + "XR24,width=64,height=48";
  const Outcome dmabuf = runTool({"explain", frame, "-p", own});
  EXPECT_EQ(dmabuf.exit, Exit::Shown);
  for (const char *part : {"ask  memory has to be the display's own", "ENODEV",
                           "if TEST_ONLY agrees and the frames are in the sink's own"})
    EXPECT_NE(dmabuf.out.find(part), std::string::npos) << dmabuf.out;
  EXPECT_EQ(runTool({"explain", frame, "-p", profile("linear")}).out.find("memory has to be"), std::string::npos);
  const Outcome system = runTool({"explain", "video/x-raw,format=BGRx,width=64,height=48", "-p", own});
  EXPECT_EQ(system.out.find("memory has to be"), std::string::npos) << system.out;
}

TEST(Compare, Golden) {
  expectGolden("compare.txt", session({"compare", profile("two-kinds"), profile("linear")}) +
                                  session({"compare", profile("linear"), profile("two-kinds")}) +
                                  session({"compare", profile("linear"), profile("linear")}));
  expectGolden("compare.json", runTool({"compare", "--json", profile("two-kinds"), profile("linear")}).out);
}

TEST(Record, MakesAProfileThatIsTheSame) {
  const TempDir dir;
  for (const char *name : {"two-kinds", "linear", "implicit"}) {
    const std::string copy = dir.file("copy.json");
    const Outcome outcome = runTool({"record", "--profile", profile(name), "--output", copy});
    EXPECT_EQ(outcome.exit, Exit::Shown) << outcome.err;
    EXPECT_EQ(runTool({"record", "--profile", copy}).out, runTool({"record", "--profile", profile(name)}).out);
    EXPECT_EQ(runTool({"compare", profile(name), copy}).exit, Exit::Shown);
    EXPECT_EQ(runTool({"compare", copy, profile(name)}).exit, Exit::Shown);
    const std::string frame = std::string(kFrame) + "XR24,width=64,height=48";
    const Json a(runTool({"explain", frame, "--json", "--profile", profile(name)}).out);
    const Json b(runTool({"explain", frame, "--json", "--profile", copy}).out);
    EXPECT_EQ(a.at("$.frames"), b.at("$.frames"));
  }
}

TEST(Record, SaysInJsonWhatItWrote) {
  const TempDir dir;
  const Outcome outcome =
      runTool({"record", "--json", "--profile", profile("two-kinds"), "--output", dir.file("x.json")});
  const Json json(outcome.out);
  EXPECT_EQ(json.at("$.written"), dir.file("x.json"));
  EXPECT_EQ(json.at("$.planes"), "2");
}

bool isDevice(const char *path) {
  struct stat st = {};
  return stat(path, &st) == 0 && S_ISCHR(st.st_mode);
}

TEST(Writing, ThatFailsIsBadInput) {
  if (!isDevice("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const std::string good = profile("linear");
  for (const Words &args :
       {Words{"record", "--profile", good, "-o", "/dev/full"},
        Words{"record", "--profile", good, "-o", "/dev/full", "--json"},
        Words{"matrix", testFile("profiles"), "videotestsrc num-buffers=1", "--svg", "/dev/full"},
        Words{"matrix", testFile("profiles"), "videotestsrc num-buffers=1", "--html", "/dev/full"}}) {
    expectRefused(args);
    EXPECT_NE(runTool(args).err.find("write /dev/full: No space left on device (28). Make room"), std::string::npos);
    EXPECT_TRUE(isDevice("/dev/full")) << "not replaced by a file";
  }
  EXPECT_EQ(runTool({"record", "--profile", good, "-o", "/dev/null"}).exit, Exit::Shown);
  EXPECT_TRUE(isDevice("/dev/null"));
}

TEST(Writing, ToStandardOutputCountsToo) {
  if (!isDevice("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const TempDir dir;
  const auto told = [&](const Outcome &outcome, const char *to) {
    FILE *out = std::fopen(to, "w"), *err = std::fopen(dir.file("err").c_str(), "w");
    const int status = tell(outcome, out, err);
    std::fclose(out);
    std::fclose(err);
    return status;
  };
  const Outcome caps = runTool({"caps", "--profile", profile("linear")});
  EXPECT_EQ(told(caps, "/dev/full"), 2);
  EXPECT_EQ(readText(dir.file("err")), "zerocopy-inspect: write standard output: No space left on device (28). Make "
                                       "room, or write elsewhere\n");
  EXPECT_EQ(told(caps, dir.file("out").c_str()), 0);
  EXPECT_EQ(readText(dir.file("out")), caps.out);
  EXPECT_EQ(readText(dir.file("err")), "");
  EXPECT_EQ(told(runTool({"caps", "--profile", "/nowhere"}), "/dev/full"), 2) << "nothing to write";
}

TEST(BadInput, Golden) {
  std::string text;
  const std::string good = profile("linear");
  for (const Words &args : {
           Words{"caps", "--profile", "/nowhere/a.json"},
           Words{"caps", "--profile", testFile("bad-profiles/type.json")},
           Words{"caps", "--profile", testFile("bad-profiles/short.json")},
           Words{"caps", "--profile", testFile("bad-profiles/unplugged.json")},
           Words{"caps", "--profile", good, "--connector", "HDMI-A-7"},
           Words{"caps", "--device", "/dev/dri/card999"},
           Words{"caps", "--device", "/dev/null"},
           Words{"explain", "rubbish/", "--profile", good},
           Words{"explain", "video/x-raw(", "--profile", good},
           Words{"explain", "", "--profile", good},
           Words{"explain", "ANY", "--profile", good},
           Words{"explain", "audio/x-raw", "--profile", good},
           Words{"explain", "video/x-raw,format=NV99", "--profile", good},
           Words{"explain", "video/x-raw,format=XR24", "--profile", good},
           Words{"explain", "video/x-raw", "--profile", good},
           Words{"explain", std::string(kFrame) + "NV12,width=40000", "--profile", good},
           Words{"explain", std::string(kFrame) + "nv12", "--profile", good},
           Words{"explain", std::string(kFrame) + "NV12:7", "--profile", good},
           Words{"compare", good, "/nowhere/b.json"},
           Words{"record", "--profile", good, "--output", "/nowhere/c.json"},
           Words{"record", "--profile", "/nowhere/a.json"},
           Words{"matrix", "/nowhere", "videotestsrc"},
           Words{"matrix", testFile("golden"), "videotestsrc ! fakesink name=end"},
           Words{"negotiate", "videotestsrc ! fakesink name=end", "--profile", good},
           Words{"negotiate", "videotestsrc", "--profile", "/nowhere/a.json"},
           Words{"frobnicate"},
       }) {
    expectRefused(args);
    text += session(args);
  }
  expectGolden("bad-input.txt", text);
}

} // namespace
