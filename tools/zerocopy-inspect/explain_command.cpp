// SPDX-License-Identifier: LGPL-2.1-or-later
// explain: which plane would show frames of given caps.
#include <algorithm>

#include <drm_fourcc.h>

#include "caps_text.h"
#include "explanation.h"
#include "planes.h"
#include "table.h"
#include "tool.h"

namespace gstzc::inspect {
namespace {

constexpr size_t kFramesInFull = 6; // of caps that stand for many

const char *outcomeName(ExplainStep::Outcome outcome) {
  switch (outcome) {
  case ExplainStep::Outcome::Fine: return "fine";
  case ExplainStep::Outcome::Refused: return "refused";
  case ExplainStep::Outcome::Open: return "open";
  }
  return "open";
}

Result<Caps> parseCaps(const std::string &text) {
  Caps caps(gst_caps_from_string(text.c_str()));
  if (!caps)
    return Error{"\"" + text + "\" is no caps", 0,
                 "For example video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=1920,height=1080"};
  if (caps.empty() || gst_caps_is_any(caps.get()))
    return Error{"\"" + text + "\" describes no frame", 0, "Name at least format or drm-format, better also a size"};
  return caps;
}

std::string asText(const DisplaySource &source, const std::vector<ExplainedFrame> &frames) {
  std::string text = source.name + ", output " + source.connector().name + "\n";
  size_t in_full = 0;
  for (const ExplainedFrame &f : frames) {
    if (frames.size() > 1 && in_full == kFramesInFull) break;
    ++in_full;
    text += "\n" + f.frame.text + "\n" + wrapLines(toText(f.explanation), 5);
  }
  if (frames.size() > 1) {
    const auto shown = std::count_if(frames.begin(), frames.end(), [](const auto &f) { return f.explanation.shown; });
    text += "\n" + std::to_string(shown) + " of the " + std::to_string(frames.size()) + " frames would be shown";
    if (in_full < frames.size()) text += " (the first " + std::to_string(in_full) + " are above; --json has all)";
    text += ".\n";
  }
  return text;
}

} // namespace

namespace {

// Frames of others cannot be had on a device that imports nothing: those in the sink's pool can.
void addMemory(const DisplaySource &source, const CapsNeed &need, Explanation *e) {
  if (!source.profile.quirks.no_foreign_memory || need.system_memory || !e->shown) return;
  e->steps.push_back({ExplainStep::Outcome::Open, std::nullopt, "memory",
                      "has to be the display's own, in the pool that drmmodifiersink offers: it imports no dma-buf of "
                      "another device (ENODEV)"});
  e->verdict.pop_back(); // the full stop
  e->verdict += std::string(e->choice && e->choice->open.any() ? " and" : ", if") +
                " the frames are in the sink's own pool; dma-bufs of other devices are refused.";
}

} // namespace

Result<std::vector<ExplainedFrame>> explainFrames(const DisplaySource &source, const GstCaps *caps, Size target) {
  auto needs = needsOfCaps(caps);
  if (!needs) return needs.error();
  std::vector<ExplainedFrame> result;
  for (CapsNeed &need : *needs) {
    need.need.target_width = target.width;
    need.need.target_height = target.height;
    // what a file does not describe refuses nothing beforehand
    Explanation explanation = source.described
                                  ? explain(source.profile, source.output.crtc, need.need, FailureMemory())
                                  : explain(source.profile.snapshot, source.output.crtc, need.need, FailureMemory());
    addMemory(source, need, &explanation);
    result.push_back({std::move(need), std::move(explanation)});
  }
  return result;
}

std::string choiceText(const DisplaySource &source, const Option &choice) {
  std::string text = pairText(choice.format) + " on " + planeName(source.profile.snapshot.planes[choice.plane]);
  if (choice.scaling != Scaling::None) text += std::string(", scaled ") + scalingName(choice.scaling);
  return text;
}

void writeExplanation(JsonWriter *json, const DisplaySource &source, const ExplainedFrame &frame) {
  const Explanation &e = frame.explanation;
  const auto &planes = source.profile.snapshot.planes;
  json->beginObject();
  json->member("frame", frame.frame.text);
  json->key("wanted");
  writePair(json, frame.frame.need.format);
  json->member("system_memory", frame.frame.system_memory);
  json->member("shown", e.shown);
  json->key("choice");
  if (e.choice) {
    json->beginObject();
    json->key("plane");
    writePlane(json, planes[e.choice->plane]);
    json->key("pair");
    writePair(json, e.choice->format);
    json->member("scaling", scalingName(e.choice->scaling));
    json->member("memory_planes", static_cast<int64_t>(e.choice->memory_planes));
    json->member("asks_test_only", e.choice->open.any());
    json->endObject();
  } else {
    json->null();
  }
  json->key("steps").beginArray();
  for (const ExplainStep &step : e.steps) {
    json->beginObject();
    json->member("outcome", outcomeName(step.outcome));
    json->member("subject", step.subject);
    json->member("sentence", step.sentence);
    json->endObject();
  }
  json->endArray();
  json->member("verdict", e.verdict);
  json->key("near_misses").beginArray();
  for (const NearMiss &miss : e.near_misses) {
    json->beginObject();
    json->key("pair");
    writePair(json, miss.format);
    json->key("plane");
    writePlane(json, planes[miss.plane]);
    json->member("sentence", miss.sentence);
    json->endObject();
  }
  json->endArray();
  json->endObject();
}

Result<Answer> explainCaps(const CommandLine &line) {
  auto caps = parseCaps(line.arguments.front());
  if (!caps) return caps.error();
  auto source = openDisplaySource({line.profile, line.device, line.connector});
  if (!source) return source.error();
  auto frames = explainFrames(*source, caps->get(), line.target);
  if (!frames) return frames.error();
  const bool shown = std::any_of(frames->begin(), frames->end(), [](const auto &f) { return f.explanation.shown; });
  Answer answer{shown ? Exit::Shown : Exit::Impossible, ""};
  if (!line.json) {
    answer.text = asText(*source, *frames);
    return answer;
  }
  JsonWriter json;
  json.beginObject();
  json.member("display", source->name);
  json.member("output", source->connector().name);
  json.member("shown", shown);
  json.key("frames").beginArray();
  for (const ExplainedFrame &f : *frames) writeExplanation(&json, *source, f);
  json.endArray();
  json.endObject();
  answer.text = json.text();
  return answer;
}

} // namespace gstzc::inspect
