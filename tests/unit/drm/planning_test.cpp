// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/planning.h"

#include <gtest/gtest.h>

#include "tests/unit/drm/snapshots.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

FrameNeed frame(int width, int height, DrmFormat format = kNv12) {
  FrameNeed need;
  need.format = format;
  need.width = width;
  need.height = height;
  return need;
}

TEST(ChooseOutput, FirstConnectedThatIsNoWriteback) {
  KmsSnapshot s = desk();
  s.connectors = {connector(29, "Writeback-1", DRM_MODE_CONNECTED, DRM_MODE_CONNECTOR_WRITEBACK),
                  connector(30, "HDMI-A-1", DRM_MODE_DISCONNECTED), connector(31, "DP-1", DRM_MODE_CONNECTED)};
  auto output = chooseOutput(s, "");
  ASSERT_TRUE(output) << output.error().message();
  EXPECT_EQ(output->connector, 2u);
  EXPECT_EQ(output->crtc, 0u);
}

TEST(ChooseOutput, ByNameOrId) {
  KmsSnapshot s = desk();
  s.connectors.push_back(connector(31, "DP-1", DRM_MODE_CONNECTED));
  EXPECT_EQ(chooseOutput(s, "DP-1")->connector, 1u);
  EXPECT_EQ(chooseOutput(s, "31")->connector, 1u);
  s.connectors[1].status = DRM_MODE_UNKNOWNCONNECTION; // asked for by name: the user knows
  EXPECT_EQ(chooseOutput(s, "DP-1")->connector, 1u);
}

TEST(ChooseOutput, ErrorsListTheOutputs) {
  KmsSnapshot s = desk();
  s.connectors = {connector(29, "Writeback-1", DRM_MODE_CONNECTED, DRM_MODE_CONNECTOR_WRITEBACK),
                  connector(30, "HDMI-A-1", DRM_MODE_DISCONNECTED)};
  for (const auto &[wanted, part] : std::initializer_list<std::pair<const char *, const char *>>{
           {"", "no output is connected: HDMI-A-1 (id 30) disconnected"},
           {"DP-9", "no output is called \"DP-9\": HDMI-A-1 (id 30) disconnected"},
           {"HDMI-A-1", "HDMI-A-1 is not connected"},
           {"Writeback-1", "no output is called"}}) {
    auto output = chooseOutput(s, wanted);
    ASSERT_FALSE(output) << wanted;
    EXPECT_NE(output.error().what.find(part), std::string::npos) << output.error().what;
    EXPECT_EQ(output.error().what.find("Writeback-1 ("), std::string::npos) << output.error().what;
    EXPECT_FALSE(output.error().remedy.empty());
  }
}

TEST(ChooseOutput, KeepsTheCrtcAndTakesNoUsedOne) {
  KmsSnapshot s = desk();
  s.crtcs.push_back(s.crtcs[0]);
  s.crtcs[1].id = 41;
  s.connectors.push_back(connector(31, "DP-1", DRM_MODE_CONNECTED));
  s.connectors[0].possible_crtcs = s.connectors[1].possible_crtcs = 3;
  s.connectors[0].crtc = 40;
  EXPECT_EQ(chooseOutput(s, "DP-1")->crtc, 1u);
  EXPECT_EQ(chooseOutput(s, "HDMI-A-1")->crtc, 0u);
  s.connectors[1].possible_crtcs = 1;
  auto none = chooseOutput(s, "DP-1");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().what.find("no free CRTC"), std::string::npos);
}

std::string names(const std::vector<ModeChoice> &modes) {
  std::string text;
  for (const ModeChoice &m : modes)
    text += (text.empty() ? "" : " ") + std::to_string(m.mode.hdisplay) + "x" + std::to_string(m.mode.vdisplay) +
            (m.listed ? "" : "!");
  return text;
}

TEST(SameOutput, IsFoundByIdsWhereverItIsListedNow) {
  KmsSnapshot before = desk();
  before.connectors = {connector(30, "HDMI-A-1", DRM_MODE_CONNECTED), connector(31, "DP-1", DRM_MODE_CONNECTED)};
  before.crtcs.emplace_back().id = 41;
  KmsSnapshot now = before;
  now.connectors.insert(now.connectors.begin(), connector(29, "DP-2", DRM_MODE_CONNECTED));
  std::swap(now.crtcs[0], now.crtcs[1]);
  auto output = sameOutput(before, {1, 1}, now);
  ASSERT_TRUE(output) << output.error().message();
  EXPECT_EQ(output->connector, 2u);
  EXPECT_EQ(output->crtc, 0u);

  now.connectors.pop_back();
  auto gone = sameOutput(before, {1, 1}, now);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ENODEV);
  EXPECT_NE(gone.error().what.find("output DP-1 is gone: DP-2 (id 29) connected, HDMI-A-1 (id 30)"), std::string::npos)
      << gone.error().what;
  EXPECT_TRUE(sameOutput(before, {0, 1}, now));
  now.crtcs.erase(now.crtcs.begin());
  EXPECT_FALSE(sameOutput(before, {0, 1}, now));
}

