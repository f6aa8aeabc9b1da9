// SPDX-License-Identifier: LGPL-2.1-or-later
// Results as a message.
#pragma once

#include <optional>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/output/frame_result.h"

namespace gstzc::infer {

// What a look at the frame, or at one object in it, found.
struct RegionFindings {
  FrameFindings findings;
  std::vector<guint> ids;      // of the boxes' object detections on the buffer (attachFindings()); empty: not attached
  std::optional<guint> object; // the object detection that was looked at; absent: all of the frame
};

// What a message says of the frame.
struct ResultHead {
  guint64 frame = 0; // its number
  int width = 0, height = 0;
  bool fresh = true; // false: found in an older frame
};

// "fenceinfer-result":
//   timestamp (guint64, GST_CLOCK_TIME_NONE where the buffer has none), frame (guint64), width and height of the frame
//   (int), fresh (boolean),
//   detections: GstValueArray of structures "detection": label (string), index (int) of the class, score (double),
//     x, y, w, h (int, pixels); where there are any keypoints: GstValueArray of structures x, y, score (double);
//     id (guint) of the object detection on the buffer, where it is attached,
//   classes: GstValueArray of structures "class": label, index, score, best first.
// Of what was found in an object, each detection and class has object (guint), the id of that object's detection.
GstStructure *resultStructure(const GstBuffer *buffer, const ResultHead &head,
                              const std::vector<RegionFindings> &regions);

} // namespace gstzc::infer
