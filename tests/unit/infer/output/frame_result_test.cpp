// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/frame_result.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "gst/infer/decode/masks.h"

using namespace gstzc::infer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr ResizeMode kModes[] = {ResizeMode::Stretch, ResizeMode::Letterbox, ResizeMode::LetterboxTopLeft,
                                 ResizeMode::Crop};

// A frame and the picture made of it, with the way there: from the modes' definitions, not from mapTensorToFrame().
struct View {
  int frame_width, frame_height;
  InputPlan plan;
  ResizeMode mode;

  Region frame() const { return {0, 0, double(frame_width), double(frame_height)}; }
  Mapping mapping() const { return mapTensorToFrame(plan, frame(), mode); }

  // Part of the picture where the frame's point is, per axis.
  std::pair<double, double> toPicture(double x, double y) const {
    const double sx = double(plan.width) / frame_width, sy = double(plan.height) / frame_height;
    double scale_x = sx, scale_y = sy, pad_x = 0, pad_y = 0;
    if (mode == ResizeMode::Crop) scale_x = scale_y = std::max(sx, sy);
    if (mode == ResizeMode::Letterbox || mode == ResizeMode::LetterboxTopLeft) scale_x = scale_y = std::min(sx, sy);
    if (mode != ResizeMode::LetterboxTopLeft) {
      pad_x = (plan.width - frame_width * scale_x) / 2;
      pad_y = (plan.height - frame_height * scale_y) / 2;
    }
    return {(x * scale_x + pad_x) / plan.width, (y * scale_y + pad_y) / plan.height};
  }
  FrameFindings results(const Findings &findings, const std::vector<std::string> &labels = {}) const {
    return toFrame(findings, labels, plan, mapping(), frame_width, frame_height);
  }
  std::string text() const {
    return std::to_string(frame_width) + "x" + std::to_string(frame_height) + " as " + std::to_string(plan.width) +
           "x" + std::to_string(plan.height) + " mode " + std::to_string(static_cast<int>(mode));
  }
};

std::vector<View> views() {
  const std::pair<int, int> frames[] = {{1920, 1080}, {641, 479}, {333, 777},  {257, 257},
                                        {17, 5},      {1, 1},     {7680, 4321}};
  const std::pair<int, int> pictures[] = {{320, 240}, {257, 257}, {64, 96}, {13, 31}};
  std::vector<View> all;
  for (const auto &[fw, fh] : frames)
    for (const auto &[pw, ph] : pictures)
      for (const ResizeMode mode : kModes) all.push_back({fw, fh, {pw, ph}, mode});
  return all;
}

Detection box(const View &view, double left, double top, double right, double bottom) {
  Detection d;
  d.score = 0.5f;
  const auto [l, t] = view.toPicture(left, top);
  const auto [r, b] = view.toPicture(right, bottom);
  d.left = static_cast<float>(l), d.top = static_cast<float>(t);
  d.right = static_cast<float>(r), d.bottom = static_cast<float>(b);
  return d;
}

Detection boxOfParts(float left, float top, float right, float bottom) {
  Detection d;
  d.left = left, d.top = top, d.right = right, d.bottom = bottom;
  return d;
}

TEST(FrameResult, BoxesToTheEdgeInEveryMode) {
  for (const View &view : views()) {
    const int w = view.frame_width, h = view.frame_height;
    const int corners[][4] = {
        {0, 0, w, h}, {0, 0, (w + 1) / 2, (h + 1) / 2}, {w / 2, h / 2, w, h}, {w - 1, 0, w, h}, {0, h - 1, w, h}};
    for (const auto &c : corners) {
      const auto result = view.results({.detections = {box(view, c[0], c[1], c[2], c[3])}});
      ASSERT_EQ(result.boxes.size(), 1u) << view.text();
      const FrameBox &b = result.boxes[0];
      EXPECT_EQ(b.x, c[0]) << view.text();
      EXPECT_EQ(b.y, c[1]) << view.text();
      EXPECT_EQ(b.x + b.width, c[2]) << view.text();
      EXPECT_EQ(b.y + b.height, c[3]) << view.text();
    }
  }
}

