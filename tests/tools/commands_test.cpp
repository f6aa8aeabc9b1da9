// SPDX-License-Identifier: LGPL-2.1-or-later
// The commands that run no pipeline.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

// Standard input and pipes are read once, whoever needs them.
TEST(Profiles, ThroughAPipe) {
  int ends[2];
  const auto throughPipe = [&](const std::string &text, const Words &args) {
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends[1]);
    Words with = args;
    with.insert(with.end(), {"--profile", "/dev/fd/" + std::to_string(ends[0])});
    const Outcome outcome = runTool(with);
    close(ends[0]);
    return outcome;
  };
  const std::string text = readText(profile("linear"));
  const Outcome caps = throughPipe(text, {"caps"});
  EXPECT_EQ(caps.exit, Exit::Shown) << caps.err;
  EXPECT_NE(caps.out.find("pipe (example, linear only)"), std::string::npos) << caps.out;
  const Outcome negotiated =
      throughPipe(text, {"negotiate", "videotestsrc num-buffers=1 ! video/x-raw,format=NV12,width=64,height=48"});
  EXPECT_EQ(negotiated.exit, Exit::Shown) << negotiated.out << negotiated.err;
  const Outcome broken = throughPipe("{", {"caps"});
  EXPECT_EQ(broken.exit, Exit::BadInput);
  EXPECT_TRUE(broken.err.starts_with("zerocopy-inspect: /dev/fd/")) << broken.err;

  const auto throughInput = [](const std::string &file) {
    const int input = dup(0), given = open(file.c_str(), O_RDONLY);
    dup2(given, 0);
    const Outcome outcome = runTool({"caps", "--profile", "-"});
    dup2(input, 0);
    close(given);
    close(input);
    return outcome;
  };
  const Outcome refused = throughInput(testFile("bad-profiles/type.json"));
  EXPECT_TRUE(refused.err.starts_with("zerocopy-inspect: - (standard input): planes[0].type")) << refused.err;
  const Outcome standard = throughInput(profile("linear"));
  EXPECT_EQ(standard.exit, Exit::Shown) << standard.err;
  EXPECT_NE(standard.out.find("stdin (example, linear only)"), std::string::npos) << standard.out;
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

bool isDevice(const std::string &path) {
  struct stat st = {};
  return stat(path.c_str(), &st) == 0 && S_ISCHR(st.st_mode);
}

