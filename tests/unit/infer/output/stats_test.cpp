// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stats.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "gst/infer/output/durations.h"

using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

TEST(Durations, NoneIsNothing) {
  Durations durations;
  const auto p = durations.percentiles();
  EXPECT_EQ(p.p50, 0u);
  EXPECT_EQ(p.p95, 0u);
  EXPECT_EQ(p.p99, 0u);
  EXPECT_EQ(durations.total(), 0u);
}

TEST(Durations, OneIsEveryPercentile) {
  Durations durations;
  durations.add(7);
  const auto p = durations.percentiles();
  EXPECT_EQ(p.p50, 7u);
  EXPECT_EQ(p.p95, 7u);
  EXPECT_EQ(p.p99, 7u);
}

// Nearest rank of 1..n: the ceil(p/100 * n)-th.
TEST(Durations, ByNearestRank) {
  const struct {
    uint64_t n, p50, p95, p99;
  } rows[] = {{2, 1, 2, 2},      {3, 2, 3, 3},       {10, 5, 10, 10},
              {100, 50, 95, 99}, {101, 51, 96, 100}, {1000, 500, 950, 990}};
  for (const auto &row : rows) {
    Durations durations;
    for (uint64_t i = row.n; i >= 1; --i) durations.add(i); // not in order
    const auto p = durations.percentiles();
    EXPECT_EQ(p.p50, row.p50) << row.n;
    EXPECT_EQ(p.p95, row.p95) << row.n;
    EXPECT_EQ(p.p99, row.p99) << row.n;
    EXPECT_EQ(durations.total(), row.n * (row.n + 1) / 2);
    EXPECT_EQ(durations.count(), row.n);
  }
}

TEST(Durations, OnlyTheNewestCountButTheSumIsOfAll) {
  Durations durations;
  for (int i = 0; i < 10; ++i) durations.add(1'000'000);
  for (size_t i = 0; i < Durations::kNewest; ++i) durations.add(5);
  EXPECT_EQ(durations.percentiles().p99, 5u);
  EXPECT_EQ(durations.total(), 10'000'000 + 5 * Durations::kNewest);
  durations.add(9); // in place of one 5
  EXPECT_EQ(durations.percentiles().p99, 5u);
  EXPECT_EQ(durations.count(), Durations::kNewest + 11);
}

class StatsStructure : public testing::Test {
protected:
  ~StatsStructure() override { gst_clear_structure(&made_); }
  const GstStructure *make() {
    gst_clear_structure(&made_);
    return made_ = stats_.structure();
  }
  guint64 value(const char *field) {
    guint64 found = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(made_, field, &found)) << field;
    return found;
  }
  double mean() {
    gdouble found = -1;
    EXPECT_TRUE(gst_structure_get_double(made_, "batch-size-mean", &found));
    return found;
  }

  Stats stats_;
  GstStructure *made_ = nullptr;
};

TEST_F(StatsStructure, HasExactlyTheseFields) {
  std::set<std::string> expected = {
      "frames",       "inferred",      "preprocessed", "skipped",  "dropped",         "stale",       "errors",
      "queue-depth",  "copies",        "bytes-copied", "batches",  "batch-size-mean", "fence-waits", "fence-timeouts",
      "fence-errors", "mappings-made", "mapping-hits", "mappings", "device"};
  for (const std::string duration : {"wait", "pre", "infer", "post", "fence-wait"})
    for (const char *suffix : {"-us", "-p50-us", "-p95-us", "-p99-us"}) expected.insert(duration + suffix);
  const GstStructure *s = make();
  std::set<std::string> found;
  for (gint i = 0; i < gst_structure_n_fields(s); ++i)
    found.insert(gst_structure_nth_field_name(s, static_cast<guint>(i)));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(mean(), 0);
  EXPECT_STREQ(gst_structure_get_string(s, "device"), "cpu");
  found.erase("batch-size-mean");
  found.erase("device");
  for (const std::string &field : found) EXPECT_EQ(value(field.c_str()), 0u) << field;
}

TEST_F(StatsStructure, EachCounterIsItsField) {
  stats_.frames = 1, stats_.inferred = 9, stats_.skipped = 3, stats_.dropped = 4, stats_.stale = 5, stats_.errors = 6;
  stats_.queue_depth = 7, stats_.in_place = 2, stats_.copies = 8, stats_.bytes_copied = 1'000'000'000'000;
  stats_.fence_waits = 10, stats_.fence_timeouts = 11, stats_.fence_errors = 12;
  stats_.mappings = {.imports = 14, .hits = 13, .entries = 15};
  make();
  const struct {
    const char *field;
    guint64 value;
  } rows[] = {{"frames", 1},        {"inferred", 9},       {"preprocessed", 7},    {"skipped", 3},
              {"dropped", 4},       {"stale", 5},          {"errors", 6},          {"queue-depth", 7},
              {"copies", 8},        {"fence-waits", 10},   {"fence-timeouts", 11}, {"fence-errors", 12},
              {"mapping-hits", 13}, {"mappings-made", 14}, {"mappings", 15},       {"bytes-copied", 1'000'000'000'000}};
  for (const auto &row : rows) EXPECT_EQ(value(row.field), row.value) << row.field;
}

TEST_F(StatsStructure, DurationsAreMicrosecondsToTheNearest) {
  stats_.addRun(1400ns, 1500ns, 2ms, 1);
  stats_.addRun(1400ns, 499ns, 4ms, 1);
  stats_.post.add(1'000'000'000'000); // a quarter of an hour is more than 32 bits of them
  make();
  EXPECT_EQ(value("wait-us"), 3u) << "the sum is rounded, not each";
  EXPECT_EQ(value("wait-p50-us"), 1u);
  EXPECT_EQ(value("pre-us"), 2u);
  EXPECT_EQ(value("pre-p50-us"), 0u);
  EXPECT_EQ(value("pre-p99-us"), 2u);
  EXPECT_EQ(value("infer-us"), 6000u);
  EXPECT_EQ(value("infer-p50-us"), 2000u);
  EXPECT_EQ(value("infer-p95-us"), 4000u);
  EXPECT_EQ(value("post-p99-us"), 1'000'000'000u);
  EXPECT_EQ(value("inferred"), 2u);
}

// Runs of 4, 4 and 1 pictures: 9 pictures in 3 runs.
TEST_F(StatsStructure, TheMeanBatchIsPicturesPerRun) {
  for (const int batch : {4, 4, 4, 4, 1, 4, 4, 4, 4}) stats_.addRun(0ns, 0ns, 1ms, batch);
  make();
  EXPECT_EQ(value("batches"), 3u);
  EXPECT_DOUBLE_EQ(mean(), 3.0);
}

// This element's two pictures of two runs of four that another element filled.
TEST_F(StatsStructure, OfSharedRunsOnlyItsPart) {
  for (int i = 0; i < 2; ++i) stats_.addRun(0ns, 0ns, 1ms, 4);
  make();
  EXPECT_EQ(value("batches"), 1u);
  EXPECT_DOUBLE_EQ(mean(), 4.0);
}

} // namespace