TEST(FrameResult, RandomBoxesAndPointsComeBack) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> part(-0.3, 1.3);
  for (const View &view : views())
    for (int i = 0; i < 50; ++i) {
      double xs[] = {part(random) * view.frame_width, part(random) * view.frame_width};
      double ys[] = {part(random) * view.frame_height, part(random) * view.frame_height};
      std::sort(std::begin(xs), std::end(xs));
      std::sort(std::begin(ys), std::end(ys));
      Detection d = box(view, xs[0], ys[0], xs[1], ys[1]);
      for (const auto &[x, y] : {std::pair{xs[0], ys[1]}, std::pair{xs[1], ys[0]}}) {
        const auto [px, py] = view.toPicture(x, y);
        d.keypoints.push_back({static_cast<float>(px), static_cast<float>(py), 0.25f});
      }
      const auto result = view.results({.detections = {d}});
      // half a pixel of rounding and what a float loses of the frame's size
      const double slack = 0.5 + 1e-5 * std::max(view.frame_width, view.frame_height);
      const auto limited = [](double v, int limit) { return std::clamp(v, 0.0, double(limit)); };
      const double left = limited(xs[0], view.frame_width), right = limited(xs[1], view.frame_width);
      const double top = limited(ys[0], view.frame_height), bottom = limited(ys[1], view.frame_height);
      if (result.boxes.empty()) {
        EXPECT_TRUE(right - left < 1 + slack || bottom - top < 1 + slack) << view.text();
        continue;
      }
      const FrameBox &b = result.boxes[0];
      ASSERT_NEAR(b.x, left, slack) << view.text();
      ASSERT_NEAR(b.x + b.width, right, slack) << view.text();
      ASSERT_NEAR(b.y, top, slack) << view.text();
      ASSERT_NEAR(b.y + b.height, bottom, slack) << view.text();
      ASSERT_EQ(b.keypoints.size(), 2u);
      ASSERT_NEAR(b.keypoints[0].x, xs[0], slack - 0.5 + 1e-3) << view.text(); // not clamped, not rounded
      ASSERT_NEAR(b.keypoints[0].y, ys[1], slack - 0.5 + 1e-3) << view.text();
      ASSERT_NEAR(b.keypoints[1].x, xs[1], slack - 0.5 + 1e-3) << view.text();
      ASSERT_NEAR(b.keypoints[1].y, ys[0], slack - 0.5 + 1e-3) << view.text();
      ASSERT_EQ(b.keypoints[0].score, 0.25f);
    }
}

TEST(FrameResult, RoundingAndClampingTable) {
  const View view{200, 100, {100, 50}, ResizeMode::Stretch}; // 2 pixels of the frame for each of the tensor
  struct {
    float left, right;
    int x, width; // width 0: left out
  } const rows[] = {
      {0.25f, 0.5f, 50, 50},   {0.253f, 0.5f, 51, 49}, {0.252f, 0.5f, 50, 50},  {-1, 2, 0, 200},
      {-1e30f, 1e30f, 0, 200}, {-kInf, kInf, 0, 200},  {0.5f, 0.5f, 0, 0},      {0.5f, 0.501f, 0, 0},
      {0.5f, 0.4f, 0, 0},      {1, 1.5f, 0, 0},        {-2, 0, 0, 0},           {kInf, kInf, 0, 0},
      {kNan, 0.5f, 0, 0},      {0.5f, kNan, 0, 0},     {0.9949f, 1e9f, 199, 1}, {0.999f, 2, 0, 0},
  };
  for (const auto &row : rows) {
    const auto horizontal = view.results({.detections = {boxOfParts(row.left, 0, row.right, 1)}}).boxes;
    const auto vertical = view.results({.detections = {boxOfParts(0, row.left, 1, row.right)}}).boxes;
    ASSERT_EQ(horizontal.size(), row.width > 0 ? 1u : 0u) << row.left << " " << row.right;
    if (horizontal.empty()) continue;
    EXPECT_EQ(horizontal[0].x, row.x) << row.left << " " << row.right;
    EXPECT_EQ(horizontal[0].width, row.width) << row.left << " " << row.right;
    EXPECT_EQ(horizontal[0].height, 100);
    if (!vertical.empty()) {
      EXPECT_LE(vertical[0].y + vertical[0].height, 100);
    }
  }
}

