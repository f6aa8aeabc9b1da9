// SPDX-License-Identifier: LGPL-2.1-or-later
// What a display device offers, as plain values: read once from the kernel (or invented by a test) and handed to the
// pure functions of planning.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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

using KmsProperties = std::map<std::string, KmsProperty, std::less<>>;

struct KmsConnector {
  uint32_t id = 0;
  uint32_t type = 0; // DRM_MODE_CONNECTOR_*
  std::string name;  // "HDMI-A-1"
  drmModeConnection status = DRM_MODE_UNKNOWNCONNECTION;
  std::vector<drmModeModeInfo> modes; // the kernel's order: the preferred one first
  uint32_t possible_crtcs = 0;        // bit i: crtcs[i]
  uint32_t crtc = 0;                  // the CRTC that drives it now, 0: none
  KmsProperties properties;
  bool claimed = false;      // another sink of this process has it
  std::vector<uint8_t> edid; // what the screen says of itself; empty: nothing

  bool connected() const { return status == DRM_MODE_CONNECTED; }
  bool writeback() const { return type == DRM_MODE_CONNECTOR_WRITEBACK; }
};

struct KmsCrtc {
  uint32_t id = 0;
  bool active = false;
  bool claimed = false; // another sink of this process has it
  std::optional<drmModeModeInfo> mode;
  KmsProperties properties;
};

// What a part of a plane's formats can, or all of them. Every member that is absent means "not known": the kernel tells
// none of this, only a description of a device does, and what it leaves open is for TEST_ONLY to say.
struct PlaneFormatLimits {
  std::vector<uint32_t> fourccs;                                        // empty: all
  std::vector<uint64_t> modifiers;                                      // empty: all; compared as sameLayout() does
  std::optional<uint32_t> min_width, min_height, max_width, max_height; // of the source, pixels of the frame
  std::optional<bool> scaling;                                          // false: shown pixel for pixel only
  std::optional<double> min_scale, max_scale; // target size / source size, each axis: 0.5 is half the size
  std::optional<bool> even; // source position and size are multiples of the format's chroma subsampling

  bool appliesTo(const DrmFormat &format) const {
    const auto fourcc = [&](uint32_t f) { return f == format.fourcc; };
    const auto layout = [&](uint64_t m) { return sameLayout({format.fourcc, m}, format); };
    return (fourccs.empty() || std::any_of(fourccs.begin(), fourccs.end(), fourcc)) &&
           (modifiers.empty() || std::any_of(modifiers.begin(), modifiers.end(), layout));
  }
};

// All entries that apply to a pair hold for it.
using PlaneLimits = std::vector<PlaneFormatLimits>;

struct KmsPlane {
  uint32_t id = 0;
  uint32_t type = DRM_PLANE_TYPE_OVERLAY; // DRM_PLANE_TYPE_*
  uint32_t possible_crtcs = 0;            // bit i: crtcs[i]
  uint32_t crtc = 0;                      // the CRTC it is shown on now, 0: none
  std::vector<DrmFormat> formats;         // the driver's order; without IN_FORMATS the older list, taken as linear
  bool has_in_formats = true;             // false: `formats` is that older list, layouts are implicit
  KmsProperties properties;
  bool claimed = false;              // another sink of this process has it, on `crtc`
  std::string label;                 // the hardware's name where a description of the device has it, else empty
  std::optional<PlaneLimits> limits; // nothing: not known

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
  bool async_flips = false;      // DRM_CAP_ATOMIC_ASYNC_PAGE_FLIP
  std::vector<KmsConnector> connectors;
  std::vector<KmsCrtc> crtcs;
  std::vector<KmsPlane> planes;
};

} // namespace gstzc
