// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/flip_statistics.h"

#include <gtest/gtest.h>

using namespace gstzc;

namespace {

constexpr uint64_t kRefresh = 16'000'000, kBegin = 1'000'000'000;

TEST(FlipStatistics, IntervalsOnAverageAndTheLongest) {
  FlipStatistics statistics;
  EXPECT_EQ(statistics.summary().interval, 0u);
  for (const uint64_t n : {0, 1, 2, 4}) statistics.add({kBegin + n * kRefresh, std::nullopt, kRefresh});
  const auto s = statistics.summary();
  EXPECT_EQ(s.flips, 4u);
  EXPECT_EQ(s.interval, kRefresh * 4 / 3);
  EXPECT_EQ(s.longest, 2 * kRefresh);
  EXPECT_EQ(s.late, 0u) << "nothing was due";
}

TEST(FlipStatistics, APauseIsNoInterval) {
  FlipStatistics statistics;
  statistics.add({kBegin, std::nullopt, kRefresh});
  statistics.pause();
  statistics.add({kBegin + 1000 * kRefresh, std::nullopt, kRefresh});
  statistics.add({kBegin + 1001 * kRefresh, std::nullopt, kRefresh});
  EXPECT_EQ(statistics.summary().longest, kRefresh);
}

struct Case {
  int64_t after; // of the time when it was due, ns
  uint64_t refresh, late, missed;
};

class Late : public testing::TestWithParam<Case> {};

TEST_P(Late, FlipsThatMissedTheirVerticalBlank) {
  const Case c = GetParam();
  FlipStatistics statistics;
  const uint64_t late = statistics.add({static_cast<uint64_t>(int64_t{kBegin} + c.after), uint64_t{kBegin}, c.refresh});
  EXPECT_EQ(late, c.late);
  EXPECT_EQ(statistics.summary().late, c.missed > 0 ? 1u : 0u);
  EXPECT_EQ(statistics.summary().missed, c.missed);
}

INSTANTIATE_TEST_SUITE_P(Times, Late,
                         testing::Values(Case{-5'000'000, kRefresh, 0, 0},            // early
                                         Case{0, kRefresh, 0, 0},                     //
                                         Case{16'000'000, kRefresh, 0, 0},            // the next vertical blank
                                         Case{20'000'000, kRefresh, 0, 0},            // within what readying takes
                                         Case{20'000'001, kRefresh, 4'000'001, 1},    //
                                         Case{36'000'000, kRefresh, 20'000'000, 2},   //
                                         Case{160'000'000, kRefresh, 144'000'000, 9}, //
                                         Case{160'000'000, 0, 0, 0}));                // no refresh is known

} // namespace
