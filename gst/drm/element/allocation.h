// SPDX-License-Identifier: LGPL-2.1-or-later
// What memory the sink offers to upstream, and what it takes.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <gst/gst.h>

#include "gst/drm/display_pool.h"
#include "gst/drm/kms_device.h"

namespace gstzc {

// Frames that the sink holds: on screen, waiting for its flip, newest. More where fences are pending: producers that
// attach some have pools that grow, or wait.
constexpr guint kBuffersHeld = 3;

// Answers ALLOCATION queries, of any thread.
class SinkAllocation {
public:
  // Always: that any stride and offset, crop and fences are understood, with a wish for the stride where the frame's
  // usual one does not suit the device. For caps that can be shown: how many buffers, what memory the device needs, and
  // a pool: dumb buffers for linear frames that upstream has no better memory for, libgbm's for others. Returns what
  // the user may want to know, once: why there is none of libgbm; else an empty string.
  std::string answer(GstQuery *query, const std::shared_ptr<KmsDevice> &device, bool overlays);
  void close(); // the device is gone

private:
  struct Offer {
    std::shared_ptr<FrameSource> frames; // null: upstream's own memory is as good, or all there is
    guint size = 0;                      // bytes
    std::string note;
  };
  Offer linear(const std::shared_ptr<KmsDevice> &device, const FrameCaps &caps) const;
  Offer tiled(const std::shared_ptr<KmsDevice> &device, const FrameCaps &caps);

  std::mutex mutex_;
  std::shared_ptr<FrameSource> gbm_; // once it was wanted and there
  bool noted_ = false;
};

} // namespace gstzc
