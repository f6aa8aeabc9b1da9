// SPDX-License-Identifier: LGPL-2.1-or-later
// The demo on a machine's own camera and display.
#pragma once

#include <string>
#include <vector>

#include "gst/zerocopy/core/result.h"
#include "tests/lab/demo/first_light.h"

namespace firstlight {

struct NativeDevices {
  std::string camera, camera_name; // "/dev/video0", "uvcvideo: HD Webcam"
  std::string display;             // "/dev/dri/card0"
  std::vector<gstzc::Error> missing;
};

// The first video node of `dev` that captures and streams, and the display that drmmodifiersink would choose. What is
// not there, or not to be had, is in `missing`, each with what to do; then the demo cannot run.
NativeDevices findNative(const std::string &dev = "/dev");

// Frames of the camera on the display, as runCamera(); options.photo, display and picture are not used.
gstzc::Result<Report> runNative(const Options &options, const NativeDevices &devices);

} // namespace firstlight
