// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/frame_result.h"

#include <algorithm>
#include <cmath>

namespace gstzc::infer {
namespace {

constexpr double kFarthestPoint = 1e6;

// From here to there on one axis, in pixels of the frame.
struct Interval {
  double begin = 0, end = 0;
};

// The same, rounded.
struct Pixels {
  int first = 0, count = 0;
};

// What lies inside `limits`, none where it is outside or not a number. Clamped before it is made integers: a box may be
// far outside.
Pixels inside(const Interval &span, const Interval &limits) {
  const double begin = std::max(span.begin, limits.begin), end = std::min(span.end, limits.end);
  if (!(begin < end)) return {};
  const int first = static_cast<int>(std::lround(begin));
  return {first, static_cast<int>(std::lround(end)) - first};
}

// From parts of the picture to the frame, which is also what the results must not leave.
class Way {
public:
  Way(const InputPlan &plan, const Mapping &mapping, int frame_width, int frame_height)
      : plan_(plan), mapping_(mapping), across_{0, static_cast<double>(frame_width)},
        down_{0, static_cast<double>(frame_height)} {}

  double x(float part) const { return mapping_.frameX(static_cast<double>(part) * plan_.width); }
  double y(float part) const { return mapping_.frameY(static_cast<double>(part) * plan_.height); }
  Interval across(float left, float right) const { return {x(left), x(right)}; }
  Interval down(float top, float bottom) const { return {y(top), y(bottom)}; }
  const Interval &frameAcross() const { return across_; }
  const Interval &frameDown() const { return down_; }

private:
  const InputPlan &plan_;
  const Mapping &mapping_;
  Interval across_, down_;
};

// For each cell of the new grid over `pixels` the one of `count` over `span` that its centre lies in.
std::vector<size_t> redraw(const Interval &span, int count, const Pixels &pixels) {
  const double cell = (span.end - span.begin) / count;
  // a hair less, so that rounding makes no cell of its own
  const double visible = std::clamp(std::ceil(pixels.count / cell - 1e-3), 1.0, static_cast<double>(count));
  std::vector<size_t> sources(static_cast<size_t>(visible));
  for (size_t i = 0; i < sources.size(); ++i) {
    const double centre = pixels.first + (static_cast<double>(i) + 0.5) * pixels.count / visible;
    sources[i] = static_cast<size_t>(std::clamp((centre - span.begin) / cell, 0.0, count - 1.0));
  }
  return sources;
}

// A grid that covers `across` and `down`, of which only what lies within the limits is kept.
std::optional<FrameMask> gridToFrame(const std::vector<uint8_t> &values, int columns, int rows, const Interval &across,
                                     const Interval &down, const Interval &limit_across, const Interval &limit_down) {
  const Pixels horizontal = inside(across, limit_across), vertical = inside(down, limit_down);
  if (horizontal.count <= 0 || vertical.count <= 0) return {};
  if (columns <= 0 || rows <= 0 || values.size() != static_cast<size_t>(columns) * static_cast<size_t>(rows)) return {};
  const std::vector<size_t> xs = redraw(across, columns, horizontal), ys = redraw(down, rows, vertical);
  FrameMask mask;
  mask.x = horizontal.first;
  mask.y = vertical.first;
  mask.width = horizontal.count;
  mask.height = vertical.count;
  mask.columns = static_cast<int>(xs.size());
  mask.rows = static_cast<int>(ys.size());
  mask.values.reserve(xs.size() * ys.size());
  for (const size_t y : ys)
    for (const size_t x : xs) mask.values.push_back(values[y * static_cast<size_t>(columns) + x]);
  return mask;
}

std::string labelOf(int index, const std::vector<std::string> &labels) {
  return index >= 0 && static_cast<size_t>(index) < labels.size() ? labels[static_cast<size_t>(index)] : std::string();
}

Point pointToFrame(const Point &point, const Way &way) {
  const double x = way.x(point.x), y = way.y(point.y);
  if (std::isnan(x) || std::isnan(y)) return {0, 0, 0};
  const auto near = [](double v) { return static_cast<float>(std::clamp(v, -kFarthestPoint, kFarthestPoint)); };
  return {near(x), near(y), point.score};
}

std::optional<FrameBox> boxToFrame(const Detection &found, const Way &way) {
  const Pixels horizontal = inside(way.across(found.left, found.right), way.frameAcross());
  const Pixels vertical = inside(way.down(found.top, found.bottom), way.frameDown());
  if (horizontal.count <= 0 || vertical.count <= 0) return {};
  FrameBox box;
  box.index = found.label;
  box.score = found.score;
  box.x = horizontal.first;
  box.y = vertical.first;
  box.width = horizontal.count;
  box.height = vertical.count;
  for (const Point &point : found.keypoints) box.keypoints.push_back(pointToFrame(point, way));
  if (found.mask) {
    const PictureRect shown = insidePicture(found);
    box.mask =
        gridToFrame(found.mask->values, found.mask->width, found.mask->height, way.across(shown.left, shown.right),
                    way.down(shown.top, shown.bottom), way.frameAcross(), way.frameDown());
  }
  return box;
}

Interval both(const Interval &a, double begin, double length) {
  return {std::max(a.begin, begin), std::min(a.end, begin + length)};
}

} // namespace

FrameFindings toFrame(const Findings &findings, const std::vector<std::string> &labels, const InputPlan &plan,
                      const Mapping &mapping, int frame_width, int frame_height, const std::optional<Region> &region) {
  const Way way(plan, mapping, frame_width, frame_height);
  FrameFindings result;
  for (const Detection &found : findings.detections) {
    auto box = boxToFrame(found, way);
    if (!box) continue;
    box->label = labelOf(found.label, labels);
    result.boxes.push_back(std::move(*box));
  }
  for (const Classification &found : findings.classifications)
    result.classes.push_back({labelOf(found.label, labels), found.label, found.score});
  if (findings.segmentation) {
    const ClassMap &map = *findings.segmentation;
    const Interval across = region ? both(way.frameAcross(), region->x, region->width) : way.frameAcross();
    const Interval down = region ? both(way.frameDown(), region->y, region->height) : way.frameDown();
    result.segmentation =
        gridToFrame(map.classes, map.width, map.height, way.across(0, 1), way.down(0, 1), across, down);
  }
  return result;
}

} // namespace gstzc::infer