TEST(ModeCandidates, ExactThenSmallestThenPreferred) {
  const KmsSnapshot s = desk();
  struct {
    int width, height;
    const char *expected;
  } const cases[] = {
      {640, 480, "640x480 1024x768"}, {1024, 768, "1024x768"},  {320, 240, "640x480 1024x768"},
      {700, 500, "800x600 1024x768"}, {1921, 1079, "1024x768"}, {1920, 1079, "1920x1080 1024x768"},
  };
  for (const auto &c : cases) {
    auto modes = modeCandidates(s, s.connectors[0], frame(c.width, c.height), std::nullopt);
    ASSERT_TRUE(modes);
    EXPECT_EQ(names(*modes), c.expected) << c.width << "x" << c.height;
  }
}

TEST(ModeCandidates, VirtualOutputsAlsoGetTheFramesSize) {
  KmsSnapshot s = desk();
  s.connectors[0].type = DRM_MODE_CONNECTOR_VIRTUAL;
  EXPECT_EQ(names(*modeCandidates(s, s.connectors[0], frame(640, 360), std::nullopt)), "640x480 1024x768 640x360!");
  EXPECT_EQ(names(*modeCandidates(s, s.connectors[0], frame(640, 480), std::nullopt)), "640x480 1024x768");
  EXPECT_EQ(names(*modeCandidates(s, s.connectors[0], frame(8, 8), std::nullopt)),
            "640x480 1024x768"); // below the least
}

TEST(ModeCandidates, InterlacedOnesAreOut) {
  KmsSnapshot s = desk();
  s.connectors[0].modes[3].flags |= DRM_MODE_FLAG_INTERLACE; // 640x480
  EXPECT_EQ(names(*modeCandidates(s, s.connectors[0], frame(640, 480), std::nullopt)), "800x600 1024x768");
}

TEST(ModeCandidates, Requested) {
  KmsSnapshot s = desk();
  s.connectors[0].modes.push_back(listed(1920, 1080, 50));
  const auto ask = [&](ModeRequest r) { return modeCandidates(s, s.connectors[0], frame(640, 480), r); };
  auto modes = ask({1920, 1080, 50});
  ASSERT_TRUE(modes);
  ASSERT_EQ(modes->size(), 1u);
  EXPECT_TRUE(modes->front().listed);
  EXPECT_NEAR(refreshOf(modes->front().mode), 50, 0.1);
  EXPECT_NEAR(refreshOf(ask({1920, 1080, 0})->front().mode), 60, 0.1);
  EXPECT_EQ(names(*ask({64, 48, 60})), "64x48!");
  EXPECT_EQ(names(*ask({1920, 1080, 24})), "1920x1080!");
  auto outside = ask({8, 8, 60});
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().what.find("16x16 to 8192x8192"), std::string::npos) << outside.error().what;
}

TEST(ModeCandidates, NoModes) {
  KmsSnapshot s = desk();
  s.connectors[0].modes.clear();
  EXPECT_FALSE(modeCandidates(s, s.connectors[0], frame(640, 480), std::nullopt));
  EXPECT_TRUE(modeCandidates(s, s.connectors[0], frame(640, 480), ModeRequest{640, 480, 60}));
}

