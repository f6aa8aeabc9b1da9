// SPDX-License-Identifier: LGPL-2.1-or-later
#include "negotiate_report.h"

#include <algorithm>

#include "planes.h"
#include "table.h"

namespace gstzc::inspect {
namespace {

constexpr size_t kReasonsShown = 6;
constexpr size_t kCapsIndent = 22; // of what continues caps in the text
constexpr size_t kIndent = 4;      // of what continues other lines

bool toDisplay(const Negotiation &negotiation, size_t link) { return link + 1 == negotiation.links.size(); }

// What the display was asked for: what it agreed to, else what came last, else what could have come.
Caps asked(const Negotiation &n) {
  if (n.caps) return n.caps;
  if (n.links.empty()) return {};
  const LinkReport &last = n.links.back();
  return last.offered ? last.offered : last.upstream;
}

std::string sizeOf(const FrameNeed &need) {
  return need.width > 0 && need.height > 0 ? " " + std::to_string(need.width) + "x" + std::to_string(need.height) : "";
}

std::string summaryOf(const DisplaySource &source, const NegotiationReport &r) {
  const Negotiation &n = r.negotiation;
  if (n.verdict != Negotiation::Verdict::Possible) {
    if (n.failed && toDisplay(n, *n.failed) && !r.frames.empty() && !r.frames.front().explanation.refusal.empty() &&
        r.frames.size() == 1 && !r.frames.front().explanation.shown)
      return r.frames.front().explanation.refusal;
    if (n.failed && toDisplay(n, *n.failed) && r.frames.empty() && !r.not_explained.empty()) return r.not_explained;
    return !n.why.empty() ? n.why : "no reason is known";
  }
  if (r.frames.empty()) return "caps were agreed on";
  const ExplainedFrame &frame = r.frames.front();
  const std::string size = sizeOf(frame.frame.need);
  if (frame.explanation.choice) return choiceText(source, *frame.explanation.choice) + (size.empty() ? "" : "," + size);
  return pairText(frame.frame.need.format) + size;
}

void addCaps(std::string *text, const char *what, const Caps &caps) {
  bool first = true;
  for (const std::string &line : capsLines(caps.get())) {
    *text += wrapLines(std::string("     ") + (first ? what : "                 ") + line, kCapsIndent);
    first = false;
  }
}

// The refusals of all frames, each sentence once.
std::vector<std::string> reasons(const NegotiationReport &r) {
  std::vector<std::string> result;
  const auto add = [&](const std::string &sentence) {
    if (!sentence.empty() && std::find(result.begin(), result.end(), sentence) == result.end())
      result.push_back(sentence);
  };
  for (const ExplainedFrame &frame : r.frames) {
    if (frame.explanation.shown) continue;
    for (const ExplainStep &step : frame.explanation.steps)
      if (step.outcome == ExplainStep::Outcome::Refused) add(step.subject + " " + step.sentence);
  }
  return result;
}

std::vector<std::string> nearMisses(const NegotiationReport &r) {
  std::vector<std::string> result;
  for (const ExplainedFrame &frame : r.frames)
    for (const NearMiss &miss : frame.explanation.near_misses)
      if (!frame.explanation.shown && std::find(result.begin(), result.end(), miss.sentence) == result.end())
        result.push_back(miss.sentence);
  return result;
}

std::string whyText(const NegotiationReport &r) {
  const Negotiation &n = r.negotiation;
  std::string text;
  if (!n.why.empty()) text += "  " + n.why + ".\n";
  for (const ElementMessage &m : n.errors) {
    if (!n.why.starts_with(m.element + " fails: ")) // which is what it says
      text += "  " + m.element + " says: " + m.text + "\n";
    if (const size_t detail = m.debug.rfind("\n"); detail != std::string::npos && detail + 1 < m.debug.size())
      text += "    (" + m.debug.substr(detail + 1) + ")\n";
  }
  if (n.failed && toDisplay(n, *n.failed)) {
    const auto why = reasons(r);
    for (size_t i = 0; i < std::min(why.size(), kReasonsShown); ++i) text += "  " + why[i] + "\n";
    if (why.size() > kReasonsShown)
      text += "  and " + std::to_string(why.size() - kReasonsShown) + " more reasons (--json has all)\n";
    const auto near = nearMisses(r);
    for (size_t i = 0; i < std::min(near.size(), kReasonsShown); ++i) text += "  nearest: " + near[i] + "\n";
    if (r.frames.size() == 1 && !r.frames.front().explanation.shown)
      if (const std::string &what = r.frames.front().explanation.remedy; !what.empty())
        text += "What to do: " + what + ".\n";
    if (!r.not_explained.empty()) text += "  of what upstream gives: " + r.not_explained + "\n";
  }
  return text;
}

} // namespace

const char *verdictName(Negotiation::Verdict verdict) {
  switch (verdict) {
  case Negotiation::Verdict::Possible: return "possible";
  case Negotiation::Verdict::Impossible: return "impossible";
  case Negotiation::Verdict::Untried: return "untried";
  }
  return "untried";
}

Result<NegotiationReport> report(Fragment fragment, const DisplayRequest &request, const DisplaySource &source,
                                 unsigned timeout_s) {
  auto negotiated = negotiate(std::move(fragment), displaySink(request), std::chrono::seconds(timeout_s));
  if (!negotiated) return negotiated.error();
  NegotiationReport result;
  result.negotiation = negotiated.take();
  if (const Caps caps = asked(result.negotiation); caps && !caps.empty() && !gst_caps_is_any(caps.get())) {
    auto frames = explainFrames(source, caps.get());
    if (frames)
      result.frames = frames.take();
    else
      result.not_explained = frames.error().message();
  }
  result.summary = summaryOf(source, result);
  return result;
}

std::string toText(const std::string &fragment, const DisplaySource &source, const NegotiationReport &r) {
  const Negotiation &n = r.negotiation;
  std::string text = fragment + "\n  on " + source.name + ", output " + source.connector().name + "\n\n" +
                     wrapLines(std::string(verdictName(n.verdict)) + ": " + r.summary, kIndent);
  if (n.placeholders && n.verdict == Negotiation::Verdict::Possible)
    text += "The caps are agreed on; the frames were not shown, as their memory is not what the caps say.\n";
  if (!n.configuration.empty()) text += "display: " + n.configuration + "\n";
  for (size_t i = 0; i < n.links.size(); ++i) {
    const LinkReport &link = n.links[i];
    text += "\n" + std::to_string(i + 1) + "  " + link.source + " -> " + link.sink +
            (n.failed == i ? "   <- here it becomes impossible" : "") + "\n";
    addCaps(&text, "upstream gives   ", link.upstream);
    addCaps(&text, "downstream takes ", link.downstream);
    addCaps(&text, "in common        ", link.common);
    if (link.agreed)
      addCaps(&text, "agreed           ", link.agreed);
    else if (link.offered)
      addCaps(&text, "sent, not taken  ", link.offered);
  }
  if (n.verdict == Negotiation::Verdict::Possible) return text;
  return text + "\nWhy:\n" + wrapLines(whyText(r), kIndent);
}

void writeReport(JsonWriter *json, const std::string &fragment, const DisplaySource &source,
                 const NegotiationReport &r) {
  const Negotiation &n = r.negotiation;
  json->beginObject();
  json->member("fragment", fragment);
  json->member("display", source.name);
  json->member("output", source.connector().name);
  json->member("verdict", verdictName(n.verdict));
  json->member("summary", r.summary);
  json->member("live", n.live);
  json->member("frames_shown", n.frames > 0 && !n.placeholders && n.verdict == Negotiation::Verdict::Possible);
  json->memberOrNull("configuration", n.configuration);
  json->key("links").beginArray();
  for (const LinkReport &link : n.links) {
    json->beginObject();
    json->member("source", link.source);
    json->member("sink", link.sink);
    json->member("upstream", link.upstream.text());
    json->member("downstream", link.downstream.text());
    json->member("common", link.common.text());
    json->memberOrNull("offered", link.offered.text());
    json->memberOrNull("agreed", link.agreed.text());
    json->endObject();
  }
  json->endArray();
  json->key("failed_link"); // index into links
  if (n.failed)
    json->value(*n.failed);
  else
    json->null();
  json->memberOrNull("why", n.why);
  json->key("errors").beginArray();
  for (const ElementMessage &m : n.errors) {
    json->beginObject();
    json->member("element", m.element);
    json->member("text", m.text);
    json->memberOrNull("debug", m.debug);
    json->endObject();
  }
  json->endArray();
  json->key("explained").beginArray();
  for (const ExplainedFrame &frame : r.frames) writeExplanation(json, source, frame);
  json->endArray();
  json->endObject();
}

} // namespace gstzc::inspect
