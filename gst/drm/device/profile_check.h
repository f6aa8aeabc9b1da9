// SPDX-License-Identifier: LGPL-2.1-or-later
// What the kernel checks before it takes a framebuffer or a commit, for a device that a profile describes. Pure
// functions; the errors are those that the kernel gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gst/drm/kms_device.h"
#include "gst/drm/profile/device_profile.h"

namespace gstzc {

struct ProfileVerdict {
  int error = 0; // errno; 0: taken
  std::string why;
  bool open = false; // taken because the profile does not say that it cannot be
};

// What exists besides planes, CRTCs and connectors.
struct ProfileObjects {
  std::map<uint32_t, FramebufferRequest> framebuffers;
  std::map<uint32_t, std::vector<std::byte>> blobs;
};

// The mode in a blob; nothing where there is no such blob, or it is none of a mode.
std::optional<drmModeModeInfo> modeOf(const ProfileObjects &objects, uint64_t blob);

// One value by itself: may this property have it?
ProfileVerdict checkValue(const std::string &name, const KmsProperty &property, uint64_t value,
                          const KmsSnapshot &snapshot, const ProfileObjects &objects);

// A new framebuffer. `sizes`: bytes behind each of its handles; absent: there is no such handle.
ProfileVerdict checkFramebuffer(const KmsSnapshot &snapshot, const FramebufferRequest &request,
                                const std::vector<std::optional<uint64_t>> &sizes);

// The properties' values in `profile.snapshot` as a whole: what the commit would lead to. The snapshot's other members
// still say what was before (which CRTC is on, with which mode, and what belongs to it). Looks at `crtcs` (bit i:
// CRTC i) and what is or was on them.
ProfileVerdict checkState(const DeviceProfile &profile, const ProfileObjects &objects, uint32_t crtcs,
                          bool allow_modeset);

// Present value of a property; 0 where the object has none of that name.
uint64_t valueOf(const KmsProperties &properties, const char *name);

} // namespace gstzc
