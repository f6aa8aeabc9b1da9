// SPDX-License-Identifier: LGPL-2.1-or-later
// What fenceinfer counts and measures in a run.
#pragma once

#include <gst/gst.h>

#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/output/results.h"
#include "gst/zerocopy/core/import_cache.h"

namespace gstzc::infer {

struct Stats {
  guint64 frames = 0, inferred = 0, dropped = 0, errors = 0;
  guint64 fence_waits = 0, fence_timeouts = 0, fence_errors = 0;
  Durations preprocess, infer, fence_wait;
  ImportCache::Counters mappings; // of the process, as of the last frame

  // Of a frame that came out of the queue. One whose wait a flush ended counts nowhere here.
  void add(const FrameQueue::FenceEnd &end);

  // "stats", all fields guint64, as docs/elements/fenceinfer.md lists them.
  GstStructure *structure() const;
};

} // namespace gstzc::infer
