// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/explain.h"

#include <cstring>

#include <drm_fourcc.h>

namespace gstzc {
namespace {

using Outcome = ExplainStep::Outcome;

std::string openText(const OpenQuestions &open) {
  std::string text;
  const auto add = [&](bool is, const char *what) {
    if (is) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(open.size, "its largest size");
  add(open.scaling, "that scaling");
  add(open.odd, "sides that split a chroma sample");
  return text;
}

std::string fineText(const KmsSnapshot &snapshot, const Option &option) {
  std::string text = "takes " + toString({option.format.fourcc, DRM_FORMAT_MOD_LINEAR}) + " " +
                     layoutName(option.format.modifier) + " in " + std::to_string(option.memory_planes) +
                     (option.memory_planes == 1 ? " memory plane" : " memory planes");
  if (option.scaling != Scaling::None) text += std::string(", scaling ") + scalingName(option.scaling);
  if (!snapshot.planes[option.plane].has_in_formats) text += "; the driver has no modifiers";
  return text;
}

void addFrame(Explanation &e, const FrameNeed &need) {
  std::string text = describeNeed(need);
  const LayoutTier tier = layoutTier(need.format.modifier);
  text += std::string(", ") + tierName(tier);
  if (tier != LayoutTier::Implicit)
    text += ", " + std::to_string(memoryPlanes(need.format)) +
            (memoryPlanes(need.format) == 1 ? " memory plane" : " memory planes");
  e.steps.push_back({Outcome::Fine, std::nullopt, "frame", text});
}

PlaneTest testOf(const FrameNeed &need, const Option &option) {
  PlaneTest test;
  test.plane = option.plane;
  test.format = need.format;
  test.source = need.source();
  test.rotation = option.rotation;
  test.buffer_width = need.width;
  test.buffer_height = need.height;
  test.target = {0, 0, need.target_width, need.target_height};
  if (need.target_width <= 0 || need.target_height <= 0) {
    test.target.width = test.source.width;
    test.target.height = test.source.height;
    if (need.rotation & (DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270)) std::swap(test.target.width, test.target.height);
  }
  return test;
}

Explanation run(const KmsSnapshot &snapshot, const DeviceProfile *profile, size_t crtc, const FrameNeed &need,
                const FailureMemory &failures) {
  Explanation e;
  addFrame(e, need);
  if (crtc >= snapshot.crtcs.size()) {
    e.steps.push_back({Outcome::Refused, std::nullopt, "device", "has no such CRTC"});
    e.refusal = "the device has no such CRTC";
    e.verdict = "Not shown: " + e.refusal + ".";
    return e;
  }
  std::vector<Refusal> &refusals = e.refusals;
  const std::vector<Option> options = propose(snapshot, crtc, need, failures, &refusals);
  // in the device's order of planes, as people look for them; options after that, in the order of preference
  for (size_t i = 0; i < snapshot.planes.size(); ++i)
    for (const Refusal &r : refusals) {
      if (r.plane != i || r.reason == RefusalReason::NotOnThisCrtc) continue;
      const std::string name = planeName(snapshot.planes[i]);
      e.steps.push_back({Outcome::Refused, i, name, r.sentence.substr(std::min(r.sentence.size(), name.size() + 1))});
    }
  for (const Option &option : options) {
    const std::string name = planeName(snapshot.planes[option.plane]);
    std::string text = fineText(snapshot, option);
    if (profile != nullptr && need.width > 0 && need.height > 0) {
      const PlaneVerdict verdict = testPlane(*profile, testOf(need, option));
      if (verdict.error != 0) {
        e.steps.push_back({Outcome::Refused, option.plane, name,
                           text + ", but TEST_ONLY refuses it (" + errnoName(verdict.error) + "): " + verdict.why});
        refusals.push_back(
            {option.plane, RefusalReason::TestOnly, name + " is refused by TEST_ONLY: " + verdict.why, verdict.error});
        continue;
      }
    }
    if (option.open.any()) text += "; TEST_ONLY has to say whether it takes " + openText(option.open);
    e.steps.push_back({option.open.any() ? Outcome::Open : Outcome::Fine, option.plane, name, text});
    if (e.choice) continue;
    e.choice = option;
    e.shown = true;
  }
  if (e.choice) {
    e.verdict = "Shown on " + planeName(snapshot.planes[e.choice->plane]) +
                (e.choice->open.any() ? ", if TEST_ONLY agrees." : ".");
    return e;
  }
  FailureMemory all = failures; // what TEST_ONLY refused is no near miss
  for (const Option &option : options)
    all.add(snapshot.planes[option.plane].id, need.format, static_cast<uint32_t>(std::max(need.width, 0)),
            static_cast<uint32_t>(std::max(need.height, 0)));
  e.near_misses = nearestMiss(snapshot, crtc, need, all);
  const NoPlane none = noPlane(snapshot, crtc, need, all, refusals);
  e.refusal = none.refusal;
  e.remedy = none.remedy;
  e.verdict = "Not shown: " + none.error().message() + ".";
  return e;
}

} // namespace

Explanation explain(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures) {
  return run(snapshot, nullptr, crtc, need, failures);
}

Explanation explain(const DeviceProfile &profile, size_t crtc, const FrameNeed &need, const FailureMemory &failures) {
  return run(profile.snapshot, &profile, crtc, need, failures);
}

std::string toText(const Explanation &explanation) {
  std::string text;
  for (const ExplainStep &step : explanation.steps)
    text += std::string(step.outcome == Outcome::Fine      ? "yes  "
                        : step.outcome == Outcome::Refused ? "no   "
                                                           : "ask  ") +
            step.subject + (step.subject == "frame" ? ": " : " ") + step.sentence + "\n";
  text += explanation.verdict + "\n";
  for (const NearMiss &miss : explanation.near_misses) text += "near " + miss.sentence + "\n";
  return text;
}

} // namespace gstzc
