// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/skip_policy.h"

#include <string>

#include <gtest/gtest.h>

using namespace gstzc::infer;
using Verdict = SkipPolicy::Verdict;

namespace {

std::string looks(SkipPolicy &policy, int frames, guint interval) {
  std::string text;
  for (int i = 0; i < frames; ++i)
    text += policy.decide(static_cast<GstClockTime>(i) * GST_MSECOND, interval, true) == Verdict::Look ? 'x' : '.';
  return text;
}

TEST(SkipPolicy, EveryNthBeginningWithTheFirst) {
  for (const auto &[interval, pattern] :
       {std::pair{1u, "xxxxxxx"}, {2u, "x.x.x.x"}, {3u, "x..x..x"}, {100u, "x......"}}) {
    SkipPolicy policy;
    EXPECT_EQ(looks(policy, 7, interval), pattern);
    policy.reset();
    EXPECT_EQ(looks(policy, 7, interval), pattern) << "after a reset";
  }
}

TEST(SkipPolicy, ATurnThatWasGivenBackIsTheNextFrames) {
  SkipPolicy policy;
  EXPECT_EQ(looks(policy, 4, 3), "x..x");
  policy.giveTurnBack();
  EXPECT_EQ(looks(policy, 4, 3), "x..x");
}

TEST(SkipPolicy, AnotherIntervalCountsFromTheLastLook) {
  SkipPolicy policy;
  EXPECT_EQ(looks(policy, 4, 10), "x...");
  EXPECT_EQ(looks(policy, 4, 2), "x.x.");
}

TEST(SkipPolicy, LateFramesAreNotLookedAt) {
  struct {
    GstClockTimeDiff diff;
    GstClockTime at, frame;
    bool qos;
    Verdict verdict;
  } const rows[] = {
      {10, 100, 119, true, Verdict::Late},
      {10, 100, 120, true, Verdict::Look},
      {10, 100, 119, false, Verdict::Look},
      {-30, 100, 69, true, Verdict::Late},
      {-30, 100, 70, true, Verdict::Look},
      {-300, 100, 0, true, Verdict::Look},
      {10, 100, GST_CLOCK_TIME_NONE, true, Verdict::Look},
      {10, GST_CLOCK_TIME_NONE, 5, true, Verdict::Look},
      {G_MAXINT64, 100, G_MAXINT64 / 4, true, Verdict::Late},
      {G_MININT64, G_MAXUINT64 - 1, 5, true, Verdict::Look},
  };
  for (const auto &row : rows) {
    SkipPolicy policy;
    policy.report(row.diff, row.at);
    EXPECT_EQ(policy.decide(row.frame, 1, row.qos), row.verdict) << row.diff << " " << row.at << " " << row.frame;
  }
}

TEST(SkipPolicy, ALateFrameDoesNotUseUpTheTurn) {
  SkipPolicy policy;
  EXPECT_EQ(policy.decide(0, 2, true), Verdict::Look);
  EXPECT_EQ(policy.decide(1, 2, true), Verdict::Interval);
  policy.report(10, 0);
  EXPECT_EQ(policy.decide(2, 2, true), Verdict::Late);
  EXPECT_EQ(policy.decide(20, 2, true), Verdict::Look);
  policy.report(10, 20);
  policy.reset();
  EXPECT_EQ(policy.decide(21, 2, true), Verdict::Look) << "a report from before the flush";
}

} // namespace
