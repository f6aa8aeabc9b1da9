// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<size_t> rowsOf(std::vector<Candidate> list) {
  std::vector<size_t> rows;
  for (const Candidate &c : list) rows.push_back(c.row);
  return rows;
}

TEST(Candidates, ThresholdAndOrder) {
  Candidates candidates(0.5f);
  candidates.offer(0.5f, 3, 0);
  candidates.offer(std::nextafter(0.5f, 0.0f), 0, 1);
  candidates.offer(0.9f, 1, 2);
  candidates.offer(kNan, 0, 3);
  candidates.offer(kInf, 0, 4);
  candidates.offer(-kInf, 0, 5);
  candidates.offer(0.5f, 2, 6);
  candidates.offer(1.5f, 2, 7);
  const auto list = candidates.take();
  EXPECT_EQ(rowsOf(list), (std::vector<size_t>{7, 2, 0, 6}));
  EXPECT_EQ(list[2].label, 3);
  EXPECT_TRUE(candidates.take().empty());
}

TEST(Candidates, AThresholdThatIsNoNumberTakesNothing) {
  Candidates candidates(kNan);
  candidates.offer(1, 0, 0);
  EXPECT_TRUE(candidates.take().empty());
}

TEST(Candidates, TheBestStayHoweverManyCome) {
  constexpr size_t many = 10 * Candidates::kMost + 17;
  const auto score = [](size_t row) { return static_cast<float>(row * 7919 % 100003) / 100003; }; // all different
  std::vector<std::pair<float, size_t>> expected;
  Candidates candidates(0);
  for (size_t row = 0; row < many; ++row) {
    candidates.offer(score(row), 0, row);
    expected.push_back({score(row), row});
  }
  std::sort(expected.rbegin(), expected.rend());
  const auto list = candidates.take();
  ASSERT_EQ(list.size(), Candidates::kMost);
  for (size_t i = 0; i < list.size(); ++i) ASSERT_EQ(list[i].row, expected[i].second) << i;
}

TEST(Candidates, OfManyEqualOnesTheFirstStay) {
  Candidates candidates(0.25f);
  for (size_t row = 0; row < 5 * Candidates::kMost; ++row) candidates.offer(0.75f, 0, row);
  const auto list = candidates.take();
  ASSERT_EQ(list.size(), Candidates::kMost);
  for (size_t i = 0; i < list.size(); ++i) ASSERT_EQ(list[i].row, i);
}

struct Corners {
  float left, top, right, bottom;
};

std::vector<Detection> make(const std::vector<Corners> &boxes, DecodeOptions options,
                            Suppression suppression = Suppression::PerClass) {
  Candidates candidates(options.threshold);
  for (size_t i = 0; i < boxes.size(); ++i) candidates.offer(1.0f - 0.01f * static_cast<float>(i), 0, i);
  const auto box = [&](size_t row, Detection &object) {
    object.left = boxes[row].left, object.top = boxes[row].top;
    object.right = boxes[row].right, object.bottom = boxes[row].bottom;
  };
  const auto finish = [](size_t row, Detection &object) { object.keypoints = {{static_cast<float>(row), 0}}; };
  return makeDetections(std::move(candidates), options, box, finish, suppression);
}

TEST(MakeDetections, BoxesThatAreNoneAreLeftOut) {
  const auto found = make({{0, 0, 1, 1},
                           {kNan, 0, 1, 1},
                           {0, kNan, 1, 1},
                           {0, 0, kInf, 1},
                           {-kInf, 0, 1, 1},
                           {5, 5, 5, 6},
                           {5, 6, 6, 6},
                           {8, 5, 7, 6},
                           {5, 8, 6, 7},
                           {2, 2, 3, 3}},
                          {.threshold = 0.1f});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FLOAT_EQ(found[0].left, 0);
  EXPECT_FLOAT_EQ(found[1].left, 2);
  EXPECT_FLOAT_EQ(found[1].keypoints[0].x, 9); // finished by its own row
}

TEST(MakeDetections, SuppressionAndItsLimits) {
  const std::vector<Corners> boxes = {{0, 0, 1, 1}, {0, 0, 1, 1}, {4, 0, 5, 1}, {6, 0, 7, 1}};
  EXPECT_EQ(make(boxes, {}).size(), 3u);
  EXPECT_EQ(make(boxes, {.max_detections = 2}).size(), 2u);
  EXPECT_EQ(make(boxes, {.max_detections = 0}).size(), 0u);
  EXPECT_EQ(make(boxes, {.max_detections = -1}).size(), 0u);
  EXPECT_EQ(make(boxes, {}, Suppression::None).size(), 4u);
  const auto two = make(boxes, {.max_detections = 2}, Suppression::None);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_FLOAT_EQ(two[1].left, 0);
}

TEST(MakeDetections, OnlyWhatHasAPlaceAndScoresEndAtOne) {
  Candidates candidates(0.5f);
  candidates.offer(1.25f, 4, 0);
  candidates.offer(0.75f, 5, 1);
  const auto found = makeDetections(std::move(candidates), {}, [](size_t row, Detection &object) {
    object.right = object.bottom = 1;
    object.keypoints = {{0, row == 0 ? 0 : std::numeric_limits<float>::infinity()}};
  });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found[0].score, 1);
  EXPECT_EQ(found[0].label, 4);
}

} // namespace