// A disk that is full: a node of our own where we may have one, so that nothing happens to the machine's.
std::string fullDisk(const TempDir &dir) {
  const std::string own = dir.file("full");
  if (mknod(own.c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0) {
    const int fd = open(own.c_str(), O_WRONLY | O_CLOEXEC); // not where nodes mean nothing
    if (fd >= 0) {
      close(fd);
      return own;
    }
  }
  return isDevice("/dev/full") ? "/dev/full" : "";
}

TEST(Writing, ThatFailsIsBadInput) {
  const TempDir dir;
  const std::string full = fullDisk(dir);
  if (full.empty()) GTEST_SKIP() << "there is no /dev/full";
  const std::string good = profile("linear");
  for (const Words &args :
       {Words{"record", "--profile", good, "-o", full}, Words{"record", "--profile", good, "-o", full, "--json"},
        Words{"matrix", testFile("profiles"), "videotestsrc num-buffers=1", "--svg", full},
        Words{"matrix", testFile("profiles"), "videotestsrc num-buffers=1", "--html", full}}) {
    expectRefused(args);
    const std::string said = runTool(args).err;
    EXPECT_NE(said.find("write " + full + ": No space left on device (28). Make room"), std::string::npos) << said;
    EXPECT_TRUE(isDevice(full)) << "not replaced by a file";
  }
}

TEST(Writing, ToStandardOutputCountsToo) {
  const TempDir dir;
  const std::string full = fullDisk(dir);
  if (full.empty()) GTEST_SKIP() << "there is no /dev/full";
  const auto told = [&](const Outcome &outcome, const std::string &to) {
    FILE *out = std::fopen(to.c_str(), "w"), *err = std::fopen(dir.file("err").c_str(), "w");
    const int status = tell(outcome, out, err);
    std::fclose(err);
    return status;
  };
  const Outcome caps = runTool({"caps", "--profile", profile("linear")});
  EXPECT_EQ(told(caps, full), 2);
  EXPECT_EQ(readText(dir.file("err")), "zerocopy-inspect: write standard output: No space left on device (28). Make "
                                       "room, or write elsewhere\n");
  EXPECT_EQ(told(caps, dir.file("out")), 0);
  EXPECT_EQ(readText(dir.file("out")), caps.out);
  EXPECT_EQ(readText(dir.file("err")), "");
  EXPECT_EQ(told(runTool({"caps", "--profile", "/nowhere"}), full), 2) << "nothing to write";
}

TEST(Writing, ToStandardOutputThatIsClosed) {
  const TempDir dir;
  const auto told = [&](const Outcome &outcome) {
    FILE *out = std::fopen(dir.file("out").c_str(), "w"), *err = std::fopen(dir.file("err").c_str(), "w");
    close(fileno(out));
    const int status = tell(outcome, out, err);
    std::fclose(err);
    return status;
  };
  EXPECT_EQ(told({Exit::Shown, "text\n", ""}), 2);
  EXPECT_EQ(readText(dir.file("err")), "zerocopy-inspect: write standard output: Bad file descriptor (9). Let it go to "
                                       "a terminal, a file or a pipe\n");
  EXPECT_EQ(told({Exit::BadInput, "", "one line\n"}), 2);
  EXPECT_EQ(readText(dir.file("err")), "one line\n") << "nothing to write, nothing lost";
}

// What commands a terminal in a profile, in caps and in a fragment.
TEST(Text, CommandsNoTerminal) {
  EXPECT_EQ(printable("a\tb\n\x1b[2J\x7f\xc2\x9bm \xe2\x80\xa6 \xff"), "a\tb\n�[2J��m … �");
  const TempDir dir;
  const std::string bad = dir.file("bad.json");
  std::ofstream(bad) << R"({"driver": "x\u001b[2J", "device": "\u009b1m", "notes": ["\u0007"], "\u001bkey": 1,
    "planes": [{"type": "Primary", "label": "\u001b[31mX", "formats": ["XR24"]}]})";
  const auto clean = [](const std::string &text) {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; }) &&
           text.find("\xc2\x9b") == std::string::npos;
  };
  const std::string fragment = "videotestsrc num-buffers=1 name=a\x1b[1m ! video/x-raw,format=BGRx,width=64,height=48";
  for (const Words &args : {Words{"caps", "-p", bad}, Words{"explain", "video/x-raw,format=NV12", "-p", bad},
                            Words{"explain", "video/x-raw,format=\x1b[1m", "-p", bad}, Words{"compare", bad, bad},
                            Words{"record", "-p", bad, "-o", dir.file("copy.json")}, Words{"caps\x1b[1m"},
                            Words{"caps", "-p", bad, "-c", "\x1b[1m"}, Words{"matrix", dir.path(), fragment},
                            Words{"negotiate", fragment, "-p", bad}}) {
    const Outcome o = runTool(args);
    EXPECT_TRUE(clean(o.out + o.err)) << args[0] << "\n" << o.out << o.err;
  }
  const Json json(runTool({"caps", "--json", "-p", bad}).out);
  EXPECT_EQ(json.at("$.driver"), "x\\u001b[2J") << "JSON has escapes";
}

TEST(Texts, OfAProfileThatSaysLittle) {
  const TempDir dir;
  const std::string bare = dir.file("bare.json");
  std::ofstream(bare) << R"({"planes": [{"type": "Primary", "formats": ["XR24"]}]})";
  const std::string caps = runTool({"caps", "-p", bare}).out;
  EXPECT_TRUE(caps.starts_with("bare.json, output Virtual-1")) << caps;
  EXPECT_EQ(runTool({"record", "-p", bare, "-o", dir.file("o")}).out,
            dir.file("o") + ": 1 plane. Use it with --profile " + dir.file("o") + "\n");
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
           Words{"caps", "--profile", good, "--device", "/dev/dri/card1"},
           Words{"caps", "--profile", "/dev/zero"},
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
