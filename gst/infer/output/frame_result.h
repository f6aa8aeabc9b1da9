// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model found, in pixels of the frame: the inverse of the preprocessing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gst/infer/decode/findings.h"
#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/preprocess.h"

namespace gstzc::infer {

// A grid of values that divides a rectangle of the frame evenly; the value of a cell is that of its centre.
struct FrameMask {
  int x = 0, y = 0, width = 0, height = 0; // of the rectangle: pixels, inside the frame
  int columns = 0, rows = 0;               // of the grid
  std::vector<uint8_t> values;             // row by row
};

// An object: pixels, clamped to the frame.
struct FrameBox {
  std::string label; // "" where its class has none
  int index = 0;     // of its class
  float score = 0;
  int x = 0, y = 0, width = 0, height = 0;
  std::vector<Point> keypoints;  // pixels, not clamped
  std::optional<FrameMask> mask; // 0: not the object, 255: the object
};

struct FrameClass {
  std::string label;
  int index = 0;
  float score = 0;
};

struct FrameFindings {
  std::vector<FrameBox> boxes;
  std::vector<FrameClass> classes;
  std::optional<FrameMask> segmentation; // values are classes
};

// Findings of a picture that `mapping` was made for.
//
// Boxes: edges are rounded to the next pixel and clamped to the frame; left out is what then has no area, what lies
// outside and what has an edge that is not a number. Points: those that are not numbers become 0,0 with a score of 0;
// the others are kept within a million pixels of the frame's corner, so that they fit integers.
//
// Masks and the segmentation: the rectangle is the part of the picture that they cover, clamped to the frame, and for
// the segmentation to `region`, of which the picture is where it does not show the whole frame: so padding is cut off.
// Where the border goes through a cell, or is rounded to a pixel, the grid is drawn anew over the rectangle, not
// coarser than it was: each cell takes the value of the old one that its centre lies in.
FrameFindings toFrame(const Findings &findings, const std::vector<std::string> &labels, const InputPlan &plan,
                      const Mapping &mapping, int frame_width, int frame_height,
                      const std::optional<Region> &region = {});

} // namespace gstzc::infer
