// SPDX-License-Identifier: LGPL-2.1-or-later
// How results leave the element: on the buffer, as a message, as statistics.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/inference.h"

namespace gstzc::infer {

// Adds the boxes as object detections to the buffer's analytics metadata, which is made where there is none; also
// without boxes, so that "looked and found nothing" differs from "did not look".
void attachBoxes(GstBuffer *buffer, const std::vector<FrameBox> &boxes);

// "fenceinfer-result": timestamp (guint64, GST_CLOCK_TIME_NONE where the buffer has none), frame (guint64), width and
// height of the frame (int), detections (GstValueArray of structures with label, score, x, y, w, h).
GstStructure *resultStructure(const GstBuffer *buffer, guint64 frame, int width, int height,
                              const std::vector<FrameBox> &boxes);

// Total and percentiles of the newest durations.
class Durations {
public:
  void add(guint64 ns);
  guint64 total() const { return total_; }
  guint64 percentile(int percent) const; // 0 without samples

private:
  std::array<guint64, 256> ring_ = {};
  size_t count_ = 0;
  guint64 total_ = 0;
};

} // namespace gstzc::infer
