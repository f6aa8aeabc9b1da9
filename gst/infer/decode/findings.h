// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model found in one picture. Coordinates are parts of the input picture, 0..1 from its left and top edge; they
// may leave it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace gstzc::infer {

struct Point {
  float x = 0, y = 0;
  float score = 1; // 0..1; 1 where the model says nothing of it
};

// The part of an object's box that is the object, sampled on a grid that evenly divides what of the box lies inside the
// picture, see insidePicture(). The value of a cell is that of its centre.
struct BoxMask {
  int width = 0, height = 0;   // of the grid
  std::vector<uint8_t> values; // row by row; 0: outside, 255: inside
};

// One object.
struct Detection {
  float score = 0; // 0..1
  int label = 0;   // index of its class
  float left = 0, top = 0, right = 0, bottom = 0;
  std::vector<Point> keypoints;
  std::optional<BoxMask> mask;

  // Of any finite box: the product of two floats may be none.
  double area() const {
    return right > left && bottom > top ? (double{right} - double{left}) * (double{bottom} - double{top}) : 0;
  }
};

// A rectangle inside the picture.
struct PictureRect {
  float left = 0, top = 0, right = 0, bottom = 0;
  bool hasArea() const { return right > left && bottom > top; }
};

// Without area where the box is outside or has edges that are not numbers.
inline PictureRect insidePicture(const Detection &box) {
  return {std::max(box.left, 0.0f), std::max(box.top, 0.0f), std::min(box.right, 1.0f), std::min(box.bottom, 1.0f)};
}

// What the picture as a whole shows.
struct Classification {
  float score = 0; // 0..1
  int label = 0;
};

// The class of each cell of a grid that divides the picture evenly.
struct ClassMap {
  int width = 0, height = 0;
  std::vector<uint8_t> classes; // row by row
};

struct Findings {
  std::vector<Detection> detections;           // best first
  std::vector<Classification> classifications; // best first
  std::optional<ClassMap> segmentation;
};

} // namespace gstzc::infer
