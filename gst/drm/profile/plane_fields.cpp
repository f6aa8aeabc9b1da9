// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/plane_fields.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <drm_fourcc.h>

#include "gst/drm/profile/profile_fields.h"
#include "gst/drm/profile/profile_names.h"
#include "gst/drm/profile/profile_reader.h"

namespace gstzc {

using json::Value;

namespace {

constexpr double kMaxScale = 65536;

} // namespace

std::string readPlaneTypes(const Value &value) {
  std::string text = value.text(64);
  if (!value.exists()) {
    value.fail("Primary, Overlay or Cursor is needed");
    return "Overlay";
  }
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find('/', from), text.size());
    if (!planeTypeOf(std::string_view(text).substr(from, to - from))) {
      value.fail("Primary, Overlay or Cursor is needed, or some of them with / between");
      return "Overlay";
    }
    from = to + 1;
  }
  return text;
}
void readPlaneFormats(const Value &v, KmsPlane *plane) {
  const Value list = v.member("formats");
  const std::vector<uint32_t> formats = readFourccs(list);
  std::vector<std::pair<uint64_t, std::vector<uint32_t>>> modifiers;
  size_t pairs = 0;
  const std::set<uint32_t> known(formats.begin(), formats.end());
  for (const Value &m : v.member("in_formats").items(kMaxPlaneModifiers)) {
    m.allow({"modifier", "name", "formats"});
    if (!m.member("modifier").exists()) m.fail("the key modifier is needed");
    auto &[modifier, taken] = modifiers.emplace_back(readModifier(m.member("modifier")), std::vector<uint32_t>());
    // absent: all of the plane's
    taken = m.member("formats").exists() ? readFourccs(m.member("formats")) : formats;
    for (size_t i = 0; i < taken.size() && !known.empty(); ++i)
      if (!known.contains(taken[i])) {
        m.member("formats").fail(toString({taken[i], 0}) + " is not among the plane's formats");
        break;
      }
    pairs += taken.size();
    if (pairs > kMaxPlanePairs)
      return m.fail("more than " + std::to_string(kMaxPlanePairs) + " pairs of format and modifier");
  }
  if (!list.exists() && modifiers.empty()) return v.fail("the key formats is needed");
  plane->has_in_formats = !modifiers.empty();
  if (plane->has_in_formats)
    plane->formats = pairsByFormat(formats, modifiers);
  else
    for (const uint32_t fourcc : formats) plane->formats.push_back({fourcc, DRM_FORMAT_MOD_LINEAR});
}

void readPlaneLimits(const Value &value, KmsPlane *plane) {
  if (!value.exists()) return;
  plane->limits.emplace();
  const std::vector<Value> entries = value.isArray() ? value.items(kMaxProfileEntries) : std::vector<Value>{value};
  for (const Value &v : entries) {
    v.allow({"formats", "modifiers", "min_size", "max_size", "scaling", "even"});
    PlaneFormatLimits limits;
    limits.fourccs = readFourccs(v.member("formats"));
    limits.modifiers = readModifiers(v.member("modifiers"));
    readSize(v.member("min_size"), &limits.min_width, &limits.min_height);
    readSize(v.member("max_size"), &limits.max_width, &limits.max_height);
    checkSizes(v, limits.min_width, limits.min_height, limits.max_width, limits.max_height);
    if (v.member("even").exists()) limits.even = v.member("even").boolean();
    const Value scaling = v.member("scaling");
    if (scaling.isBoolean()) {
      limits.scaling = scaling.boolean();
    } else if (scaling.exists()) {
      scaling.allow({"min", "max"});
      limits.scaling = true;
      if (scaling.member("min").exists()) limits.min_scale = scaling.member("min").number(1 / kMaxScale, kMaxScale);
      if (scaling.member("max").exists()) limits.max_scale = scaling.member("max").number(1 / kMaxScale, kMaxScale);
      if (limits.min_scale && limits.max_scale && *limits.min_scale > *limits.max_scale)
        scaling.fail("min is larger than max");
    }
    plane->limits->push_back(std::move(limits));
  }
}

ProfileQuirks readQuirks(const Value &value) {
  ProfileQuirks quirks;
  value.allow({"in_fence_fd", "no_foreign_memory", "needs_primary"});
  quirks.in_fence_fd = readErrno(value.member("in_fence_fd"));
  quirks.no_foreign_memory = value.member("no_foreign_memory").boolean();
  quirks.needs_primary = value.member("needs_primary").boolean();
  return quirks;
}

ProfileRefusal readRefusal(const Value &v) {
  v.allow({"plane", "type", "formats", "modifiers", "min_size", "max_size", "scaled", "rotation", "error", "why"});
  ProfileRefusal r;
  r.plane = v.member("plane").text();
  if (const Value type = v.member("type"); type.exists()) {
    r.type = planeTypeOf(type.text(16));
    if (!r.type) type.fail("Primary, Overlay or Cursor is needed");
  }
  r.fourccs = readFourccs(v.member("formats"));
  r.modifiers = readModifiers(v.member("modifiers"));
  readSize(v.member("min_size"), &r.min_width, &r.min_height);
  readSize(v.member("max_size"), &r.max_width, &r.max_height);
  checkSizes(v, r.min_width, r.min_height, r.max_width, r.max_height);
  if (v.member("scaled").exists()) r.scaled = v.member("scaled").boolean();
  r.rotations = readRotations(v.member("rotation"));
  r.error = readErrno(v.member("error"));
  if (r.error == 0) v.fail("the key error is needed");
  r.why = v.member("why").text();
  return r;
}

size_t bytesOf(const KmsPlane &plane) {
  size_t bytes = sizeof plane + plane.label.size() + plane.formats.size() * sizeof(DrmFormat);
  if (plane.limits)
    for (const PlaneFormatLimits &l : *plane.limits)
      bytes += sizeof l + l.fourccs.size() * sizeof(uint32_t) + l.modifiers.size() * sizeof(uint64_t);
  for (const auto &[name, p] : plane.properties) {
    bytes += sizeof p + name.size();
    for (const auto &[value, number] : p.values) bytes += sizeof p.values[0] + value.size();
  }
  return bytes;
}

} // namespace gstzc