TEST(FrameResult, PointsThatAreNoPlace) {
  const View view{200, 100, {100, 50}, ResizeMode::Stretch};
  Detection d = boxOfParts(0, 0, 1, 1);
  d.keypoints = {{0.5f, -1, 0.5f}, {kNan, 0, 0.9f}, {0, kNan, 0.9f}, {1e30f, -kInf, 0.9f}};
  const auto points = view.results({.detections = {d}}).boxes.at(0).keypoints;
  ASSERT_EQ(points.size(), 4u); // their order is their meaning
  EXPECT_EQ(std::pair(points[0].x, points[0].y), std::pair(100.0f, -100.0f));
  EXPECT_EQ(points[0].score, 0.5f);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(std::pair(points[i].x, points[i].y), std::pair(0.0f, 0.0f));
    EXPECT_EQ(points[i].score, 0);
  }
  EXPECT_EQ(std::pair(points[3].x, points[3].y), std::pair(1e6f, -1e6f));
}

TEST(FrameResult, Labels) {
  const View view{200, 100, {100, 50}, ResizeMode::Stretch};
  Findings findings;
  for (const int label : {1, 2, -1}) {
    findings.detections.push_back(boxOfParts(0, 0, 1, 1));
    findings.detections.back().label = label;
    findings.classifications.push_back({0.5f, label});
  }
  const auto result = view.results(findings, {"a", "b"});
  ASSERT_EQ(result.boxes.size(), 3u);
  ASSERT_EQ(result.classes.size(), 3u);
  const char *const expected[] = {"b", "", ""};
  const int indices[] = {1, 2, -1};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.boxes[i].label, expected[i]);
    EXPECT_EQ(result.boxes[i].index, indices[i]);
    EXPECT_EQ(result.classes[i].label, expected[i]);
    EXPECT_EQ(result.classes[i].index, indices[i]);
    EXPECT_EQ(result.classes[i].score, 0.5f);
  }
  EXPECT_FALSE(result.segmentation);
  EXPECT_FALSE(result.boxes[0].mask);
}

std::vector<uint8_t> randomValues(std::mt19937 &random, int columns, int rows) {
  std::vector<uint8_t> values(static_cast<size_t>(columns) * rows);
  for (uint8_t &v : values) v = static_cast<uint8_t>(random());
  return values;
}

// Each cell's value is that of the source grid at the cell's centre; the source divides left..bottom (parts of the
// picture). A centre within a hair of a border may have the value of either side.
void expectShows(const View &view, const FrameMask &mask, const std::vector<uint8_t> &values, int columns, int rows,
                 const PictureRect &rect) {
  ASSERT_GT(mask.width, 0);
  ASSERT_GT(mask.height, 0);
  ASSERT_GE(mask.x, 0);
  ASSERT_GE(mask.y, 0);
  ASSERT_LE(mask.x + mask.width, view.frame_width) << view.text();
  ASSERT_LE(mask.y + mask.height, view.frame_height) << view.text();
  ASSERT_EQ(mask.values.size(), static_cast<size_t>(mask.columns) * mask.rows);
  for (int row = 0; row < mask.rows; ++row)
    for (int column = 0; column < mask.columns; ++column) {
      const double x = mask.x + (column + 0.5) * mask.width / mask.columns;
      const double y = mask.y + (row + 0.5) * mask.height / mask.rows;
      const auto [px, py] = view.toPicture(x, y);
      const double cx = (px - rect.left) / (double(rect.right) - rect.left) * columns;
      const double cy = (py - rect.top) / (double(rect.bottom) - rect.top) * rows;
      bool found = false;
      for (const double dx : {-1e-3, 1e-3})
        for (const double dy : {-1e-3, 1e-3}) {
          const int i = std::clamp(static_cast<int>(std::floor(cx + dx)), 0, columns - 1);
          const int j = std::clamp(static_cast<int>(std::floor(cy + dy)), 0, rows - 1);
          found = found || values[static_cast<size_t>(j) * columns + i] == mask.values[row * mask.columns + column];
        }
      ASSERT_TRUE(found) << view.text() << " cell " << column << "," << row << " of " << mask.columns << "x"
                         << mask.rows;
    }
}

