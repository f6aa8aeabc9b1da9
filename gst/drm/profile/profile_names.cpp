// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/profile_names.h"

#include <cerrno>
#include <cstring>

#include <drm_mode.h>
#include <xf86drmMode.h>

#include "gst/drm/planning.h"

namespace gstzc {
namespace {

struct NamedBits {
  const char *name;
  uint32_t value;
};
constexpr NamedBits kRotations[] = {{"rotate-0", DRM_MODE_ROTATE_0},     {"rotate-90", DRM_MODE_ROTATE_90},
                                    {"rotate-180", DRM_MODE_ROTATE_180}, {"rotate-270", DRM_MODE_ROTATE_270},
                                    {"reflect-x", DRM_MODE_REFLECT_X},   {"reflect-y", DRM_MODE_REFLECT_Y}};
constexpr NamedBits kPropertyTypes[] = {{"range", DRM_MODE_PROP_RANGE},   {"signed-range", DRM_MODE_PROP_SIGNED_RANGE},
                                        {"enum", DRM_MODE_PROP_ENUM},     {"bitmask", DRM_MODE_PROP_BITMASK},
                                        {"object", DRM_MODE_PROP_OBJECT}, {"blob", DRM_MODE_PROP_BLOB}};
constexpr int kMaxErrno = 133;
constexpr uint32_t kMaxConnectorType = 64; // libdrm names those it knows

template <size_t N> std::optional<uint32_t> find(const NamedBits (&table)[N], std::string_view name) {
  for (const NamedBits &n : table)
    if (name == n.name) return n.value;
  return std::nullopt;
}

KmsProperty make(uint32_t id, uint32_t flags, uint64_t value,
                 std::vector<std::pair<std::string, uint64_t>> values = {}) {
  KmsProperty p;
  p.id = id;
  p.flags = flags;
  p.value = value;
  p.values = std::move(values);
  return p;
}

} // namespace

std::string planeTypeName(uint32_t type) {
  std::string name = planeKind(type);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::optional<uint32_t> planeTypeOf(std::string_view name) {
  for (const uint32_t type : {DRM_PLANE_TYPE_OVERLAY, DRM_PLANE_TYPE_PRIMARY, DRM_PLANE_TYPE_CURSOR})
    if (planeTypeName(type) == name) return type;
  return std::nullopt;
}

std::optional<uint32_t> connectorTypeOf(std::string_view name) {
  for (uint32_t type = 0; type <= kMaxConnectorType; ++type) {
    const char *known = drmModeGetConnectorTypeName(type);
    if (known != nullptr && name == known) return type;
  }
  return std::nullopt;
}

std::string connectorTypeName(uint32_t type) {
  const char *name = drmModeGetConnectorTypeName(type);
  return name != nullptr ? name : "Unknown";
}

std::optional<uint32_t> rotationOf(std::string_view name) { return find(kRotations, name); }

std::vector<std::string> rotationNames(uint32_t mask) {
  std::vector<std::string> names;
  for (const NamedBits &n : kRotations)
    if (mask & n.value) names.emplace_back(n.name);
  return names;
}

std::optional<int> errnoOf(std::string_view name) {
  for (int code = 1; code <= kMaxErrno; ++code) {
    const char *known = strerrorname_np(code);
    if (known != nullptr && name == known) return code;
  }
  return std::nullopt;
}

std::string errnoText(int code) {
  const char *name = strerrorname_np(code);
  return name != nullptr ? name : std::to_string(code);
}

std::optional<uint32_t> propertyTypeOf(std::string_view name) { return find(kPropertyTypes, name); }

void addAtomicProperties(KmsSnapshot &snapshot, uint32_t *next) {
  constexpr uint32_t kAtomic = DRM_MODE_PROP_ATOMIC, kImmutable = DRM_MODE_PROP_IMMUTABLE;
  const auto add = [&](KmsProperties &properties, const char *name, uint32_t flags, uint64_t value,
                       std::vector<std::pair<std::string, uint64_t>> values = {}) {
    if (properties.contains(name)) return;
    properties.emplace(name, make((*next)++, flags, value, std::move(values)));
  };
  const auto range = [&](KmsProperties &properties, const char *name, uint32_t flags, uint64_t max) {
    add(properties, name, flags, 0, {{"min", 0}, {"max", max}});
  };
  for (KmsConnector &c : snapshot.connectors) add(c.properties, "CRTC_ID", DRM_MODE_PROP_OBJECT | kAtomic, c.crtc);
  for (KmsCrtc &c : snapshot.crtcs) {
    range(c.properties, "ACTIVE", DRM_MODE_PROP_RANGE | kAtomic, 1);
    c.properties["ACTIVE"].value = c.active ? 1 : 0;
    add(c.properties, "MODE_ID", DRM_MODE_PROP_BLOB | kAtomic, 0);
    range(c.properties, "OUT_FENCE_PTR", DRM_MODE_PROP_RANGE | kAtomic, UINT64_MAX);
  }
  for (KmsPlane &p : snapshot.planes) {
    add(p.properties, "type", DRM_MODE_PROP_ENUM | kImmutable, p.type,
        {{"Overlay", DRM_PLANE_TYPE_OVERLAY}, {"Primary", DRM_PLANE_TYPE_PRIMARY}, {"Cursor", DRM_PLANE_TYPE_CURSOR}});
    add(p.properties, "FB_ID", DRM_MODE_PROP_OBJECT | kAtomic, 0);
    add(p.properties, "CRTC_ID", DRM_MODE_PROP_OBJECT | kAtomic, p.crtc);
    add(p.properties, "IN_FENCE_FD", DRM_MODE_PROP_SIGNED_RANGE | kAtomic, static_cast<uint64_t>(-1),
        {{"min", static_cast<uint64_t>(-1)}, {"max", INT32_MAX}});
    for (const char *name : {"CRTC_X", "CRTC_Y"})
      add(p.properties, name, DRM_MODE_PROP_SIGNED_RANGE | kAtomic, 0,
          {{"min", static_cast<uint64_t>(int64_t{INT32_MIN})}, {"max", INT32_MAX}});
    for (const char *name : {"CRTC_W", "CRTC_H"}) range(p.properties, name, DRM_MODE_PROP_RANGE | kAtomic, INT32_MAX);
    for (const char *name : {"SRC_X", "SRC_Y", "SRC_W", "SRC_H"})
      range(p.properties, name, DRM_MODE_PROP_RANGE | kAtomic, UINT32_MAX);
    // a blob of an id that nobody needs: its content is the plane's list of formats
    if (p.has_in_formats) add(p.properties, "IN_FORMATS", DRM_MODE_PROP_BLOB | kImmutable, (*next)++);
  }
}

} // namespace gstzc
