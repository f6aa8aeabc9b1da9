// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/output.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/videodev2.h>
#include <sys/ioctl.h>

namespace gstzc::lab {
namespace {
constexpr int kNodes = 64;
constexpr uint32_t kBuffers = 4;
} // namespace

Result<std::string> outputPath(const std::string &driver) {
  for (int n = 0; n < kNodes; ++n) {
    std::string path = "/dev/video" + std::to_string(n);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    v4l2_capability capability = {};
    if (!fd.isValid() || ioctl(fd.get(), VIDIOC_QUERYCAP, &capability) != 0) continue;
    if (driver == reinterpret_cast<const char *>(capability.driver) &&
        (capability.device_caps & V4L2_CAP_VIDEO_OUTPUT) != 0)
      return path;
  }
  return Error{"no /dev/video* of the driver " + driver + " that puts out", 0, ""};
}

Result<OutputDevice> OutputDevice::open(const std::string &path, uint32_t v4l2_format, uint32_t width,
                                        uint32_t height) {
  OutputDevice device(UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC)));
  if (!device.fd_.isValid()) return Error{"open " + path, errno, ""};
  struct v4l2_format format = {};
  format.type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
  format.fmt.pix.pixelformat = v4l2_format;
  format.fmt.pix.width = width;
  format.fmt.pix.height = height;
  if (ioctl(device.fd_.get(), VIDIOC_S_FMT, &format) != 0) return Error{"VIDIOC_S_FMT of " + path, errno, ""};
  if (format.fmt.pix.pixelformat != v4l2_format || format.fmt.pix.width != width || format.fmt.pix.height != height)
    return Error{path + " has no such format or size", 0, ""};
  device.frame_size_ = format.fmt.pix.sizeimage;
  v4l2_requestbuffers request = {};
  request.count = kBuffers;
  request.type = format.type;
  request.memory = V4L2_MEMORY_DMABUF;
  if (ioctl(device.fd_.get(), VIDIOC_REQBUFS, &request) != 0) return Error{"VIDIOC_REQBUFS of " + path, errno, ""};
  return device;
}

Status OutputDevice::queue(int dmabuf, size_t size) {
  v4l2_buffer buffer = {};
  buffer.type = V4L2_BUF_TYPE_VIDEO_OUTPUT;
  buffer.memory = V4L2_MEMORY_DMABUF;
  buffer.index = next_;
  buffer.m.fd = dmabuf;
  buffer.length = static_cast<uint32_t>(size);
  buffer.bytesused = static_cast<uint32_t>(frame_size_);
  if (ioctl(fd_.get(), VIDIOC_QBUF, &buffer) != 0) return Error{"VIDIOC_QBUF of a dma-buf", errno, ""};
  next_ = (next_ + 1) % kBuffers;
  return Nothing{};
}

} // namespace gstzc::lab
