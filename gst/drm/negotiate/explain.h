// SPDX-License-Identifier: LGPL-2.1-or-later
// Why a frame is shown the way it is, or not at all, in sentences: for zerocopy-inspect and for error messages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/profile/device_profile.h"

namespace gstzc {

struct ExplainStep {
  enum class Outcome { Fine, Refused, Open }; // Open: TEST_ONLY would have to say
  Outcome outcome = Outcome::Fine;
  std::optional<size_t> plane; // that the step is about; nothing: the device or the frame
  std::string subject;         // "plane 4 (overlay, Esmart0)", "frame"
  std::string sentence;
};

struct Explanation {
  bool shown = false;           // also where TEST_ONLY would have to agree
  std::optional<Option> choice; // of `shown`
  std::vector<ExplainStep> steps;
  std::vector<Refusal> refusals;     // of planes, in the engine's order; TestOnly where a profile has TEST_ONLY's part
  std::string verdict;               // where it is shown; or the refusal, what is possible, the remedy
  std::string refusal, remedy;       // of what is not shown, without a full stop
  std::vector<NearMiss> near_misses; // of what is not shown
};

// Runs propose() and, for a described device, asks testPlane() about each option in its order: the first that is not
// refused is the choice. Without need.target the frame is shown pixel for pixel.
Explanation explain(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures);
Explanation explain(const DeviceProfile &profile, size_t crtc, const FrameNeed &need, const FailureMemory &failures);

// The text of an explanation, one line a step.
std::string toText(const Explanation &explanation);

} // namespace gstzc
