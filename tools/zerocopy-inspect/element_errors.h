// SPDX-License-Identifier: LGPL-2.1-or-later
// What elements post on their pipeline's bus when they fail, and which of it is the cause.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

namespace gstzc::inspect {

struct ElementMessage {
  std::string element, text, debug; // as the element posted them
};

struct Posted {
  ElementMessage message;
  bool from_sink = false;
  bool flow = false;        // "Internal data stream error": what follows, not a cause
  bool negotiation = false; // caps were not agreed on
  bool refusal = false;     // why the sink took no proposal: the report of the links says it
  bool state = false;       // a change of state failed: for a reason that another error has

  // A reason of the fragment's own, such as a file that is not there.
  bool own() const { return !from_sink && !flow && !negotiation && !state; }
};

// The next error, waited for so long at most. Borrowed: the bus and the sink whose errors are to be told apart.
std::optional<Posted> popError(GstBus *bus, GstElement *sink, std::chrono::milliseconds wait);

// Each once, causes before what follows from them.
std::vector<ElementMessage> inOrder(std::vector<Posted> posted);

// "filesrc0 fails: Resource not found." of the first error that is the fragment's own, "" where there is none.
std::string ownFailure(const std::vector<Posted> &posted);

} // namespace gstzc::inspect