TEST(FrameResult, MaskCellsShowWhatLiesUnderThem) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> part(-0.4f, 1.4f);
  std::uniform_int_distribution<int> side(1, 40);
  int masks = 0;
  for (const View &view : views())
    for (int i = 0; i < 20; ++i) {
      float xs[] = {part(random), part(random)}, ys[] = {part(random), part(random)};
      Detection d =
          boxOfParts(std::min(xs[0], xs[1]), std::min(ys[0], ys[1]), std::max(xs[0], xs[1]), std::max(ys[0], ys[1]));
      const int columns = side(random), rows = side(random);
      d.mask = BoxMask{columns, rows, randomValues(random, columns, rows)};
      const auto boxes = view.results({.detections = {d}}).boxes;
      if (boxes.empty() || !boxes[0].mask) continue;
      ++masks;
      const FrameMask &mask = *boxes[0].mask;
      EXPECT_GE(mask.x, boxes[0].x) << view.text();
      EXPECT_LE(mask.x + mask.width, boxes[0].x + boxes[0].width) << view.text();
      EXPECT_GE(mask.y, boxes[0].y) << view.text();
      EXPECT_LE(mask.y + mask.height, boxes[0].y + boxes[0].height) << view.text();
      expectShows(view, mask, d.mask->values, columns, rows, insidePicture(d));
    }
  EXPECT_GT(masks, 500);
}

TEST(FrameResult, SegmentationCellsShowWhatLiesUnderThem) {
  std::mt19937 random(6);
  for (const View &view : views())
    for (const auto &[columns, rows] : {std::pair{33, 17}, std::pair{257, 257}, std::pair{2, 2}}) {
      Findings findings;
      findings.segmentation = ClassMap{columns, rows, randomValues(random, columns, rows)};
      const auto result = view.results(findings);
      ASSERT_TRUE(result.segmentation) << view.text();
      expectShows(view, *result.segmentation, findings.segmentation->classes, columns, rows, {0, 0, 1, 1});
      if (view.mode == ResizeMode::Crop) continue;
      // all of the frame, and nothing else
      EXPECT_EQ(result.segmentation->x, 0);
      EXPECT_EQ(result.segmentation->y, 0);
      EXPECT_EQ(result.segmentation->width, view.frame_width) << view.text();
      EXPECT_EQ(result.segmentation->height, view.frame_height) << view.text();
    }
}

FrameMask segment(const View &view, int columns, int rows, std::vector<uint8_t> values) {
  Findings findings;
  findings.segmentation = ClassMap{columns, rows, std::move(values)};
  return view.results(findings).segmentation.value_or(FrameMask{});
}

