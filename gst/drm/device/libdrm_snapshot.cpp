// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>

#include <drm_fourcc.h>
#include <xf86drm.h>

#include "gst/drm/device/libdrm_device.h"
#include "gst/drm/format_blob.h"

namespace gstzc {
namespace {

template <typename T, void (*Free)(T *)> struct Freer {
  void operator()(T *p) const { Free(p); }
};
template <typename T, void (*Free)(T *)> using Owned = std::unique_ptr<T, Freer<T, Free>>;
using OwnedResources = Owned<drmModeRes, drmModeFreeResources>;
using OwnedPlanes = Owned<drmModePlaneRes, drmModeFreePlaneResources>;
using OwnedPlane = Owned<drmModePlane, drmModeFreePlane>;
using OwnedConnector = Owned<drmModeConnector, drmModeFreeConnector>;
using OwnedEncoder = Owned<drmModeEncoder, drmModeFreeEncoder>;
using OwnedBlob = Owned<drmModePropertyBlobRes, drmModeFreePropertyBlob>;
using OwnedProperties = Owned<drmModeObjectProperties, drmModeFreeObjectProperties>;
using OwnedProperty = Owned<drmModePropertyRes, drmModeFreeProperty>;

// Properties of one KMS object with their present values.
KmsProperties readProperties(int fd, uint32_t object, uint32_t type) {
  KmsProperties result;
  OwnedProperties list(drmModeObjectGetProperties(fd, object, type));
  if (!list) return result;
  for (uint32_t i = 0; i < list->count_props; ++i) {
    OwnedProperty p(drmModeGetProperty(fd, list->props[i]));
    if (!p) continue;
    KmsProperty property;
    property.id = p->prop_id;
    property.flags = p->flags;
    property.value = list->prop_values[i];
    for (int e = 0; e < p->count_enums; ++e) property.values.emplace_back(p->enums[e].name, p->enums[e].value);
    if (drm_property_type_is(p.get(), DRM_MODE_PROP_RANGE) && p->count_values == 2) {
      property.values.emplace_back("min", p->values[0]);
      property.values.emplace_back("max", p->values[1]);
    }
    result.emplace(p->name, std::move(property));
  }
  return result;
}

KmsConnector readConnector(int fd, const drmModeConnector &c) {
  KmsConnector result;
  result.id = c.connector_id;
  result.type = c.connector_type;
  const char *type = drmModeGetConnectorTypeName(c.connector_type);
  result.name = std::string(type != nullptr ? type : "Unknown") + "-" + std::to_string(c.connector_type_id);
  result.status = c.connection;
  result.modes.assign(c.modes, c.modes + c.count_modes);
  for (int e = 0; e < c.count_encoders; ++e) {
    OwnedEncoder encoder(drmModeGetEncoder(fd, c.encoders[e]));
    if (encoder) result.possible_crtcs |= encoder->possible_crtcs;
  }
  if (c.count_encoders == 0) result.possible_crtcs = ~0u; // bits past the last CRTC mean nothing
  result.properties = readProperties(fd, c.connector_id, DRM_MODE_OBJECT_CONNECTOR);
  if (const auto p = result.properties.find("CRTC_ID"); p != result.properties.end())
    result.crtc = static_cast<uint32_t>(p->second.value);
  if (const auto p = result.properties.find("EDID"); p != result.properties.end() && p->second.value != 0) {
    OwnedBlob blob(drmModeGetPropertyBlob(fd, static_cast<uint32_t>(p->second.value)));
    const auto *bytes = blob ? static_cast<const uint8_t *>(blob->data) : nullptr;
    if (bytes != nullptr) result.edid.assign(bytes, bytes + blob->length);
  }
  return result;
}

KmsCrtc readCrtc(int fd, uint32_t id) {
  KmsCrtc result;
  result.id = id;
  result.properties = readProperties(fd, id, DRM_MODE_OBJECT_CRTC);
  if (const auto p = result.properties.find("ACTIVE"); p != result.properties.end())
    result.active = p->second.value != 0;
  if (const auto p = result.properties.find("MODE_ID"); p != result.properties.end() && p->second.value != 0) {
    OwnedBlob blob(drmModeGetPropertyBlob(fd, static_cast<uint32_t>(p->second.value)));
    if (blob && blob->length >= sizeof(drmModeModeInfo))
      result.mode = *static_cast<const drmModeModeInfo *>(blob->data);
  }
  return result;
}

KmsPlane readPlane(int fd, const drmModePlane &p) {
  KmsPlane result;
  result.id = p.plane_id;
  result.possible_crtcs = p.possible_crtcs;
  result.crtc = p.crtc_id;
  result.properties = readProperties(fd, p.plane_id, DRM_MODE_OBJECT_PLANE);
  if (const auto t = result.properties.find("type"); t != result.properties.end())
    result.type = static_cast<uint32_t>(t->second.value);
  if (const auto f = result.properties.find("IN_FORMATS"); f != result.properties.end() && f->second.value != 0) {
    OwnedBlob blob(drmModeGetPropertyBlob(fd, static_cast<uint32_t>(f->second.value)));
    if (blob) {
      if (auto formats = parseInFormats(blob->data, blob->length)) result.formats = std::move(*formats);
    }
  }
  // Drivers without IN_FORMATS (and blobs that hold nothing) say what they take in the older list: layouts implicit,
  // and a linear one is what a driver without modifiers understands.
  result.has_in_formats = !result.formats.empty();
  if (result.formats.empty())
    for (uint32_t f = 0; f < p.count_formats; ++f) result.formats.push_back({p.formats[f], DRM_FORMAT_MOD_LINEAR});
  return result;
}

} // namespace

Result<KmsSnapshot> readSnapshot(int fd, const std::string &path, const std::string &driver,
                                 KmsDevice::Outputs outputs) {
  KmsSnapshot result;
  result.path = path;
  result.driver = driver;
  uint64_t value = 0;
  result.addfb2_modifiers = drmGetCap(fd, DRM_CAP_ADDFB2_MODIFIERS, &value) == 0 && value != 0;
  result.async_flips = drmGetCap(fd, DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP, &value) == 0 && value != 0;
  result.dumb_buffers = drmGetCap(fd, DRM_CAP_DUMB_BUFFER, &value) == 0 && value != 0;

  OwnedResources resources(drmModeGetResources(fd));
  if (!resources) return Error{"read the outputs of " + path, errno, "It has to be a display device"};
  result.min_width = resources->min_width;
  result.max_width = resources->max_width;
  result.min_height = resources->min_height;
  result.max_height = resources->max_height;
  for (int i = 0; i < resources->count_crtcs; ++i) result.crtcs.push_back(readCrtc(fd, resources->crtcs[i]));
  for (int i = 0; i < resources->count_connectors; ++i) {
    const uint32_t id = resources->connectors[i];
    OwnedConnector c(outputs == KmsDevice::Outputs::Probe ? drmModeGetConnector(fd, id)
                                                          : drmModeGetConnectorCurrent(fd, id));
    if (c) result.connectors.push_back(readConnector(fd, *c));
  }
  OwnedPlanes planes(drmModeGetPlaneResources(fd));
  for (uint32_t i = 0; planes && i < planes->count_planes; ++i) {
    OwnedPlane p(drmModeGetPlane(fd, planes->planes[i]));
    if (p) result.planes.push_back(readPlane(fd, *p));
  }
  return result;
}

} // namespace gstzc
