// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/screen.h"

#include <cerrno>

namespace gstzc::lab {

Result<Screen> Screen::find(int card) {
  const DrmPtr<drmModeRes> resources(drmModeGetResources(card));
  for (int i = 0; resources && i < resources->count_connectors; ++i) {
    const DrmPtr<drmModeConnector> connector(drmModeGetConnector(card, resources->connectors[i]));
    if (!connector || connector->connection != DRM_MODE_CONNECTED ||
        connector->connector_type == DRM_MODE_CONNECTOR_WRITEBACK || connector->count_encoders == 0)
      continue;
    drmModeEncoder *encoder = drmModeGetEncoder(card, connector->encoders[0]);
    const uint32_t crtcs = encoder ? encoder->possible_crtcs : 0;
    drmModeFreeEncoder(encoder);
    for (int c = 0; c < resources->count_crtcs; ++c) {
      if (!(crtcs & (1u << c))) continue;
      for (const PlaneInfo &plane : planes(card))
        if (plane.type == DRM_PLANE_TYPE_PRIMARY && (plane.possibleCrtcs & (1u << c)))
          return Screen(card, connector->connector_id, resources->crtcs[c], plane.id);
    }
  }
  return Error{"the card has no connected output", ENODEV, ""};
}

bool Screen::add(drmModeAtomicReq *request, uint32_t object, uint32_t type, const char *name, uint64_t value) const {
  const uint32_t id = property(card_, object, type, name).id;
  return id != 0 && drmModeAtomicAddProperty(request, object, id, value) > 0;
}

Status Screen::show(uint32_t framebuffer, const drmModeModeInfo &mode,
                    const std::map<std::string, uint64_t> &planeValues) {
  uint32_t blob = 0;
  if (int rc = drmModeCreatePropertyBlob(card_, &mode, sizeof mode, &blob); rc < 0)
    return Error{"make a mode blob", -rc, ""};
  const DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
  bool ok = add(request.get(), connector_, DRM_MODE_OBJECT_CONNECTOR, "CRTC_ID", crtc_) &&
            add(request.get(), crtc_, DRM_MODE_OBJECT_CRTC, "MODE_ID", blob) &&
            add(request.get(), crtc_, DRM_MODE_OBJECT_CRTC, "ACTIVE", 1);
  std::map<std::string, uint64_t> values = {{"FB_ID", framebuffer},
                                            {"CRTC_ID", crtc_},
                                            {"SRC_X", 0},
                                            {"SRC_Y", 0},
                                            {"SRC_W", uint64_t{mode.hdisplay} << 16},
                                            {"SRC_H", uint64_t{mode.vdisplay} << 16},
                                            {"CRTC_X", 0},
                                            {"CRTC_Y", 0},
                                            {"CRTC_W", mode.hdisplay},
                                            {"CRTC_H", mode.vdisplay}};
  values.insert(planeValues.begin(), planeValues.end());
  for (const auto &[name, value] : values)
    ok = ok && add(request.get(), plane_, DRM_MODE_OBJECT_PLANE, name.c_str(), value);
  const int rc = ok ? drmModeAtomicCommit(card_, request.get(), DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr) : -ENOENT;
  drmModeDestroyPropertyBlob(card_, blob);
  if (rc < 0) return Error{std::string("set the mode ") + mode.name, -rc, ""};
  return Nothing{};
}

int Screen::flip(uint32_t framebuffer) {
  const DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
  add(request.get(), plane_, DRM_MODE_OBJECT_PLANE, "FB_ID", framebuffer);
  return -drmModeAtomicCommit(card_, request.get(), DRM_MODE_ATOMIC_NONBLOCK, nullptr);
}

Status Screen::off() {
  const DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
  add(request.get(), plane_, DRM_MODE_OBJECT_PLANE, "FB_ID", 0);
  add(request.get(), plane_, DRM_MODE_OBJECT_PLANE, "CRTC_ID", 0);
  add(request.get(), connector_, DRM_MODE_OBJECT_CONNECTOR, "CRTC_ID", 0);
  add(request.get(), crtc_, DRM_MODE_OBJECT_CRTC, "MODE_ID", 0);
  add(request.get(), crtc_, DRM_MODE_OBJECT_CRTC, "ACTIVE", 0);
  if (int rc = drmModeAtomicCommit(card_, request.get(), DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr); rc < 0)
    return Error{"switch the output off", -rc, ""};
  return Nothing{};
}

Result<uint64_t> Screen::enumValue(const char *name, const char *value) const {
  const Property found = property(card_, plane_, DRM_MODE_OBJECT_PLANE, name);
  drmModePropertyRes *p = found.id ? drmModeGetProperty(card_, found.id) : nullptr;
  Result<uint64_t> result = Error{std::string("the plane has no ") + name + "=" + value, ENOENT, ""};
  for (int i = 0; p && i < p->count_enums; ++i)
    if (std::string(p->enums[i].name) == value) result = uint64_t{p->enums[i].value};
  drmModeFreeProperty(p);
  return result;
}

} // namespace gstzc::lab