TEST(FrameResult, SegmentationByHand) {
  const std::vector<uint8_t> four = {0,  1,  2,  3,  //
                                     10, 11, 12, 13, //
                                     20, 21, 22, 23, //
                                     30, 31, 32, 33};
  FrameMask map = segment({400, 200, {8, 8}, ResizeMode::Stretch}, 4, 4, four);
  EXPECT_EQ(map.values, four);
  EXPECT_EQ(map.width, 400);
  EXPECT_EQ(map.height, 200);

  map = segment({400, 200, {8, 8}, ResizeMode::Letterbox}, 4, 4, four); // the two rows in the middle
  EXPECT_EQ(map.values, (std::vector<uint8_t>{10, 11, 12, 13, 20, 21, 22, 23}));
  EXPECT_EQ(map.rows, 2);
  EXPECT_EQ(map.height, 200);

  map = segment({200, 400, {8, 8}, ResizeMode::LetterboxTopLeft}, 4, 4, four); // the two columns on the left
  EXPECT_EQ(map.values, (std::vector<uint8_t>{0, 1, 10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(map.columns, 2);
  EXPECT_EQ(map.width, 200);

  map = segment({400, 200, {8, 8}, ResizeMode::Crop}, 4, 4, four); // the square in the middle of the frame
  EXPECT_EQ(map.values, four);
  EXPECT_EQ(map.x, 100);
  EXPECT_EQ(map.y, 0);
  EXPECT_EQ(map.width, 200);
  EXPECT_EQ(map.height, 200);

  // 3 of 4 rows: the padding's border goes through the first and the last cell, whose centres it leaves out
  map = segment({400, 250, {8, 8}, ResizeMode::Letterbox}, 4, 4, four);
  EXPECT_EQ(map.rows, 3); // 2.5 rows, from 0.75 to 3.25: centres of thirds at 1.17, 2 and 2.83
  EXPECT_EQ(map.height, 250);
  EXPECT_EQ(map.values, (std::vector<uint8_t>{10, 11, 12, 13, 20, 21, 22, 23, 20, 21, 22, 23}));
}

TEST(FrameResult, MaskOfABoxThatLeavesTheFrame) {
  // letterbox of 400x200 in a square: the frame is the parts 0.25 to 0.75 from the top
  const View view{400, 200, {8, 8}, ResizeMode::Letterbox};
  Detection d = boxOfParts(0, 0, 0.5f, 0.5f);
  d.mask = BoxMask{2, 4, {1, 2, 3, 4, 5, 6, 7, 8}};
  const auto boxes = view.results({.detections = {d}}).boxes;
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].width, 200);
  EXPECT_EQ(boxes[0].height, 100);
  ASSERT_TRUE(boxes[0].mask);
  EXPECT_EQ(boxes[0].mask->values, (std::vector<uint8_t>{5, 6, 7, 8})); // the lower half of the mask
  EXPECT_EQ(boxes[0].mask->y, 0);
  EXPECT_EQ(boxes[0].mask->height, 100);
  EXPECT_EQ(boxes[0].mask->width, 200);
}

TEST(FrameResult, MaskEndsWhereACroppedPictureEnds) {
  // the picture is the frame's middle, 100 to 300; the box goes on to the frame's right edge, the mask cannot
  const View view{400, 200, {8, 8}, ResizeMode::Crop};
  Detection d = box(view, 200, 0, 400, 200);
  d.mask = BoxMask{2, 1, {255, 0}};
  const auto boxes = view.results({.detections = {d}}).boxes;
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].x + boxes[0].width, 400);
  ASSERT_TRUE(boxes[0].mask);
  EXPECT_EQ(boxes[0].mask->x, 200);
  EXPECT_EQ(boxes[0].mask->width, 100);
  EXPECT_EQ(boxes[0].mask->values, (std::vector<uint8_t>{255, 0}));
}

TEST(FrameResult, GridsThatAreNone) {
  const View view{400, 200, {8, 8}, ResizeMode::Stretch};
  EXPECT_TRUE(segment(view, 2, 2, {1, 2, 3}).values.empty());
  EXPECT_TRUE(segment(view, 0, 0, {}).values.empty());
  EXPECT_TRUE(segment(view, -1, -1, {1}).values.empty());
  Detection d = boxOfParts(0, 0, 1, 1);
  d.mask = BoxMask{3, 3, {}};
  EXPECT_FALSE(view.results({.detections = {d}}).boxes.at(0).mask);
}

