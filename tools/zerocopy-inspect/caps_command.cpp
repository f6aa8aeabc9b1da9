// SPDX-License-Identifier: LGPL-2.1-or-later
// caps: what a display takes.
#include <algorithm>

#include "caps_text.h"
#include "display_source.h"
#include "gst/drm/mode.h"
#include "gst/drm/negotiate/engine.h"
#include "gst/drm/sink_caps.h"
#include "planes.h"
#include "table.h"
#include "tool.h"

namespace gstzc::inspect {
namespace {

std::string modeOf(const KmsConnector &connector) {
  return connector.modes.empty() ? "" : modeName(connector.modes.front());
}

std::string asText(const DisplaySource &source, const Caps &caps) {
  const KmsSnapshot &snapshot = source.profile.snapshot;
  std::string text = source.name + ", output " + source.connector().name;
  if (const std::string mode = modeOf(source.connector()); !mode.empty()) text += ", " + mode;
  text += "\n";
  if (snapshot.max_width > 0)
    text += "Framebuffers of " +
            (snapshot.min_width > 1 || snapshot.min_height > 1
                 ? std::to_string(snapshot.min_width) + "x" + std::to_string(snapshot.min_height) + " at least, "
                 : std::string()) +
            std::to_string(snapshot.max_width) + "x" + std::to_string(snapshot.max_height) + " at most.\n";
  if (!snapshot.addfb2_modifiers) text += "The driver takes no modifiers: layouts are implicit.\n";
  text += "\n";

  Table table({"PLANE", "TIER", "LAYOUT", "MODIFIER", "FORMATS"});
  for (const PlaneFormats &formats : planeFormats(snapshot, source.output.crtc)) {
    const std::string name = planeName(snapshot.planes[formats.plane]);
    bool first = true;
    for (const LayoutFormats &layout : formats.layouts) {
      std::vector<std::string> names;
      for (const uint32_t fourcc : layout.fourccs) names.push_back(fourccName(fourcc));
      const bool implicit = layout.tier == LayoutTier::Implicit;
      table.add({first ? name : "", implicit ? "" : tierName(layout.tier), layoutText(layout.modifier),
                 implicit ? "" : hexModifier(layout.modifier), joined(names)});
      first = false;
    }
    if (formats.layouts.empty()) table.add({name, "", "", "", "none"});
  }
  text += table.text() + "\n";
  text += "As caps, what is best first:\n";
  for (guint i = 0; i < gst_caps_get_size(caps.get()); ++i) {
    const Caps one(gst_caps_copy_nth(caps.get(), i));
    text += "  " + one.text() + "\n";
  }
  for (const std::string &note : source.profile.notes) text += "\nNote: " + note;
  for (const std::string &warning : source.profile.warnings) text += "\nWarning: " + warning;
  if (!source.profile.notes.empty() || !source.profile.warnings.empty()) text += "\n";
  return text;
}

std::string asJson(const DisplaySource &source, const Caps &caps) {
  const KmsSnapshot &snapshot = source.profile.snapshot;
  JsonWriter json;
  json.beginObject();
  json.member("display", source.name);
  json.member("driver", snapshot.driver);
  json.memberOrNull("device", source.profile.device);
  json.member("output", source.connector().name);
  json.memberOrNull("mode", modeOf(source.connector()));
  json.member("min_width", snapshot.min_width);
  json.member("min_height", snapshot.min_height);
  json.member("max_width", snapshot.max_width);
  json.member("max_height", snapshot.max_height);
  json.member("modifiers", snapshot.addfb2_modifiers);
  json.key("planes").beginArray();
  for (const PlaneFormats &formats : planeFormats(snapshot, source.output.crtc)) {
    json.beginObject();
    json.key("plane");
    writePlane(&json, snapshot.planes[formats.plane]);
    json.key("pairs").beginArray();
    for (const LayoutFormats &layout : formats.layouts)
      for (const uint32_t fourcc : layout.fourccs) writePair(&json, {fourcc, layout.modifier});
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.member("caps", caps.text());
  json.member("notes", source.profile.notes);
  json.member("warnings", source.profile.warnings);
  json.endObject();
  return json.text();
}

} // namespace

Result<Answer> caps(const CommandLine &line) {
  auto source = openDisplaySource({line.profile, line.device, line.connector});
  if (!source) return source.error();
  const Caps caps(capsOfOffers(offers(source->profile.snapshot, source->output.crtc, FailureMemory()), {}));
  return Answer{caps.empty() ? Exit::Impossible : Exit::Shown,
                line.json ? asJson(*source, caps) : asText(*source, caps)};
}

} // namespace gstzc::inspect
