// SPDX-License-Identifier: LGPL-2.1-or-later
// How results leave the element: on the buffer, as a message.
#pragma once

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

} // namespace gstzc::infer
