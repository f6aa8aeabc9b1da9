// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/planning.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <drm_fourcc.h>

namespace gstzc {
namespace {

const char *statusName(drmModeConnection status) {
  switch (status) {
  case DRM_MODE_CONNECTED: return "connected";
  case DRM_MODE_DISCONNECTED: return "disconnected";
  default: return "unknown";
  }
}

std::string listOutputs(const KmsSnapshot &snapshot) {
  std::string text;
  for (const KmsConnector &c : snapshot.connectors) {
    if (c.writeback()) continue;
    text += (text.empty() ? "" : ", ") + c.name + " (id " + std::to_string(c.id) + ") " + statusName(c.status) +
            (c.claimed ? ", of another sink" : "");
  }
  return text.empty() ? "it has no outputs" : text;
}

bool plainMode(const drmModeModeInfo &mode) {
  return (mode.flags & (DRM_MODE_FLAG_INTERLACE | DRM_MODE_FLAG_DBLSCAN)) == 0;
}

bool quarterTurn(uint32_t rotation) { return (rotation & (DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270)) != 0; }

bool usable(const KmsPlane &plane, size_t crtc) { return (plane.possible_crtcs >> crtc) & 1; }

int64_t zposOf(const KmsPlane &plane) {
  const auto z = plane.properties.find("zpos");
  return z == plane.properties.end() ? -1 : static_cast<int64_t>(z->second.value);
}

// height in the stack where planes have no zpos: primary, overlays, cursor
int typeRank(const KmsPlane &plane) {
  return plane.type == DRM_PLANE_TYPE_PRIMARY ? 0 : plane.type == DRM_PLANE_TYPE_OVERLAY ? 1 : 2;
}

bool canBeAbove(const KmsPlane &upper, size_t upper_index, const KmsPlane &lower, size_t lower_index) {
  const auto z = upper.properties.find("zpos");
  if (z != upper.properties.end() && zposOf(lower) >= 0) {
    if (zposOf(upper) > zposOf(lower)) return true;
    const auto max = z->second.named("max");
    return !z->second.immutable() && max && static_cast<int64_t>(*max) > zposOf(lower);
  }
  if (typeRank(upper) != typeRank(lower)) return typeRank(upper) > typeRank(lower);
  return upper_index > lower_index;
}

} // namespace

std::string rectName(const Rect &r) {
  return std::to_string(r.width) + "x" + std::to_string(r.height) + " at " + std::to_string(r.x) + "," +
         std::to_string(r.y);
}

const char *planeKind(uint32_t type) {
  return type == DRM_PLANE_TYPE_PRIMARY ? "primary" : type == DRM_PLANE_TYPE_CURSOR ? "cursor" : "overlay";
}

const char *errnoName(int code) {
  const char *name = strerrorname_np(code);
  return name != nullptr ? name : "?";
}

Result<Output> chooseOutput(const KmsSnapshot &snapshot, const std::string &wanted) {
  std::optional<size_t> chosen, shared; // shared: other sinks of the process show on it, on planes of their own
  for (size_t i = 0; i < snapshot.connectors.size() && !chosen; ++i) {
    const KmsConnector &c = snapshot.connectors[i];
    if (c.writeback()) continue;
    if (wanted.empty() ? c.connected() && !c.claimed : (c.name == wanted || std::to_string(c.id) == wanted)) chosen = i;
    if (wanted.empty() && c.connected() && c.claimed && !shared) shared = i;
  }
  if (!chosen) chosen = shared;
  if (!chosen) {
    if (wanted.empty())
      return Error{snapshot.path + ": no output is connected: " + listOutputs(snapshot), 0,
                   "Connect a display, or choose another device with device="};
    return Error{snapshot.path + ": no output is called \"" + wanted + "\": " + listOutputs(snapshot), 0,
                 "Set connector= to one of these names or ids"};
  }
  const KmsConnector &connector = snapshot.connectors[*chosen];
  if (connector.status == DRM_MODE_DISCONNECTED)
    return Error{snapshot.path + ": output " + connector.name + " is not connected: " + listOutputs(snapshot), 0,
                 "Connect a display to it, or choose another one with connector="};

  std::optional<size_t> crtc;
  for (size_t i = 0; i < snapshot.crtcs.size(); ++i)
    if (connector.claimed && snapshot.crtcs[i].id == connector.crtc) return Output{*chosen, i};
  for (size_t i = 0; i < snapshot.crtcs.size(); ++i)
    if (connector.crtc != 0 && snapshot.crtcs[i].id == connector.crtc && !snapshot.crtcs[i].claimed) crtc = i;
  for (size_t i = 0; i < snapshot.crtcs.size() && !crtc; ++i) {
    const bool taken =
        snapshot.crtcs[i].claimed || std::any_of(snapshot.connectors.begin(), snapshot.connectors.end(),
                                                 [&](const KmsConnector &c) { return c.crtc == snapshot.crtcs[i].id; });
    if (((connector.possible_crtcs >> i) & 1) && !taken) crtc = i;
  }
  if (!crtc)
    return Error{snapshot.path + ": no free CRTC for output " + connector.name, 0, "Switch another output off"};
  return Output{*chosen, *crtc};
}

Result<Output> sameOutput(const KmsSnapshot &before, const Output &output, const KmsSnapshot &now) {
  const auto place = [](const auto &list, uint32_t id) {
    const auto it = std::find_if(list.begin(), list.end(), [&](const auto &object) { return object.id == id; });
    return static_cast<size_t>(it - list.begin());
  };
  const KmsConnector &connector = before.connectors[output.connector];
  const Output result{place(now.connectors, connector.id), place(now.crtcs, before.crtcs[output.crtc].id)};
  if (result.connector == now.connectors.size() || result.crtc == now.crtcs.size())
    return Error{now.path + ": output " + connector.name + " is gone: " + listOutputs(now), ENODEV,
                 "Connect it again, or choose another one with connector="};
  return result;
}

Result<std::vector<ModeChoice>> modeCandidates(const KmsSnapshot &snapshot, const KmsConnector &connector,
                                               const FrameNeed &need, const std::optional<ModeRequest> &request) {
  std::vector<ModeChoice> result;
  const auto inLimits = [&](int width, int height) {
    return width >= static_cast<int>(snapshot.min_width) && width <= static_cast<int>(snapshot.max_width) &&
           height >= static_cast<int>(snapshot.min_height) && height <= static_cast<int>(snapshot.max_height);
  };
  if (request) {
    if (!inLimits(request->width, request->height))
      return Error{"mode=" + std::to_string(request->width) + "x" + std::to_string(request->height) +
                       " is outside of " + snapshot.path + "'s " + std::to_string(snapshot.min_width) + "x" +
                       std::to_string(snapshot.min_height) + " to " + std::to_string(snapshot.max_width) + "x" +
                       std::to_string(snapshot.max_height),
                   0, "Choose a mode in that range"};
    for (const drmModeModeInfo &mode : connector.modes)
      if (mode.hdisplay == request->width && mode.vdisplay == request->height && plainMode(mode) &&
          (request->refresh == 0 || std::abs(refreshOf(mode) - request->refresh) < 0.5)) {
        result.push_back({mode, true});
        break;
      }
    if (result.empty())
      result.push_back(
          {generateMode(request->width, request->height, request->refresh == 0 ? 60 : request->refresh), false});
    return result;
  }

  const auto add = [&](const drmModeModeInfo &mode) {
    for (const ModeChoice &r : result)
      if (r.mode.hdisplay == mode.hdisplay && r.mode.vdisplay == mode.vdisplay) return;
    result.push_back({mode, true});
  };
  for (const drmModeModeInfo &mode : connector.modes)
    if (mode.hdisplay == need.width && mode.vdisplay == need.height && plainMode(mode)) add(mode);
  const drmModeModeInfo *smallest = nullptr, *preferred = nullptr;
  for (const drmModeModeInfo &mode : connector.modes) {
    if (!plainMode(mode)) continue;
    if (preferred == nullptr && (mode.type & DRM_MODE_TYPE_PREFERRED)) preferred = &mode;
    if (mode.hdisplay >= need.width && mode.vdisplay >= need.height &&
        (smallest == nullptr || mode.hdisplay * mode.vdisplay < smallest->hdisplay * smallest->vdisplay))
      smallest = &mode;
  }
  if (smallest != nullptr) add(*smallest);
  if (preferred == nullptr && !connector.modes.empty()) preferred = &connector.modes.front();
  if (preferred != nullptr) add(*preferred);
  const bool exact =
      !result.empty() && result.front().mode.hdisplay == need.width && result.front().mode.vdisplay == need.height;
  if (connector.type == DRM_MODE_CONNECTOR_VIRTUAL && !exact && inLimits(need.width, need.height))
    result.push_back({generateMode(need.width, need.height, 60), false});
  if (result.empty())
    return Error{"output " + connector.name + " of " + snapshot.path + " lists no modes", 0,
                 "Set one with mode=WIDTHxHEIGHT@REFRESH"};
  return result;
}

Result<std::vector<ModeChoice>> modeCandidates(const KmsSnapshot &snapshot, const Output &output, const FrameNeed &need,
                                               const std::optional<ModeRequest> &request, AutoMode how) {
  const KmsConnector &connector = snapshot.connectors[output.connector];
  if (!request && how == AutoMode::Native) {
    const drmModeModeInfo *native = nullptr;
    for (const drmModeModeInfo &mode : connector.modes)
      if (native == nullptr || ((mode.type & DRM_MODE_TYPE_PREFERRED) && !(native->type & DRM_MODE_TYPE_PREFERRED)))
        native = &mode;
    if (native != nullptr) return std::vector<ModeChoice>{{*native, true}};
  }
  const KmsCrtc &crtc = snapshot.crtcs[output.crtc];
  if (!request && how == AutoMode::Keep && crtc.active && crtc.mode && connector.crtc == crtc.id)
    return std::vector<ModeChoice>{{*crtc.mode, true}};
  FrameNeed upright = need;
  const Rect source = need.source();
  upright.width = quarterTurn(need.rotation) ? source.height : source.width;
  upright.height = quarterTurn(need.rotation) ? source.width : source.height;
  return modeCandidates(snapshot, connector, upright, request);
}

std::vector<size_t> planeCandidates(const KmsSnapshot &snapshot, size_t crtc, const DrmFormat &format,
                                    std::string *refusals) {
  std::vector<size_t> result;
  const auto refuse = [&](const KmsPlane &plane, const std::string &why) {
    if (refusals != nullptr)
      *refusals += (refusals->empty() ? "plane " : ", plane ") + std::to_string(plane.id) + ": " + why;
  };
  for (const uint32_t type : {DRM_PLANE_TYPE_PRIMARY, DRM_PLANE_TYPE_OVERLAY, DRM_PLANE_TYPE_CURSOR}) {
    for (size_t i = 0; i < snapshot.planes.size(); ++i) {
      const KmsPlane &plane = snapshot.planes[i];
      if (plane.type != type || !usable(plane, crtc)) continue;
      if (type == DRM_PLANE_TYPE_CURSOR) continue; // takes small sizes only
      const bool fourcc = std::any_of(plane.formats.begin(), plane.formats.end(),
                                      [&](const DrmFormat &f) { return f.fourcc == format.fourcc; });
      if (!fourcc)
        refuse(plane, "no " + toString({format.fourcc, DRM_FORMAT_MOD_LINEAR}));
      else if (!plane.supports(format))
        refuse(plane, "not with this modifier");
      else if (plane.claimed || (plane.crtc != 0 && plane.crtc != snapshot.crtcs[crtc].id))
        refuse(plane, "in use on CRTC " + std::to_string(plane.crtc));
      else
        result.push_back(i);
    }
  }
  return result;
}

std::vector<size_t> overlayCandidates(const KmsSnapshot &snapshot, size_t crtc, size_t video, uint32_t fourcc) {
  std::vector<size_t> result;
  for (size_t i = 0; i < snapshot.planes.size(); ++i) {
    const KmsPlane &plane = snapshot.planes[i];
    if (i == video || plane.type != DRM_PLANE_TYPE_OVERLAY || !usable(plane, crtc)) continue;
    if (plane.claimed || (plane.crtc != 0 && plane.crtc != snapshot.crtcs[crtc].id)) continue;
    if (!plane.supports({fourcc, DRM_FORMAT_MOD_LINEAR})) continue;
    if (canBeAbove(plane, i, snapshot.planes[video], video)) result.push_back(i);
  }
  std::stable_sort(result.begin(), result.end(),
                   [&](size_t a, size_t b) { return zposOf(snapshot.planes[a]) < zposOf(snapshot.planes[b]); });
  return result;
}

namespace {

// Cuts off what is outside of the display, and the same share of the source. False: nothing is left.
bool cutOff(Placement &place, const Area &area, uint32_t rotation) {
  const Rect before = place.target;
  const int left = std::max(-before.x, 0), top = std::max(-before.y, 0);
  const int right = std::max(before.x + before.width - area.width, 0);
  const int bottom = std::max(before.y + before.height - area.height, 0);
  if (left + right >= before.width || top + bottom >= before.height) return false;
  if (left + right + top + bottom == 0) return true;
  // sides of the source that become left, top, right, bottom
  const auto share = [](int cut, int target, int source) {
    return static_cast<int>(int64_t{cut} * source / target) & ~1;
  };
  int cuts[4] = {left, top, right, bottom};
  place.target = {before.x + left, before.y + top, before.width - left - right, before.height - top - bottom};
  Rect &s = place.source;
  const bool turned = quarterTurn(rotation);
  const int w = turned ? before.height : before.width, h = turned ? before.width : before.height;
  int order[4] = {0, 1, 2, 3}; // which of the display's sides is the source's left, top, right, bottom
  const auto assign = [&](int a, int b, int c, int d) { order[0] = a, order[1] = b, order[2] = c, order[3] = d; };
  if (rotation & DRM_MODE_ROTATE_90) assign(3, 0, 1, 2); // counter-clockwise: what was left is at the bottom
  if (rotation & DRM_MODE_ROTATE_180) assign(2, 3, 0, 1);
  if (rotation & DRM_MODE_ROTATE_270) assign(1, 2, 3, 0);
  if (rotation & DRM_MODE_REFLECT_X) std::swap(order[0], order[2]);
  if (rotation & DRM_MODE_REFLECT_Y) std::swap(order[1], order[3]);
  const int l = share(cuts[order[0]], w, s.width), t = share(cuts[order[1]], h, s.height);
  const int r = share(cuts[order[2]], w, s.width), b = share(cuts[order[3]], h, s.height);
  if (l + r >= s.width || t + b >= s.height) return false;
  s = {s.x + l, s.y + t, s.width - l - r, s.height - t - b};
  const int sw = turned ? s.height : s.width, sh = turned ? s.width : s.height;
  place.scaled = place.target.width != sw || place.target.height != sh;
  return true;
}

} // namespace

std::vector<Placement> placements(const FrameNeed &need, const Area &area) {
  std::vector<Placement> result;
  const Rect source = need.source();
  const bool turned = quarterTurn(need.rotation);
  const int frame_width = turned ? source.height : source.width, frame_height = turned ? source.width : source.height;
  const Rect &into = area.rectangle;
  // in square pixels
  double shown_width = double(source.width) * need.par_n / std::max(need.par_d, 1), shown_height = source.height;
  if (turned) std::swap(shown_width, shown_height);
  const double factor = std::min(into.width / shown_width, into.height / shown_height);
  Placement fit;
  fit.source = source;
  fit.target = into;
  if (area.keep_aspect) {
    fit.target.width = std::clamp(static_cast<int>(std::lround(shown_width * factor)), 1, into.width);
    fit.target.height = std::clamp(static_cast<int>(std::lround(shown_height * factor)), 1, into.height);
    fit.target.x += (into.width - fit.target.width) / 2;
    fit.target.y += (into.height - fit.target.height) / 2;
  }
  fit.scaled = fit.target.width != frame_width || fit.target.height != frame_height;
  if (fit.scaled && cutOff(fit, area, need.rotation)) result.push_back(fit);

  Placement plain;
  plain.source = source;
  const auto axis = [](int from, int frame, int display, int *start, int *to, int *length) {
    *length = std::min(frame, display);
    *start = from + (((frame - *length) / 2) & ~1);
    *to = (display - *length) / 2;
  };
  Rect &s = plain.source, &t = plain.target;
  axis(source.x, source.width, turned ? into.height : into.width, &s.x, turned ? &t.y : &t.x, &s.width);
  axis(source.y, source.height, turned ? into.width : into.height, &s.y, turned ? &t.x : &t.y, &s.height);
  t = {into.x + t.x, into.y + t.y, turned ? s.height : s.width, turned ? s.width : s.height};
  if (cutOff(plain, area, need.rotation)) {
    plain.scaled = false; // rounding of the cut edges may not change that
    if (turned)
      t.width = s.height, t.height = s.width;
    else
      t.width = s.width, t.height = s.height;
    result.push_back(plain);
  }
  return result;
}

std::vector<Placement> placements(const FrameNeed &need, int width, int height) {
  return placements(need, {{0, 0, width, height}, true, width, height});
}

std::vector<uint32_t> linearFormats(const KmsSnapshot &snapshot, size_t crtc) {
  DrmFormatSet linear;
  for (const uint32_t type : {DRM_PLANE_TYPE_PRIMARY, DRM_PLANE_TYPE_OVERLAY})
    for (const KmsPlane &plane : snapshot.planes) {
      if (plane.type != type || !usable(plane, crtc)) continue;
      for (const DrmFormat &f : plane.formats)
        if (f.modifier == DRM_FORMAT_MOD_LINEAR) linear.add(f);
    }
  std::vector<uint32_t> result;
  for (const DrmFormat &f : linear.formats()) result.push_back(f.fourcc);
  return result;
}

} // namespace gstzc
