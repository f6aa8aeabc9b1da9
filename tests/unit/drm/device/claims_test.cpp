// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>

#include <gtest/gtest.h>

#include "gst/drm/device/claims.h"
#include "gst/drm/planning.h"
#include "tests/unit/drm/snapshots.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

// Two outputs with a CRTC each, and a plane that either can have.
KmsSnapshot twoOutputs() {
  KmsSnapshot s = desk();
  s.connectors.push_back(connector(31, "HDMI-A-2", DRM_MODE_CONNECTED));
  KmsCrtc second;
  second.id = 41;
  s.crtcs.push_back(second);
  for (KmsConnector &c : s.connectors) c.possible_crtcs = 3;
  for (KmsPlane &p : s.planes) p.possible_crtcs = 3;
  return s;
}

const int kOne = 0, kTwo = 0, kThree = 0;

TEST(Claims, AnOutputIsUsedWithOneCrtc) {
  Claims claims;
  EXPECT_TRUE(claims.claimOutput(&kOne, 30, 40));
  EXPECT_TRUE(claims.claimOutput(&kOne, 30, 40)) << "again";
  EXPECT_FALSE(claims.claimOutput(&kTwo, 30, 41));
  EXPECT_FALSE(claims.claimOutput(&kTwo, 31, 40));
  EXPECT_TRUE(claims.claimOutput(&kTwo, 31, 41)) << "what was refused left nothing behind";
  EXPECT_TRUE(claims.claimOutput(&kTwo, 30, 40)) << "both on one";
  claims.release(&kOne);
  EXPECT_FALSE(claims.claimOutput(&kOne, 30, 41)) << "the other one is still there";
  claims.release(&kTwo);
  EXPECT_TRUE(claims.claimOutput(&kOne, 30, 41));
}

TEST(Claims, TheSecondSinkGetsTheSecondOutput) {
  Claims claims;
  ASSERT_TRUE(claims.claimOutput(&kOne, 30, 40));
  KmsSnapshot mine = twoOutputs(), others = twoOutputs();
  claims.mark(mine, &kOne);
  claims.mark(others, &kTwo);
  const auto first = chooseOutput(mine, ""), second = chooseOutput(others, "");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->connector, 0u);
  EXPECT_EQ(first->crtc, 0u);
  EXPECT_EQ(second->connector, 1u);
  EXPECT_EQ(second->crtc, 1u);
  const auto wanted = chooseOutput(others, "HDMI-A-1");
  ASSERT_TRUE(wanted) << "shared where it is asked for by name";
  EXPECT_EQ(wanted->connector, 0u);
  EXPECT_EQ(wanted->crtc, 0u) << "with its CRTC";
  ASSERT_TRUE(claims.claimOutput(&kTwo, 31, 41));
  KmsSnapshot thirds = twoOutputs();
  claims.mark(thirds, &kThree);
  const auto third = chooseOutput(thirds, "");
  ASSERT_TRUE(third) << "and where nothing else is left";
  EXPECT_EQ(third->connector, 0u);
}

TEST(Claims, PlanesOfOthersLookInUse) {
  Claims claims;
  ASSERT_TRUE(claims.claimPlane(&kOne, 51, 40));
  EXPECT_FALSE(claims.claimPlane(&kTwo, 51, 41));
  KmsSnapshot s = twoOutputs();
  claims.mark(s, &kTwo);
  EXPECT_TRUE(s.planes[1].claimed);
  EXPECT_EQ(s.planes[1].crtc, 40u);
  std::string refusals;
  EXPECT_TRUE(planeCandidates(s, 1, kNv12, &refusals).empty());
  EXPECT_NE(refusals.find("in use on CRTC 40"), std::string::npos) << refusals;
  claims.releasePlane(&kTwo, 51); // not its to give back
  claims.mark(s, &kTwo);
  EXPECT_TRUE(s.planes[1].claimed);
  claims.releasePlane(&kOne, 51);
  claims.mark(s, &kTwo);
  EXPECT_FALSE(s.planes[1].claimed);
  EXPECT_EQ(s.planes[1].crtc, 0u);
  EXPECT_EQ(planeCandidates(s, 1, kNv12, nullptr).size(), 1u);
}

TEST(Claims, OnesOwnAreNotMarked) {
  Claims claims;
  ASSERT_TRUE(claims.claimPlane(&kOne, 51, 40));
  KmsSnapshot s = twoOutputs();
  s.planes[1].crtc = 40; // on screen
  claims.mark(s, &kOne);
  EXPECT_FALSE(s.planes[1].claimed);
  EXPECT_EQ(s.planes[1].crtc, 40u);
}

} // namespace
