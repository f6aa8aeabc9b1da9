// SPDX-License-Identifier: LGPL-2.1-or-later
// A negotiation in words, together with what the engine knows of the display.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gst/drm/profile/json_writer.h"
#include "display_source.h"
#include "explanation.h"
#include "negotiation.h"

namespace gstzc::inspect {

struct NegotiationReport {
  Negotiation negotiation;
  // Of the caps that the display took, or of those it was offered where it took none.
  std::vector<ExplainedFrame> frames;
  std::string not_explained; // why the caps stand for no frames, or for too many
  std::string summary;       // one line: "NV12 linear 640x480 on plane 31 (primary)", or why not
};

Result<NegotiationReport> report(Fragment fragment, const DisplayRequest &request, const DisplaySource &source,
                                 unsigned timeout_s);

const char *verdictName(Negotiation::Verdict verdict); // "possible"

std::string toText(const std::string &fragment, const DisplaySource &source, const NegotiationReport &report);
void writeReport(JsonWriter *json, const std::string &fragment, const DisplaySource &source,
                 const NegotiationReport &report);

} // namespace gstzc::inspect
