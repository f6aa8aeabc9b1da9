// SPDX-License-Identifier: LGPL-2.1-or-later
// Invented devices for tests of planning.
#pragma once

#include <cstdio>

#include <drm_fourcc.h>

#include "gst/drm/kms_types.h"
#include "gst/drm/mode.h"

namespace gstzc::testdata {

inline KmsProperty property(uint32_t id, uint64_t value) {
  KmsProperty p;
  p.id = id;
  p.value = value;
  return p;
}

inline KmsPlane plane(uint32_t id, uint32_t type, std::vector<DrmFormat> formats, uint32_t crtcs = 1) {
  KmsPlane p;
  p.id = id;
  p.type = type;
  p.possible_crtcs = crtcs;
  p.formats = std::move(formats);
  return p;
}

inline KmsPlane withZpos(KmsPlane p, uint64_t value, uint64_t max, bool immutable) {
  KmsProperty z = property(100, value);
  z.flags = DRM_MODE_PROP_RANGE | (immutable ? DRM_MODE_PROP_IMMUTABLE : 0u);
  z.values = {{"min", 0}, {"max", max}};
  p.properties.emplace("zpos", z);
  return p;
}

inline drmModeModeInfo listed(int width, int height, double refresh = 60, bool preferred = false) {
  drmModeModeInfo mode = generateMode(width, height, refresh);
  mode.type = static_cast<uint32_t>(DRM_MODE_TYPE_DRIVER | (preferred ? DRM_MODE_TYPE_PREFERRED : 0));
  return mode;
}

inline KmsConnector connector(uint32_t id, const char *name, drmModeConnection status,
                              uint32_t type = DRM_MODE_CONNECTOR_HDMIA) {
  KmsConnector c;
  c.id = id;
  c.name = name;
  c.type = type;
  c.status = status;
  c.possible_crtcs = 1;
  if (c.connected()) c.modes = {listed(1024, 768, 60, true), listed(1920, 1080), listed(800, 600), listed(640, 480)};
  return c;
}

constexpr DrmFormat kXr24{DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR};
constexpr DrmFormat kAr24{DRM_FORMAT_ARGB8888, DRM_FORMAT_MOD_LINEAR};
constexpr DrmFormat kNv12{DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR};
constexpr DrmFormat kNv12Tiled{DRM_FORMAT_NV12, I915_FORMAT_MOD_Y_TILED};

// One output, a primary plane for RGB only, an overlay with video formats, one for RGB with alpha, a cursor.
inline KmsSnapshot desk() {
  KmsSnapshot s;
  s.path = "/dev/dri/card0";
  s.driver = "invented";
  s.min_width = s.min_height = 16;
  s.max_width = s.max_height = 8192;
  s.addfb2_modifiers = s.dumb_buffers = true;
  s.connectors = {connector(30, "HDMI-A-1", DRM_MODE_CONNECTED)};
  KmsCrtc crtc;
  crtc.id = 40;
  s.crtcs = {crtc};
  s.planes = {plane(50, DRM_PLANE_TYPE_PRIMARY, {kXr24, kAr24}),
              plane(51, DRM_PLANE_TYPE_OVERLAY, {kNv12, kNv12Tiled, kXr24}), plane(52, DRM_PLANE_TYPE_OVERLAY, {kAr24}),
              plane(53, DRM_PLANE_TYPE_CURSOR, {kAr24, kNv12})};
  return s;
}

} // namespace gstzc::testdata
