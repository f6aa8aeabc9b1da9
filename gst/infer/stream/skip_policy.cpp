// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/skip_policy.h"

#include <algorithm>

namespace gstzc::infer {

void SkipPolicy::reset() {
  std::lock_guard lock(mutex_);
  earliest_ = GST_CLOCK_TIME_NONE;
  since_ = 0;
}

void SkipPolicy::report(GstClockTimeDiff diff, GstClockTime timestamp) {
  std::lock_guard lock(mutex_);
  if (!GST_CLOCK_TIME_IS_VALID(timestamp)) {
    earliest_ = GST_CLOCK_TIME_NONE;
    return;
  }
  // GstVideoDecoder's rule: a late sink gets time to catch up, twice what it is late
  const auto at = static_cast<GstClockTimeDiff>(std::min<GstClockTime>(timestamp, G_MAXINT64 / 4));
  const GstClockTimeDiff capped = std::clamp<GstClockTimeDiff>(diff, -(G_MAXINT64 / 4), G_MAXINT64 / 4);
  const GstClockTimeDiff earliest = at + (capped > 0 ? 2 * capped : capped);
  earliest_ = static_cast<GstClockTime>(std::max<GstClockTimeDiff>(earliest, 0));
}

SkipPolicy::Verdict SkipPolicy::decide(GstClockTime running_time, guint interval, bool qos) {
  std::lock_guard lock(mutex_);
  if (qos && GST_CLOCK_TIME_IS_VALID(running_time) && GST_CLOCK_TIME_IS_VALID(earliest_) && running_time < earliest_)
    return Verdict::Late;
  if (since_ != 0 && since_ < interval) {
    ++since_;
    return Verdict::Interval;
  }
  since_ = 1;
  return Verdict::Look;
}

void SkipPolicy::giveTurnBack() {
  std::lock_guard lock(mutex_);
  since_ = 0;
}

} // namespace gstzc::infer
