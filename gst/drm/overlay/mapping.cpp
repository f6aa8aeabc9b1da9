// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/mapping.h"

#include <algorithm>
#include <cmath>

namespace gstzc {
namespace {

constexpr double kMost = 1 << 28; // a model may say anything

} // namespace

OverlayMapping::Point OverlayMapping::point(double x, double y) const {
  double u = (x - source_.x) / std::max(source_.width, 1), v = (y - source_.y) / std::max(source_.height, 1);
  if ((rotation_ & DRM_MODE_REFLECT_X) != 0) u = 1 - u;
  if ((rotation_ & DRM_MODE_REFLECT_Y) != 0) v = 1 - v;
  Point result;
  switch (rotation_ & DRM_MODE_ROTATE_MASK) { // counter-clockwise, as KMS has it
  case DRM_MODE_ROTATE_90: result = {v, 1 - u}; break;
  case DRM_MODE_ROTATE_180: result = {1 - u, 1 - v}; break;
  case DRM_MODE_ROTATE_270: result = {1 - v, u}; break;
  default: result = {u, v};
  }
  return {result.x * width_, result.y * height_};
}

Rect OverlayMapping::rect(const Rect &area) const {
  if (isEmpty(area)) return {};
  const Point a = point(area.x, area.y);
  const Point b = point(static_cast<double>(area.x) + area.width, static_cast<double>(area.y) + area.height);
  const auto edge = [](double v) { return static_cast<int>(std::lround(std::clamp(v, -kMost, kMost))); };
  const int left = edge(std::min(a.x, b.x)), right = edge(std::max(a.x, b.x));
  const int top = edge(std::min(a.y, b.y)), bottom = edge(std::max(a.y, b.y));
  if (right <= left || bottom <= top) return {};
  return {left, top, right - left, bottom - top};
}

Rect intersection(const Rect &a, const Rect &b) {
  const int left = std::max(a.x, b.x), top = std::max(a.y, b.y);
  const int right = std::min(a.x + a.width, b.x + b.width), bottom = std::min(a.y + a.height, b.y + b.height);
  if (right <= left || bottom <= top) return {};
  return {left, top, right - left, bottom - top};
}

Rect bounding(const Rect &a, const Rect &b) {
  if (isEmpty(a)) return b;
  if (isEmpty(b)) return a;
  const int left = std::min(a.x, b.x), top = std::min(a.y, b.y);
  return {left, top, std::max(a.x + a.width, b.x + b.width) - left, std::max(a.y + a.height, b.y + b.height) - top};
}

} // namespace gstzc
