// SPDX-License-Identifier: LGPL-2.1-or-later
// A display device described by a file: what a snapshot of it would hold, and how its driver behaves. Read from JSON of
// our schema (docs/negotiation.md) or of `drm_info -j`, written in our schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gst/drm/kms_types.h"
#include "gst/drm/planning.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// Behaviour of a driver that no property announces.
struct ProfileQuirks {
  int in_fence_fd = 0;            // errno of a commit with IN_FENCE_FD, e.g. EPERM; 0: it is taken
  bool no_foreign_memory = false; // takes no dma-bufs but its own
  bool needs_primary = false;     // a CRTC that is on needs its primary plane on (EINVAL)
};

// What TEST_ONLY refuses though properties and limits allow it. Every condition that is set has to hold.
struct ProfileRefusal {
  std::string plane;               // the plane's label; empty: any
  std::optional<uint32_t> type;    // DRM_PLANE_TYPE_*
  std::vector<uint32_t> fourccs;   // empty: any
  std::vector<uint64_t> modifiers; // empty: any; compared as sameLayout() does
  // of the source, pixels, ends included
  std::optional<uint32_t> min_width, min_height, max_width, max_height;
  std::optional<bool> scaled;
  uint32_t rotations = 0; // DRM_MODE_ROTATE_*, DRM_MODE_REFLECT_*: one of these is asked for; 0: whatever is
  int error = 0;          // errno, positive
  std::string why;        // for messages; may be empty
};

struct DeviceProfile {
  // Complete: objects have ids, planes, CRTCs and connectors the atomic properties that each driver has.
  KmsSnapshot snapshot;
  std::string device;     // hardware generation or board, for people
  std::string provenance; // where the facts come from
  std::vector<std::string> notes;
  std::vector<std::string> warnings; // about the file: keys that are ignored; not written
  ProfileQuirks quirks;
  std::vector<ProfileRefusal> refusals;
};

// Bounds of what is read: files that pass one of them are refused.
constexpr size_t kMaxProfileBytes = size_t{8} << 20;
constexpr size_t kMaxProfileDepth = 32;              // nested arrays and objects
constexpr size_t kMaxProfileObjects = 256;           // planes; connectors; CRTCs: 32, the kernel's limit
constexpr size_t kMaxPlaneFormats = 512;             // fourccs of a plane
constexpr size_t kMaxPlaneModifiers = 512;           // of a plane
constexpr size_t kMaxPlanePairs = 32768;             // format and modifier, of a plane
constexpr size_t kMaxPlanesBytes = size_t{64} << 20; // of memory that all planes take: a group stands for many
constexpr size_t kMaxProfileEntries = 4096;          // modes, property values, limits, refusals, notes: of one list

// `name`: how errors call the text, such as its file's path; a device without a path is called by its last part.
// `node`: of drm_info's output, which may hold several devices, the one to take ("/dev/dri/card0"); empty: the first
// with a connected output, else the first. Errors name the place in the JSON and the value there: `rk3588.json:
// planes[1].in_formats[0].modifier: "0xg"`.
Result<DeviceProfile> parseProfile(std::string_view text, const std::string &name, const std::string &node = "");
// What a file or a pipe holds, up to a little more than kMaxProfileBytes. Errors: neither, a pipe that brings nothing
// for 10 s.
Result<std::string> readProfileText(const std::string &path);
// The same of a file or a pipe, called by its path.
Result<DeviceProfile> loadProfile(const std::string &path, const std::string &node = "");

// In our schema, with every property; parseProfile() of it gives the same profile.
std::string writeProfile(const DeviceProfile &profile);

// One plane as a commit would set it.
struct PlaneTest {
  size_t plane = 0; // index into KmsSnapshot::planes
  DrmFormat format;
  Rect source, target;                     // pixels
  uint32_t rotation = 0;                   // DRM_MODE_ROTATE_* and DRM_MODE_REFLECT_*; 0 is DRM_MODE_ROTATE_0
  int buffer_width = 0, buffer_height = 0; // of the framebuffer; 0: that of the source
};

struct PlaneVerdict {
  int error = 0;   // 0: nothing speaks against it; else the errno that the driver would return
  std::string why; // a sentence
  // What decides whether it works is not in the profile: scaling, a size. On the device TEST_ONLY has to say.
  bool open = false;
};

// What TEST_ONLY of the described device says to this plane alone: formats and modifiers, limits, rotation, refusals.
PlaneVerdict testPlane(const DeviceProfile &profile, const PlaneTest &test);

} // namespace gstzc
