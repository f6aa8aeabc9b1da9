// SPDX-License-Identifier: LGPL-2.1-or-later
// compare: what two displays take differently.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <drm_fourcc.h>

#include "display_source.h"
#include "planes.h"
#include "table.h"
#include "tool.h"

namespace gstzc::inspect {
namespace {

struct Side {
  DisplaySource source;
  std::vector<DrmFormat> pairs; // of planes that are no cursors, each once; implicit layouts as INVALID
  size_t primaries = 0, overlays = 0, cursors = 0;
};

Side sideOf(DisplaySource source) {
  Side side;
  for (const PlaneFormats &formats : planeFormats(source.profile.snapshot, source.output.crtc)) {
    const KmsPlane &plane = source.profile.snapshot.planes[formats.plane];
    ++(plane.type == DRM_PLANE_TYPE_PRIMARY  ? side.primaries
       : plane.type == DRM_PLANE_TYPE_CURSOR ? side.cursors
                                             : side.overlays);
    if (plane.type == DRM_PLANE_TYPE_CURSOR) continue;
    for (const LayoutFormats &layout : formats.layouts)
      for (const uint32_t fourcc : layout.fourccs) {
        const DrmFormat pair{fourcc, layout.modifier};
        if (std::none_of(side.pairs.begin(), side.pairs.end(), [&](const DrmFormat &p) { return sameLayout(p, pair); }))
          side.pairs.push_back(pair);
      }
  }
  side.source = std::move(source);
  return side;
}

std::vector<DrmFormat> without(const std::vector<DrmFormat> &some, const std::vector<DrmFormat> &others) {
  std::vector<DrmFormat> result;
  for (const DrmFormat &pair : some)
    if (std::none_of(others.begin(), others.end(), [&](const DrmFormat &p) { return sameLayout(p, pair); }))
      result.push_back(pair);
  return result;
}

std::string sizeText(const KmsSnapshot &s) {
  return s.max_width == 0 ? "not known" : std::to_string(s.max_width) + "x" + std::to_string(s.max_height);
}

// By layout, in the order the first pair of each has.
std::string listText(const std::vector<DrmFormat> &pairs) {
  std::vector<std::pair<uint64_t, std::vector<std::string>>> layouts;
  for (const DrmFormat &pair : pairs) {
    auto it = std::find_if(layouts.begin(), layouts.end(), [&](const auto &l) { return l.first == pair.modifier; });
    if (it == layouts.end()) it = layouts.insert(it, {pair.modifier, {}});
    it->second.push_back(fourccName(pair.fourcc));
  }
  Table table({"  LAYOUT", "FORMATS"});
  for (const auto &[modifier, names] : layouts) table.add({"  " + layoutText(modifier), joined(names)});
  return table.text();
}

void writePairs(JsonWriter *json, const char *name, const std::vector<DrmFormat> &pairs) {
  json->key(name).beginArray();
  for (const DrmFormat &pair : pairs) writePair(json, pair);
  json->endArray();
}

} // namespace

Result<Answer> compareProfiles(const CommandLine &line) {
  std::vector<Side> sides;
  for (const std::string &file : line.arguments) {
    auto source = openDisplaySource({file, "", line.connector});
    if (!source) return source.error();
    sides.push_back(sideOf(source.take()));
  }
  const Side &a = sides[0], &b = sides[1];
  const KmsSnapshot &sa = a.source.profile.snapshot, &sb = b.source.profile.snapshot;
  const auto only_a = without(a.pairs, b.pairs), only_b = without(b.pairs, a.pairs);
  const bool smaller = sb.max_width != 0 && (sb.max_width < sa.max_width || sb.max_height < sa.max_height);
  const bool replaces = only_a.empty() && !smaller;
  const size_t both = a.pairs.size() - only_a.size();
  Answer answer{replaces ? Exit::Shown : Exit::Impossible, ""};
  if (line.json) {
    JsonWriter json;
    json.beginObject();
    for (const auto &[name, side] : {std::pair("first", &a), std::pair("second", &b)}) {
      const KmsSnapshot &s = side->source.profile.snapshot;
      json.key(name).beginObject();
      json.member("display", side->source.name);
      json.member("driver", s.driver);
      json.member("primary_planes", side->primaries);
      json.member("overlay_planes", side->overlays);
      json.member("cursor_planes", side->cursors);
      json.member("pairs", side->pairs.size());
      json.member("max_width", s.max_width);
      json.member("max_height", s.max_height);
      json.endObject();
    }
    json.member("in_both", both);
    writePairs(&json, "only_first", only_a);
    writePairs(&json, "only_second", only_b);
    json.member("second_replaces_first", replaces);
    json.endObject();
    answer.text = json.text();
    return answer;
  }
  Table table({"", "FIRST", "SECOND"});
  table.add({"display", a.source.name, b.source.name});
  table.add({"output", a.source.connector().name, b.source.connector().name});
  const auto planes = [](const Side &s) {
    return std::to_string(s.primaries) + " primary, " + std::to_string(s.overlays) + " overlay, " +
           std::to_string(s.cursors) + " cursor";
  };
  table.add({"planes", planes(a), planes(b)});
  table.add({"largest frame", sizeText(sa), sizeText(sb)});
  table.add({"pairs of format and layout", std::to_string(a.pairs.size()), std::to_string(b.pairs.size())});
  answer.text = table.text() + "\n" + std::to_string(both) + " pairs are the same.\n";
  if (!only_a.empty()) answer.text += "\nOnly the first takes:\n" + listText(only_a);
  if (!only_b.empty()) answer.text += "\nOnly the second takes:\n" + listText(only_b);
  if (replaces)
    answer.text += "\nThe second takes all that the first takes.\n";
  else
    answer.text += std::string("\nThe second does not take all that the first takes: ") +
                   (only_a.empty() ? "" : std::to_string(only_a.size()) + " pairs are missing") +
                   (!only_a.empty() && smaller ? ", and " : "") + (smaller ? "its largest frame is smaller" : "") +
                   ".\n";
  return answer;
}

} // namespace gstzc::inspect
