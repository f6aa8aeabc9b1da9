// SPDX-License-Identifier: LGPL-2.1-or-later
// What a display device offers, as plain values: read once from the kernel (or invented by a test) and handed to the
// pure functions of planning.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <xf86drmMode.h>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc {

struct KmsProperty {
  uint32_t id = 0;
  uint64_t value = 0;
  uint32_t flags = 0;                                   // DRM_MODE_PROP_*
  std::vector<std::pair<std::string, uint64_t>> values; // enum: names and values; range: "min" and "max"

  bool immutable() const { return (flags & DRM_MODE_PROP_IMMUTABLE) != 0; }
  std::optional<uint64_t> named(const std::string &name) const {
    for (const auto &[n, v] : values)
      if (n == name) return v;
    return std::nullopt;
  }
};

using KmsProperties = std::map<std::string, KmsProperty>;

struct KmsConnector {
  uint32_t id = 0;
  uint32_t type = 0; // DRM_MODE_CONNECTOR_*
  std::string name;  // "HDMI-A-1"
  drmModeConnection status = DRM_MODE_UNKNOWNCONNECTION;
  std::vector<drmModeModeInfo> modes; // the kernel's order: the preferred one first
  uint32_t possible_crtcs = 0;        // bit i: crtcs[i]
  uint32_t crtc = 0;                  // the CRTC that drives it now, 0: none
  KmsProperties properties;

  bool connected() const { return status == DRM_MODE_CONNECTED; }
  bool writeback() const { return type == DRM_MODE_CONNECTOR_WRITEBACK; }
};

struct KmsCrtc {
  uint32_t id = 0;
  bool active = false;
  std::optional<drmModeModeInfo> mode;
  KmsProperties properties;
};

struct KmsPlane {
  uint32_t id = 0;
  uint32_t type = DRM_PLANE_TYPE_OVERLAY; // DRM_PLANE_TYPE_*
  uint32_t possible_crtcs = 0;            // bit i: crtcs[i]
  uint32_t crtc = 0;                      // the CRTC it is shown on now, 0: none
  std::vector<DrmFormat> formats;         // the driver's order; without IN_FORMATS the older list, taken as linear
  KmsProperties properties;

  bool supports(const DrmFormat &format) const {
    for (const DrmFormat &f : formats)
      if (sameLayout(f, format)) return true;
    return false;
  }
};

struct KmsSnapshot {
  std::string path;   // "/dev/dri/card0", or how the application's descriptor is called
  std::string driver; // the kernel driver's name, for messages only: no decision depends on it
  uint32_t min_width = 0, max_width = 0, min_height = 0, max_height = 0;
  bool addfb2_modifiers = false; // DRM_CAP_ADDFB2_MODIFIERS
  bool dumb_buffers = false;     // DRM_CAP_DUMB_BUFFER
  std::vector<KmsConnector> connectors;
  std::vector<KmsCrtc> crtcs;
  std::vector<KmsPlane> planes;
};

} // namespace gstzc
