// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/demo/native.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>

#include "gst/drm/kms_device.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace firstlight {
namespace {

using gstzc::Error;
namespace fs = std::filesystem;

std::vector<std::string> videoNodes(const std::string &dev) {
  std::vector<std::string> nodes;
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(dev, ignored))
    if (entry.path().filename().string().starts_with("video")) nodes.push_back(entry.path().string());
  std::sort(nodes.begin(), nodes.end(), [](const std::string &a, const std::string &b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b; // video2 before video10
  });
  return nodes;
}

// Nothing: found, or it is in *devices.
std::optional<Error> findCamera(const std::string &dev, NativeDevices *devices) {
  const auto nodes = videoNodes(dev);
  std::optional<Error> denied;
  for (const std::string &path : nodes) {
    const gstzc::UniqueFd fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd.isValid()) {
      if (!denied && (errno == EACCES || errno == EPERM))
        denied =
            Error{"camera: open " + path, errno, "Join the group that may (see ls -l " + path + "), or run as root"};
      continue;
    }
    v4l2_capability capability = {};
    if (ioctl(fd.get(), VIDIOC_QUERYCAP, &capability) != 0) continue;
    const uint32_t caps =
        capability.capabilities & V4L2_CAP_DEVICE_CAPS ? capability.device_caps : capability.capabilities;
    if ((caps & (V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_VIDEO_CAPTURE_MPLANE)) == 0 || (caps & V4L2_CAP_STREAMING) == 0)
      continue;
    devices->camera = path;
    devices->camera_name = std::string(reinterpret_cast<const char *>(capability.driver)) + ": " +
                           reinterpret_cast<const char *>(capability.card);
    return std::nullopt;
  }
  if (denied) return denied;
  return Error{nodes.empty() ? "camera: " + dev + " has no video nodes"
                             : "camera: none of the " + std::to_string(nodes.size()) + " video nodes in " + dev +
                                   " captures frames",
               0, "Connect a camera, or load its driver's module (for USB cameras: modprobe uvcvideo)"};
}

} // namespace

NativeDevices findNative(const std::string &dev) {
  NativeDevices devices;
  if (auto error = findCamera(dev, &devices)) devices.missing.push_back(*error);
  // opened like the element does: a display that somebody else is master of is not to be had
  if (auto display = gstzc::openDisplay({}); display) {
    devices.display = (*display)->path();
  } else {
    Error error = display.error();
    error.what = "display: " + error.what;
    devices.missing.push_back(error);
  }
  return devices;
}

} // namespace firstlight
