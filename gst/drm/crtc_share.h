// SPDX-License-Identifier: LGPL-2.1-or-later
// What the sinks of a process that show on one CRTC have in common: the queue of commits, the mode, and what was on the
// screen before the first of them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gst/drm/crtc_queue.h"
#include "gst/drm/planning.h"

namespace gstzc {

// Its members are used with `mutex` held, which sinks also hold while they choose a mode, come and go: the first one
// sets the mode, the last one puts back what was there.
class CrtcShare {
public:
  struct Mode {
    drmModeModeInfo info = {};
    std::shared_ptr<ModeBlob> blob;
    std::vector<PropertySetting> settings; // of output and CRTC
    std::shared_ptr<PropertyBlob> hdr;
  };

  std::mutex mutex;
  unsigned sinks = 0;
  std::shared_ptr<CrtcQueue> queue; // while there are any
  std::optional<Mode> mode;         // nothing: none of them has chosen one
  std::optional<SavedState> saved;  // nothing: none of them has shown anything
};

} // namespace gstzc
