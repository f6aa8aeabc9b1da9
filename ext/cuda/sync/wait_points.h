// SPDX-License-Identifier: LGPL-2.1-or-later
// Each place where device work is made to wait has a name. The tests are also built with GSTZC_MUTATIONS, where one of
// them can be left out, to show that some test notices. In the product this is nothing.
#pragma once

#include <string_view>

#ifdef GSTZC_MUTATIONS
#include <cstddef>
#endif

namespace gstzc::cuda {

// All of them: another name does not compile, and for each there is a mutation test
// (tests/unit/cuda/sync/wait_rule_test.cpp).
inline constexpr std::string_view kWaitPoints[] = {
    // ext/cuda/sync
    "word-gate-wait", "gate-to-work", "word-drained", "host-gate-wait", "semaphore-gate", "retire-event",
    "retire-drain", "retire-all", "event-fd", "event-to-stream",
    // ext/cuda/import, memory
    "import-first-frame", "import-fences", "import-hold-refused", "import-need-sync", "import-copy-event",
    "import-host-fences", "import-refresh", "retire-after-session", "retire-contexts", "map-copied", "map-failed",
    // ext/cuda/routes
    "content-read", "content-refresh", "bridge-frame-ready", "bridge-copy-done", "bridge-stream-order",
    "bridge-destroy", "handover", "handover-bounce",
    // ext/cuda/infer
    "frame-writers", "frame-stream", "frame-refresh", "frame-check", "shared-order",
    // ext/cuda/export
    "export-original-fences", "export-range-fences", "export-check", "export-event", "export-copy",
    "export-copy-fences", "export-host"};

struct WaitPoint {
  consteval WaitPoint(const char *point) : name(point) { // NOLINT(google-explicit-constructor)
    for (const std::string_view known : kWaitPoints)
      if (known == point) return;
    throw "not in kWaitPoints"; // at compile time
  }
  const char *name;
};

#ifdef GSTZC_MUTATIONS
bool waitPoint(WaitPoint point);       // false: skipWait() or the environment's GSTZC_SKIP_WAIT names it
void skipWait(const char *name);       // from now on; null: none but the environment's
size_t timesReached(const char *name); // how often waitPoint() was asked for it
#else
constexpr bool waitPoint(WaitPoint) { return true; }
#endif

} // namespace gstzc::cuda
