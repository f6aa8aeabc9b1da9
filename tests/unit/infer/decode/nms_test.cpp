// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/nms.h"

#include <limits>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

Detection box(float score, int label, float left, float top, float right, float bottom) {
  Detection d;
  d.score = score;
  d.label = label;
  d.left = left, d.top = top, d.right = right, d.bottom = bottom;
  return d;
}

TEST(Suppress, Table) {
  constexpr size_t all = 100;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    const char *name;
    std::vector<Detection> boxes;
    float iou;
    size_t most;
    bool class_aware;
    std::vector<float> kept; // scores
  } rows[] = {
      {"nothing", {}, 0.5f, all, true, {}},
      {"the better of two", {box(0.6f, 0, 0, 0, 10, 10), box(0.9f, 0, 1, 0, 11, 10)}, 0.5f, all, true, {0.9f}},
      {"of two classes both", {box(0.6f, 0, 0, 0, 10, 10), box(0.9f, 1, 0, 0, 10, 10)}, 0.5f, all, true, {0.9f, 0.6f}},
      {"classes do not count", {box(0.6f, 0, 0, 0, 10, 10), box(0.9f, 1, 0, 0, 10, 10)}, 0.5f, all, false, {0.9f}},
      // IoU 50 / 150
      {"at the threshold both stay",
       {box(0.9f, 0, 0, 0, 10, 10), box(0.8f, 0, 5, 0, 15, 10)},
       1.0f / 3,
       all,
       true,
       {0.9f, 0.8f}},
      {"above it one", {box(0.9f, 0, 0, 0, 10, 10), box(0.8f, 0, 5, 0, 15, 10)}, 0.33f, all, true, {0.9f}},
      // the second is taken away by the first, so it does not take the third
      {"what is gone takes nothing",
       {box(0.9f, 0, 0, 0, 10, 10), box(0.8f, 0, 4, 0, 14, 10), box(0.7f, 0, 8, 0, 18, 10)},
       0.4f,
       all,
       true,
       {0.9f, 0.7f}},
      {"no more than asked for",
       {box(0.1f, 0, 0, 0, 1, 1), box(0.9f, 0, 2, 0, 3, 1), box(0.5f, 0, 4, 0, 5, 1)},
       0.5f,
       2,
       true,
       {0.9f, 0.5f}},
      {"none asked for", {box(0.9f, 0, 0, 0, 1, 1)}, 0.5f, 0, true, {}},
      {"without area", {box(0.9f, 0, 1, 1, 1, 5), box(0.8f, 0, 1, 1, 1, 5)}, 0.5f, all, true, {0.9f, 0.8f}},
      {"inside out", {box(0.9f, 0, 5, 5, 1, 1), box(0.8f, 0, 0, 0, 6, 6)}, 0.0f, all, true, {0.9f, 0.8f}},
      {"threshold 1 keeps what is the same",
       {box(0.9f, 0, 0, 0, 1, 1), box(0.8f, 0, 0, 0, 1, 1)},
       1.0f,
       all,
       true,
       {0.9f, 0.8f}},
      {"threshold 0 takes what touches by a hair",
       {box(0.9f, 0, 0, 0, 1, 1), box(0.8f, 0, 0.999f, 0, 2, 1)},
       0.0f,
       all,
       true,
       {0.9f}},
      {"neighbours do not overlap",
       {box(0.9f, 0, 0, 0, 1, 1), box(0.8f, 0, 1, 0, 2, 1)},
       0.0f,
       all,
       true,
       {0.9f, 0.8f}},
      {"not a number overlaps nothing",
       {box(0.9f, 0, nan, 0, 1, 1), box(0.8f, 0, 0, 0, 1, 1)},
       0.5f,
       all,
       true,
       {0.9f, 0.8f}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.name);
    std::vector<float> scores;
    for (const Detection &d : suppress(row.boxes, row.iou, row.most, row.class_aware)) scores.push_back(d.score);
    EXPECT_EQ(scores, row.kept);
  }
}

TEST(Suppress, EqualScoresKeepTheirOrder) {
  std::vector<Detection> boxes;
  for (int i = 0; i < 40; ++i)
    boxes.push_back(box(0.5f, 0, static_cast<float>(2 * i), 0, static_cast<float>(2 * i + 1), 1));
  const auto kept = suppress(boxes, 0.5f, 100);
  ASSERT_EQ(kept.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_FLOAT_EQ(kept[i].left, static_cast<float>(2 * i));
}

TEST(Suppress, TheFirstOfEqualOnesStays) {
  const auto kept = suppress({box(0.5f, 0, 0, 0, 10, 10), box(0.5f, 0, 1, 0, 11, 10)}, 0.5f, 100);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_FLOAT_EQ(kept[0].left, 0);
}

TEST(Suppress, KeypointsAndMasksStayWithTheirBox) {
  Detection a = box(0.6f, 0, 0, 0, 10, 10), b = box(0.9f, 0, 20, 0, 30, 10);
  a.keypoints = {{1, 2, 0.5f}};
  b.mask = BoxMask{1, 1, {255}};
  const auto kept = suppress({a, b}, 0.5f, 100);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(kept[0].mask && kept[0].keypoints.empty());
  ASSERT_EQ(kept[1].keypoints.size(), 1u);
  EXPECT_FLOAT_EQ(kept[1].keypoints[0].y, 2);
}

TEST(Survivors, AreIndicesOfWhatIsSorted) {
  const std::vector<Detection> sorted = {box(0.9f, 0, 0, 0, 10, 10), box(0.8f, 0, 1, 0, 11, 10),
                                         box(0.7f, 1, 1, 0, 11, 10), box(0.6f, 0, 50, 0, 60, 10)};
  EXPECT_EQ(survivors(sorted, 0.5f, 100), (std::vector<size_t>{0, 2, 3}));
  EXPECT_EQ(survivors(sorted, 0.5f, 100, false), (std::vector<size_t>{0, 3}));
  EXPECT_EQ(survivors(sorted, 0.5f, 2), (std::vector<size_t>{0, 2}));
}

} // namespace
