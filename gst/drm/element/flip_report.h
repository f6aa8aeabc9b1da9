// SPDX-License-Identifier: LGPL-2.1-or-later
// What the element tells of flips: messages to the application, lateness to upstream, numbers to whoever asks.
#pragma once

#include <mutex>
#include <optional>

#include <gst/base/gstbasesink.h>

#include "gst/drm/display_frame.h"
#include "gst/drm/flip_statistics.h"

namespace gstzc {

// Running time when the buffer is to be on screen, with the sink's offset; GST_CLOCK_TIME_NONE where it has none.
// Streaming thread.
uint64_t dueOf(GstBaseSink *sink, GstBuffer *buffer);

// Thread safe. The sink is borrowed.
class FlipReport {
public:
  FlipReport(GstBaseSink *sink, bool messages) : sink_(sink), messages_(messages) {}

  // On any thread, without locks. `flip_ns`: CLOCK_MONOTONIC.
  void flipped(const DisplayFrame &frame, uint64_t flip_ns);
  void pause();
  FlipStatistics::Summary summary() const;

private:
  std::optional<uint64_t> dueTime(const DisplayFrame &frame, uint64_t flip_ns);

  GstBaseSink *const sink_;
  const bool messages_;
  mutable std::mutex mutex_;
  FlipStatistics statistics_;
  uint64_t last_due_ = GST_CLOCK_TIME_NONE; // running time of the frame before
  uint64_t last_flip_ = 0;

  // Of the thread that tells of flips. Compared only: it may be gone.
  const GstClock *clock_ = nullptr;
  uint64_t compared_at_ = 0, ahead_ = 0; // CLOCK_MONOTONIC less the clock's time, ns
};

} // namespace gstzc
