// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/flip_statistics.h"

#include <algorithm>

namespace gstzc {

uint64_t FlipStatistics::add(const Flip &flip) {
  ++flips_;
  if (last_ && flip.time > *last_) {
    const uint64_t interval = flip.time - *last_;
    ++intervals_;
    sum_ += interval;
    longest_ = std::max(longest_, interval);
  }
  last_ = flip.time;
  if (!flip.due || flip.refresh == 0 || flip.time <= *flip.due) return 0;
  // due shortly before a vertical blank it may need the next one: a frame is not ready at once
  const uint64_t slack = flip.refresh / 4, after = flip.time - *flip.due;
  if (after <= flip.refresh + slack) return 0;
  ++late_;
  missed_ += (after - slack) / flip.refresh;
  return after - flip.refresh;
}

FlipStatistics::Summary FlipStatistics::summary() const {
  return {flips_, intervals_ == 0 ? 0 : sum_ / intervals_, longest_, late_, missed_};
}

} // namespace gstzc
