// SPDX-License-Identifier: LGPL-2.1-or-later
// Video outputs of the laboratory: V4L2 devices that read frames out of dma-bufs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// Path of the first output of that V4L2 driver. That of "vivid" takes contiguous memory only.
Result<std::string> outputPath(const std::string &driver);

// An output that is set up for frames of one kind and takes dma-bufs.
class OutputDevice {
public:
  static Result<OutputDevice> open(const std::string &path, uint32_t v4l2_format, uint32_t width, uint32_t height);

  size_t frameSize() const { return frame_size_; } // bytes that a buffer has to have
  // The device takes the buffer or says why not: its driver imports and maps it at once.
  Status queue(int dmabuf, size_t size);

private:
  explicit OutputDevice(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
  size_t frame_size_ = 0;
  uint32_t next_ = 0;
};

} // namespace gstzc::lab
