// SPDX-License-Identifier: LGPL-2.1-or-later
// Twelve typical frames on each display of tests/profiles, against what its driver's rules say
// (tests/profiles/README.md).
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "gst/drm/negotiate/explain.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/json_value.h"
#include "gst/drm/profile/profile_names.h"

using namespace gstzc;

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFrames = {"nv12", "nv12-tiled", "p010",    "afbc",      "ccs",         "dcc",
                                          "xr24", "4k",         "rotated", "scaled-up", "scaled-down", "odd"};

struct Expected {
  std::string profile, frame, rule;
  FrameNeed need;
  std::string plane; // empty: none
  unsigned memory_planes = 0;
  OpenQuestions open;
  std::map<std::string, std::string> refusals;
};
void PrintTo(const Expected &e, std::ostream *out) { *out << e.profile << " " << e.frame; }

std::vector<fs::path> profiles() {
  std::vector<fs::path> files;
  for (const auto &entry : fs::directory_iterator(GSTZC_PROFILES))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Expected> readExpected(const fs::path &profile) {
  std::ifstream in(profile.parent_path() / "expected" / profile.filename());
  std::stringstream text;
  text << in.rdbuf();
  json::Document document("expected/" + profile.filename().string());
  std::vector<Expected> result;
  if (!document.parse(text.str(), 1 << 20, 16)) return result;
  for (const json::Value &v : document.root().member("frames").items(100)) {
    Expected e;
    e.profile = profile.filename().string();
    e.frame = v.member("frame").text();
    e.rule = v.member("rule").text();
    const auto format = parseDrmFormat(v.member("format").text());
    if (!format) document.fail(format.error());
    e.need.format = format ? *format : DrmFormat{};
    e.need.width = static_cast<int>(v.member("size").items(2).at(0).integer(1, 32767));
    e.need.height = static_cast<int>(v.member("size").items(2).at(1).integer(1, 32767));
    if (const auto target = v.member("target").items(2); target.size() == 2) {
      e.need.target_width = static_cast<int>(target[0].integer(1, 32767));
      e.need.target_height = static_cast<int>(target[1].integer(1, 32767));
    }
    for (const json::Value &r : v.member("rotation").items(4)) e.need.rotation |= rotationOf(r.text()).value_or(0);
    e.plane = v.member("plane").text();
    e.memory_planes = static_cast<unsigned>(v.member("memory_planes").integer(0, 4));
    for (const json::Value &o : v.member("open").items(3)) {
      const std::string what = o.text();
      (what == "size" ? e.open.size : what == "scaling" ? e.open.scaling : e.open.odd) = true;
    }
    for (const auto &[label, reason] : v.member("refusals").members(20)) e.refusals[label] = reason.text();
    result.push_back(std::move(e));
  }
  EXPECT_FALSE(document.error()) << document.error()->message();
  return result;
}

std::vector<Expected> allExpected() {
  std::vector<Expected> all;
  for (const fs::path &file : profiles()) {
    const auto some = readExpected(file);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string textOf(const OpenQuestions &open) {
  return std::string(open.size ? " size" : "") + (open.scaling ? " scaling" : "") + (open.odd ? " odd" : "");
}

TEST(Corpus, IsComplete) {
  EXPECT_GE(profiles().size(), 19u);
  for (const fs::path &file : profiles()) {
    const auto profile = loadProfile(file);
    ASSERT_TRUE(profile) << profile.error().message();
    EXPECT_TRUE(profile->warnings.empty()) << file;
    EXPECT_FALSE(profile->provenance.empty()) << file;
    std::vector<std::string> frames;
    for (const Expected &e : readExpected(file)) {
      frames.push_back(e.frame);
      EXPECT_FALSE(e.rule.empty()) << file << " " << e.frame;
      EXPECT_TRUE(!e.plane.empty() || !e.refusals.empty()) << file << " " << e.frame;
    }
    EXPECT_EQ(frames, kFrames) << file;
  }
}

class Corpus : public testing::TestWithParam<Expected> {};

TEST_P(Corpus, ChoosesAsTheDriversRulesSay) {
  const Expected &e = GetParam();
  const auto profile = loadProfile(fs::path(GSTZC_PROFILES) / e.profile);
  ASSERT_TRUE(profile) << profile.error().message();
  const KmsSnapshot &s = profile->snapshot;
  const Explanation explanation = explain(*profile, 0, e.need, {});
  SCOPED_TRACE("rule: " + e.rule + "\n" + toText(explanation));
  ASSERT_EQ(explanation.shown, !e.plane.empty());
  if (explanation.shown) {
    const Option &choice = *explanation.choice;
    EXPECT_EQ(s.planes[choice.plane].label, e.plane);
    EXPECT_EQ(choice.format, e.need.format);
    EXPECT_EQ(choice.memory_planes, e.memory_planes);
    EXPECT_EQ(textOf(choice.open), textOf(e.open));
    return;
  }
  std::map<std::string, std::string> reasons; // planes of a group are alike
  for (const Refusal &r : explanation.refusals)
    reasons[s.planes[r.plane].label] =
        std::string(reasonName(r.reason)) + (r.error != 0 ? std::string(":") + strerrorname_np(r.error) : "");
  for (const auto &[label, reason] : e.refusals) EXPECT_EQ(reasons[label], reason) << label;
}

INSTANTIATE_TEST_SUITE_P(Displays, Corpus, testing::ValuesIn(allExpected()), [](const auto &i) {
  std::string name = i.param.profile.substr(0, i.param.profile.find(".json")) + "_" + i.param.frame;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// What is offered of the first plane is what frames of it are shown with.
TEST(Corpus, OffersAreKept) {
  for (const fs::path &file : profiles()) {
    const auto profile = loadProfile(file);
    ASSERT_TRUE(profile) << profile.error().message();
    const OfferedFormats offered = offers(profile->snapshot, 0, {});
    ASSERT_FALSE(offered.groups.empty()) << file;
    for (const OfferedGroup &group : offered.groups)
      for (const DrmFormat &pair : group.pairs) {
        FrameNeed need;
        need.format = pair;
        EXPECT_FALSE(propose(profile->snapshot, 0, need, {}, nullptr).empty()) << file << " " << toString(pair);
      }
  }
}

} // namespace