TEST(PlaneCandidates, ByFormatAndModifier) {
  const KmsSnapshot s = desk();
  EXPECT_EQ(planeCandidates(s, 0, kXr24, nullptr), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(planeCandidates(s, 0, kNv12, nullptr), (std::vector<size_t>{1})); // the cursor's NV12 does not count
  EXPECT_EQ(planeCandidates(s, 0, kNv12Tiled, nullptr), (std::vector<size_t>{1}));
  std::string why;
  EXPECT_TRUE(planeCandidates(s, 0, {DRM_FORMAT_XRGB8888, I915_FORMAT_MOD_X_TILED}, &why).empty());
  EXPECT_EQ(why, "plane 50: not with this modifier, plane 51: not with this modifier, plane 52: no XR24");
}

TEST(PlaneCandidates, ASandFrameOfAnyColumnHeight) {
  KmsSnapshot s = desk();
  s.planes[1].formats = {{DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128}};
  const DrmFormat decoded{DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(1088)};
  EXPECT_EQ(planeCandidates(s, 0, decoded, nullptr), (std::vector<size_t>{1}));
  EXPECT_TRUE(
      planeCandidates(s, 0, {DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND64_COL_HEIGHT(1088)}, nullptr).empty());
}

TEST(PlaneCandidates, OnlyOfThisCrtcAndNotInUseElsewhere) {
  KmsSnapshot s = desk();
  s.planes[0].possible_crtcs = 2;
  EXPECT_EQ(planeCandidates(s, 0, kXr24, nullptr), (std::vector<size_t>{1}));
  s.planes[1].crtc = 99;
  std::string why;
  EXPECT_TRUE(planeCandidates(s, 0, kXr24, &why).empty());
  EXPECT_NE(why.find("plane 51: in use on CRTC 99"), std::string::npos) << why;
  s.planes[1].crtc = s.crtcs[0].id; // ours: will be taken over
  EXPECT_EQ(planeCandidates(s, 0, kXr24, nullptr), (std::vector<size_t>{1}));
}

TEST(OverlayCandidates, AboveTheVideo) {
  KmsSnapshot s = desk();
  EXPECT_EQ(overlayCandidates(s, 0, 0, DRM_FORMAT_ARGB8888), (std::vector<size_t>{2}));
  EXPECT_EQ(overlayCandidates(s, 0, 1, DRM_FORMAT_ARGB8888), (std::vector<size_t>{2}));
  EXPECT_TRUE(overlayCandidates(s, 0, 2, DRM_FORMAT_ARGB8888).empty()); // the video has the only one
  std::swap(s.planes[1], s.planes[2]);                                  // without zpos the order counts
  EXPECT_TRUE(overlayCandidates(s, 0, 2, DRM_FORMAT_ARGB8888).empty());
}

TEST(OverlayCandidates, ZposDecides) {
  KmsSnapshot s = desk();
  s.planes[1] = withZpos(s.planes[1], 2, 2, true);
  s.planes[2] = withZpos(s.planes[2], 1, 1, true);
  EXPECT_TRUE(overlayCandidates(s, 0, 1, DRM_FORMAT_ARGB8888).empty()) << "Amlogic: video above the RGB plane";
  s.planes[2] = desk().planes[2];
  s.planes[2] = withZpos(s.planes[2], 0, 5, false); // can be lifted
  EXPECT_EQ(overlayCandidates(s, 0, 1, DRM_FORMAT_ARGB8888), (std::vector<size_t>{2}));
}

TEST(Placements, Centred) {
  const auto one = [](FrameNeed need, int w, int h) { return placements(need, w, h); };
  EXPECT_EQ(one(frame(640, 480), 640, 480), (std::vector<Placement>{{{0, 0, 640, 480}, {0, 0, 640, 480}, false}}));
  EXPECT_EQ(one(frame(640, 360), 1024, 768), (std::vector<Placement>{{{0, 0, 640, 360}, {0, 96, 1024, 576}, true},
                                                                     {{0, 0, 640, 360}, {192, 204, 640, 360}, false}}));
  // larger than the display: shrunk, or cropped on even pixels
  EXPECT_EQ(one(frame(1921, 1079), 1024, 768),
            (std::vector<Placement>{{{0, 0, 1921, 1079}, {0, 96, 1024, 575}, true},
                                    {{448, 154, 1024, 768}, {0, 0, 1024, 768}, false}}));
  FrameNeed wide = frame(720, 576);
  wide.par_n = 16;
  wide.par_d = 15;
  EXPECT_EQ(one(wide, 1024, 768)[0].target, (Rect{0, 0, 1024, 768}));
}

TEST(Placements, StayInsideForAllSizes) {
  for (int w : {1, 2, 3, 63, 64, 65, 1000})
    for (int h : {1, 2, 17, 48, 700})
      for (const Placement &p : placements(frame(w, h), 64, 48)) {
        EXPECT_GE(p.source.x, 0);
        EXPECT_GE(p.source.y, 0);
        EXPECT_LE(p.source.x + p.source.width, w);
        EXPECT_LE(p.source.y + p.source.height, h);
        EXPECT_LE(p.target.x + p.target.width, 64);
        EXPECT_LE(p.target.y + p.target.height, 48);
        EXPECT_GE(p.target.width, 1);
        EXPECT_GE(p.target.height, 1);
        if (!p.scaled) {
          EXPECT_EQ(p.source.width, p.target.width);
          EXPECT_EQ(p.source.height, p.target.height);
        }
      }
}

TEST(Formats, LinearOnesOfAllPlanesOnce) {
  EXPECT_EQ(linearFormats(desk(), 0),
            (std::vector<uint32_t>{DRM_FORMAT_XRGB8888, DRM_FORMAT_ARGB8888, DRM_FORMAT_NV12}));
}

} // namespace
