// SPDX-License-Identifier: LGPL-2.1-or-later
// What the times of a sink's flips say of it: how even they are, and which came too late.
#pragma once

#include <cstdint>
#include <optional>

namespace gstzc {

// The vertical blank after `now` where there was one at `last`, not later. All ns; `refresh` above 0.
constexpr uint64_t nextBlank(uint64_t last, uint64_t now, uint64_t refresh) {
  return last + ((now - last) / refresh + 1) * refresh;
}

class FlipStatistics {
public:
  struct Flip {
    uint64_t time = 0;           // when it was, ns
    std::optional<uint64_t> due; // when the frame was to be on screen, same clock; nothing: as soon as it could
    uint64_t refresh = 0;        // ns; 0: not known
  };
  struct Summary {
    uint64_t flips = 0;
    uint64_t interval = 0, longest = 0; // ns between flips: on average, and the most
    uint64_t late = 0, missed = 0;      // flips that came late, and the vertical blanks they missed
  };

  // How late it was, ns: beyond the vertical blank that follows the time when it was due, which is the first that a
  // frame can make. 0: in time, or nothing is known.
  uint64_t add(const Flip &flip);
  // Frames that follow are not to be compared with those before: a pause.
  void pause() { last_.reset(); }
  Summary summary() const;

private:
  std::optional<uint64_t> last_;
  uint64_t flips_ = 0, intervals_ = 0, sum_ = 0, longest_ = 0, late_ = 0, missed_ = 0;
};

} // namespace gstzc
