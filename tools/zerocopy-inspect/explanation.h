// SPDX-License-Identifier: LGPL-2.1-or-later
// The engine's answer about a display and caps.
#pragma once

#include <string>
#include <vector>

#include <gst/gst.h>

#include "command_line.h"
#include "display_source.h"
#include "gst/drm/profile/json_writer.h"
#include "gst/drm/negotiate/explain.h"
#include "gst/drm/sink_caps.h"

namespace gstzc::inspect {

struct ExplainedFrame {
  CapsNeed frame;
  Explanation explanation;
};

// One for each frame the caps stand for, in their order; errors of needsOfCaps(). `target`: its size on the display.
Result<std::vector<ExplainedFrame>> explainFrames(const DisplaySource &source, const GstCaps *caps, Size target = {});

// "NV12 I915_4_TILED on plane 31 (primary)"
std::string choiceText(const DisplaySource &source, const Option &choice);

void writeExplanation(JsonWriter *json, const DisplaySource &source, const ExplainedFrame &frame);

} // namespace gstzc::inspect
