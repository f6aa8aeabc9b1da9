// SPDX-License-Identifier: LGPL-2.1-or-later
// One frame on its way to the screen and off it again.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "gst/drm/screen_state.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/fence_policy.h"

namespace gstzc {

struct DisplayFrame {
  ScreenState state; // the plane of the frame itself comes first
  // Let go when the next frame has taken its place on screen: the frame's memory, and the black picture below it, which
  // only the first commit of a plan speaks of.
  std::shared_ptr<void> keep;
  std::shared_ptr<Framebuffer> background;
  uint64_t pts = 0;          // ns, or GST_CLOCK_TIME_NONE
  BufferId identity;         // of the first plane's memory
  uint64_t due = UINT64_MAX; // running time when it is to be on screen, ns; GST_CLOCK_TIME_NONE: as soon as it can
  uint64_t refresh = 0;      // of the mode, ns; 0: not known
  bool untimed = false;      // it need not come on screen at a vertical blank of that rate
  bool farewell = false;     // shows nothing: its planes go off

  // What has to end before it may be shown. `in_fence`: the sync_files among it as one, which the kernel is told of
  // when it has signalled; none where nothing of that kind was pending.
  std::vector<Fence> fences;
  UniqueFd in_fence;
  std::optional<Error> fence_error; // it could not be found out; judged as a fence that failed
  std::chrono::milliseconds fence_timeout{kFenceTimeoutDefault}; // from submit()
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;

  void clear() { // keeps its memory
    state.clear();
    keep.reset();
    background.reset();
    farewell = false;
    fences.clear();
    in_fence.reset();
    fence_error.reset();
  }
};

} // namespace gstzc