// A disc in the frame, seen by a model whose prototypes say how far from it each place is, comes back as that disc.
TEST(FrameResult, MasksFromPrototypesAreWhereTheObjectIs) {
  for (const View &view : views()) {
    if (view.frame_width < 200 || view.plan.width < 64) continue;
    const double cx = view.frame_width * 0.55, cy = view.frame_height * 0.45;
    const double radius = 0.4 * std::min(view.frame_width, view.frame_height);
    const int w = view.plan.width / 2, h = view.plan.height / 2;
    const Mapping mapping = view.mapping();
    std::vector<float> inside(static_cast<size_t>(w) * h);
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x)
        inside[static_cast<size_t>(y) * w + x] =
            static_cast<float>(radius - std::hypot(mapping.frameX((x + 0.5) * view.plan.width / w) - cx,
                                                   mapping.frameY((y + 0.5) * view.plan.height / h) - cy));
    const TensorView prototypes{TensorType::Float32, {1, 1, h, w}, inside.data(), inside.size() * 4, MemorySpace::Host};
    Detection d = box(view, cx - radius, cy - radius, cx + radius, cy + radius);
    const std::vector<float> one = {1};
    d.mask = maskOf(one, prototypes, d);
    const auto boxes = view.results({.detections = {d}}).boxes;
    ASSERT_EQ(boxes.size(), 1u) << view.text();
    ASSERT_TRUE(boxes[0].mask) << view.text();
    const FrameMask &mask = *boxes[0].mask;
    // a cell of the prototypes in the frame; on the disc's edge the sampled one may differ by about one
    const double cell = std::hypot(mapping.step_x * view.plan.width / w, mapping.step_y * view.plan.height / h);
    for (int row = 0; row < mask.rows; ++row)
      for (int column = 0; column < mask.columns; ++column) {
        const double x = mask.x + (column + 0.5) * mask.width / mask.columns;
        const double y = mask.y + (row + 0.5) * mask.height / mask.rows;
        const double depth = radius - std::hypot(x - cx, y - cy);
        if (std::abs(depth) < cell + 1) continue;
        ASSERT_EQ(mask.values[static_cast<size_t>(row) * mask.columns + column], depth > 0 ? 255 : 0)
            << view.text() << " at " << x << "," << y;
      }
  }
}

TEST(FrameResult, ARegionOfTheFrame) {
  const InputPlan plan{100, 100};
  // the lower right quarter of 400x200 and as much beyond it
  const Region region{300, 150, 200, 100};
  const Mapping mapping = mapTensorToFrame(plan, region, ResizeMode::Stretch);
  Findings findings;
  findings.detections = {boxOfParts(0, 0, 1, 1), boxOfParts(0.6f, 0, 1, 1), boxOfParts(-0.25f, 0.1f, 0.25f, 0.2f)};
  findings.segmentation = ClassMap{4, 2, {0, 1, 2, 3, 4, 5, 6, 7}};
  const auto result = toFrame(findings, {}, plan, mapping, 400, 200, region);
  ASSERT_EQ(result.boxes.size(), 2u); // the second lies beyond the frame
  EXPECT_EQ(result.boxes[0].x, 300);
  EXPECT_EQ(result.boxes[0].width, 100);
  EXPECT_EQ(result.boxes[0].height, 50);
  EXPECT_EQ(result.boxes[1].x, 250); // boxes may leave the region
  EXPECT_EQ(result.boxes[1].width, 100);
  ASSERT_TRUE(result.segmentation);
  EXPECT_EQ(result.segmentation->values, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(result.segmentation->x, 300);
  EXPECT_EQ(result.segmentation->width, 100);

  // letterboxed, the padding lies in the frame, but not in the region
  const Region wide{100, 50, 200, 100};
  findings = {};
  findings.segmentation = ClassMap{2, 4, {0, 1, 2, 3, 4, 5, 6, 7}};
  const auto boxed = toFrame(findings, {}, plan, mapTensorToFrame(plan, wide, ResizeMode::Letterbox), 400, 200, wide);
  ASSERT_TRUE(boxed.segmentation);
  EXPECT_EQ(boxed.segmentation->values, (std::vector<uint8_t>{2, 3, 4, 5}));
  EXPECT_EQ(boxed.segmentation->y, 50);
  EXPECT_EQ(boxed.segmentation->height, 100);
  EXPECT_EQ(boxed.segmentation->x, 100);
  EXPECT_EQ(boxed.segmentation->width, 200);

  // entirely outside, and without a size
  for (const Region &none : {Region{500, 0, 10, 10}, Region{100, 50, 0, 0}}) {
    findings.detections = {boxOfParts(0, 0, 1, 1)};
    const auto nothing = toFrame(findings, {}, plan, mapTensorToFrame(plan, none, ResizeMode::Stretch), 400, 200, none);
    EXPECT_TRUE(nothing.boxes.empty());
    EXPECT_FALSE(nothing.segmentation);
  }
}

} // namespace
