// SPDX-License-Identifier: LGPL-2.1-or-later
// The display a command works on: one that a file describes, or this machine's.
#pragma once

#include <string>

#include "gst/drm/planning.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/zerocopy/core/result.h"
#include "negotiation.h"

namespace gstzc::inspect {

struct DisplayRequest {
  std::string profile;   // a file; empty: this machine's display
  std::string device;    // card node, or the device of drm_info's output to take; empty: choose
  std::string connector; // name or id; empty: the first connected one
};

struct DisplaySource {
  DeviceProfile profile;
  bool described = false; // by a file: then profile.refusals and quirks say something
  std::string name;       // "rk3588.json (rockchip, RK3588 VOP2)", "/dev/dri/card0 (vkms)"
  Output output;

  const KmsConnector &connector() const { return profile.snapshot.connectors[output.connector]; }
};

// This machine's display is only read: whoever is its master stays so. Errors name the file or the node, and what each
// card lacks where none was asked for.
Result<DisplaySource> openDisplaySource(const DisplayRequest &request);

// The same without an output: a device where nothing is connected has planes too.
Result<DeviceProfile> readDevice(const DisplayRequest &request);

// Makes the sink that plays against the display. Errors: it is not installed, or too old for profiles.
MakeSink displaySink(const DisplayRequest &request);

} // namespace gstzc::inspect
