// SPDX-License-Identifier: LGPL-2.1-or-later
#include "planes.h"

#include <algorithm>
#include <cstdio>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/zerocopy/core/drm_format.h"

namespace gstzc::inspect {

std::vector<PlaneFormats> planeFormats(const KmsSnapshot &snapshot, size_t crtc) {
  std::vector<size_t> order;
  for (const OfferedGroup &group : offers(snapshot, crtc, FailureMemory()).groups)
    if (std::find(order.begin(), order.end(), group.plane) == order.end()) order.push_back(group.plane);
  for (const bool cursors : {false, true})
    for (size_t i = 0; i < snapshot.planes.size(); ++i)
      if (((snapshot.planes[i].possible_crtcs >> crtc) & 1) != 0 &&
          (snapshot.planes[i].type == DRM_PLANE_TYPE_CURSOR) == cursors &&
          std::find(order.begin(), order.end(), i) == order.end())
        order.push_back(i);

  std::vector<PlaneFormats> result;
  for (const size_t index : order) {
    const KmsPlane &plane = snapshot.planes[index];
    PlaneFormats formats{index, {}};
    for (const DrmFormat &pair : plane.formats) {
      const uint64_t modifier = plane.has_in_formats ? pair.modifier : DRM_FORMAT_MOD_INVALID;
      auto it = std::find_if(formats.layouts.begin(), formats.layouts.end(),
                             [&](const LayoutFormats &l) { return l.modifier == modifier; });
      if (it == formats.layouts.end()) it = formats.layouts.insert(it, {modifier, layoutTier(modifier), {}});
      it->fourccs.push_back(pair.fourcc);
    }
    std::stable_sort(formats.layouts.begin(), formats.layouts.end(),
                     [](const LayoutFormats &a, const LayoutFormats &b) { return a.tier > b.tier; });
    result.push_back(std::move(formats));
  }
  return result;
}

std::string fourccName(uint32_t fourcc) {
  std::string name = toString({fourcc, DRM_FORMAT_MOD_LINEAR});
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

std::string hexModifier(uint64_t modifier) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(modifier));
  return text;
}

std::string layoutText(uint64_t modifier) {
  if (modifier == DRM_FORMAT_MOD_INVALID) return "implicit";
  return modifier == DRM_FORMAT_MOD_LINEAR ? "linear" : layoutName(modifier);
}

std::string pairText(const DrmFormat &format) { return fourccName(format.fourcc) + " " + layoutText(format.modifier); }

void writePlane(JsonWriter *json, const KmsPlane &plane) {
  json->beginObject();
  json->member("id", plane.id);
  json->member("type", planeKind(plane.type));
  json->memberOrNull("label", plane.label);
  json->endObject();
}

void writePair(JsonWriter *json, const DrmFormat &format) {
  json->beginObject();
  json->member("format", fourccName(format.fourcc));
  json->memberOrNull("drm_format", format.modifier == DRM_FORMAT_MOD_INVALID ? "" : toString(format));
  json->member("modifier", hexModifier(format.modifier));
  json->member("layout", layoutText(format.modifier));
  json->member("tier", tierName(layoutTier(format.modifier)));
  json->endObject();
}

} // namespace gstzc::inspect
