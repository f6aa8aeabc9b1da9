// SPDX-License-Identifier: LGPL-2.1-or-later
// Real negotiation between a launch fragment and a sink: what each link's two sides answer, what they agree on, and
// where it ends where they do not.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "caps_text.h"
#include "element_errors.h"
#include "fragment.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::inspect {

struct LinkReport {
  std::string source, sink; // "videotestsrc0.src"
  Caps upstream;            // what the source pad answers: all that everything before it can deliver
  Caps downstream;          // what the sink pad answers: all that everything behind it can take
  Caps common;
  Caps offered; // the last caps that were sent over the link, none before
  Caps agreed;  // those the sink side took
};

struct Negotiation {
  enum class Verdict {
    Possible,
    Impossible, // the two sides have nothing in common, or one refused what came
    Untried,    // something else failed before it was known
  };
  Verdict verdict = Verdict::Untried;
  std::vector<LinkReport> links;      // those on the way to the sink, the first source's first
  std::optional<size_t> failed;       // where it became impossible, as far as it shows
  std::string why;                    // a sentence; of Possible empty
  std::vector<ElementMessage> errors; // causes first, else in the order they came
  size_t frames = 0;                  // that came to the sink
  bool placeholders = false;          // frames in memory of another kind than their caps say: not handed to the sink
  bool live = false;
  std::string configuration; // the sink's property, where it has one
  Caps caps;                 // that the sink took
};

// A new sink, floating; errors are the user's to see.
using MakeSink = std::function<Result<GstElement *>()>;

// Errors: a sink that does not open. The answer comes when `timeout` is over at the latest, and a second later where
// elements hang: in their streaming, in a change of state, in an answer. Those stay behind in a thread of their own
// that lets go of them when they end.
Result<Negotiation> negotiate(Fragment fragment, const MakeSink &make_sink, std::chrono::milliseconds timeout);

// Elements of an earlier negotiation still hang, for so long at least. Then nothing may be taken down at the process's
// end: leave with _exit().
bool elementsHang(std::chrono::milliseconds wait = std::chrono::milliseconds(0));

// The first link whose sides have nothing in common though each has something; behind an element that only passes on
// what both sides say, as it is not the cause, the link after it. Else the first with nothing in common.
std::optional<size_t> firstGap(const std::vector<LinkReport> &links);

} // namespace gstzc::inspect
