// SPDX-License-Identifier: LGPL-2.1-or-later
// What fenceinfer counts and measures in a run.
#pragma once

#include <chrono>
#include <string>

#include <gst/gst.h>

#include "gst/infer/output/durations.h"
#include "gst/infer/stream/frame_queue.h"
#include "gst/zerocopy/core/import_cache.h"

namespace gstzc::infer {

// Not thread-safe: whoever has it locks.
struct Stats {
  guint64 frames = 0;      // that went on
  guint64 inferred = 0;    // pictures that the model was run on
  guint64 skipped = 0;     // frames that went on without being looked at: the interval, or no object to look at
  guint64 dropped = 0;     // frames that did not go on: policy, fences, flush, errors
  guint64 stale = 0;       // frames that carry the results of an older one
  guint64 errors = 0;      // frames whose fences or whose run failed
  guint64 queue_depth = 0; // frames that are here now
  guint64 in_place = 0;    // of `inferred`: the frame's memory was the tensor
  guint64 copies = 0, bytes_copied = 0;
  guint64 fence_waits = 0, fence_timeouts = 0, fence_errors = 0;
  double batches = 0; // runs; of one that was shared with other elements the part that was ours

  Durations wait;       // of a picture, until a worker took it
  Durations preprocess; // of a picture
  Durations infer;      // of a run
  Durations post;       // of a picture: decoding
  Durations fence_wait;
  ImportCache::Counters mappings; // of the process, as of the last frame
  std::string device = "cpu";     // that reads the frames

  // Of a frame that came out of the queue. One whose wait a flush ended counts nowhere here.
  void add(const FrameQueue::FenceEnd &end);
  // Of a picture that the model was run on, with `batch` pictures at once.
  void addRun(std::chrono::nanoseconds waited, std::chrono::nanoseconds filled, std::chrono::nanoseconds ran,
              int batch);

  // "stats": counts and microseconds, all guint64 but `batch-size-mean` (double, 0 without a run) and `device`. For
  // each duration D: `D-us`, the sum, and `D-p50-us`, `D-p95-us`, `D-p99-us` of the newest.
  GstStructure *structure() const;
};

} // namespace gstzc::infer
