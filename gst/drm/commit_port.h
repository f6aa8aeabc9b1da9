// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's side of a commit; a test puts another one in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gst/drm/screen_state.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

class CommitPort {
public:
  virtual ~CommitPort() = default;
  // Non-blocking. A plane with an in-fence waits for nothing else; without, the kernel waits for what its dma-bufs have
  // pending. 0 or errno. `flipped`: a descriptor that becomes readable when it is on screen; none where there are
  // flipEvents().
  virtual int commit(const ScreenState &state, UniqueFd *flipped) = 0;
  // When that was, CLOCK_MONOTONIC ns. Below 0: it ended in an error, as a negative errno.
  virtual int64_t flipTime(int flipped) = 0;
  // Readable when any commit is on screen; asked for once. -1: each has a descriptor of its own.
  virtual int flipEvents() { return -1; }
  // The time of the last commit's flip, where that has come since the last call. By one thread, also during commit().
  virtual std::optional<int64_t> readFlip() { return std::nullopt; }
  // Whether the plane has a property for a fence at all.
  virtual bool takesInFence(size_t plane) const = 0;
  // A sync_file that has signalled, borrowed; -1: there is none to be had.
  virtual int signalledFence() const = 0;
  // Tries to become master again after another process took the display. True: commits may work again.
  virtual bool regain() { return false; }
  // What the user may want to know of the last commit; once.
  virtual std::optional<std::string> news() { return std::nullopt; }
  // Somebody else may have changed what was committed.
  virtual void forget() {}
};

} // namespace gstzc
