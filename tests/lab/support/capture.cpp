// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/capture.h"

#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

Result<std::string> capturePath(const std::string &driver) {
  constexpr int kNodes = 64;
  for (int n = 0; n < kNodes; ++n) {
    std::string path = "/dev/video" + std::to_string(n);
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    v4l2_capability capability = {};
    if (!fd.isValid() || ioctl(fd.get(), VIDIOC_QUERYCAP, &capability) != 0) continue;
    if (driver == reinterpret_cast<const char *>(capability.driver) &&
        (capability.device_caps & V4L2_CAP_VIDEO_CAPTURE) != 0)
      return path;
  }
  return Error{"no /dev/video* of the driver " + driver + " that captures", 0, ""};
}

} // namespace gstzc::lab
