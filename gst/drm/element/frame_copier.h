// SPDX-License-Identifier: LGPL-2.1-or-later
// Copies of frames that the display cannot take, in its own memory (allow-copy=true).
#pragma once

#include <functional>
#include <memory>

#include <gst/gst.h>

#include "gst/drm/display.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

struct FrameCopy {
  FramebufferImporter::Source source; // borrows descriptors of `keep`
  std::shared_ptr<void> keep;
  uint64_t bytes = 0; // copied
};

// Frames of one caps after the other; used by the streaming thread.
class FrameCopier {
public:
  FrameCopier() = default;
  ~FrameCopier() { drop(); }
  FrameCopier(const FrameCopier &) = delete;
  FrameCopier &operator=(const FrameCopier &) = delete;

  // The frame has to be written already. Errors: its layout is one that the CPU does not know, the device has no
  // memory, `cancelled` (ECANCELED).
  Result<FrameCopy> copy(GstBuffer *buffer, const FrameCaps &caps, const std::shared_ptr<KmsDevice> &device,
                         const std::function<bool()> &cancelled);
  void drop(); // frames of other caps follow, or none

private:
  GstBufferPool *pool_ = nullptr;
  int width_ = 0, height_ = 0; // of its frames
};

} // namespace gstzc
