// SPDX-License-Identifier: LGPL-2.1-or-later
// Who of this process has which output and plane of a device. The kernel knows only one master, and would let two sinks
// of it take planes from each other.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "gst/drm/kms_types.h"

namespace gstzc {

// Thread safe.
class Claims {
public:
  using Owner = const void *;

  // Outputs may have several owners, on one CRTC. False: one of them is used with another one.
  bool claimOutput(Owner owner, uint32_t connector, uint32_t crtc);
  // For use on that CRTC. False: another owner has it.
  bool claimPlane(Owner owner, uint32_t plane, uint32_t crtc);
  void releasePlane(Owner owner, uint32_t plane);
  void release(Owner owner); // everything

  // What others have claimed becomes `claimed` in the snapshot, and looks like in use on its CRTC, whether the kernel
  // has heard of it or not.
  void mark(KmsSnapshot &snapshot, Owner owner) const;

private:
  struct Claim {
    Owner owner = nullptr;
    uint32_t crtc = 0;
  };
  struct OutputClaim {
    Owner owner = nullptr;
    uint32_t connector = 0, crtc = 0;
  };

  mutable std::mutex mutex_;
  std::vector<OutputClaim> outputs_;
  std::map<uint32_t, Claim> planes_; // by id
};

} // namespace gstzc
