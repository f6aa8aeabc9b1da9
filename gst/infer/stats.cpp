// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stats.h"

#include <string>

namespace gstzc::infer {
namespace {

void set(GstStructure *to, const std::string &name, guint64 value) {
  gst_structure_set(to, name.c_str(), G_TYPE_UINT64, value, nullptr);
}

void set(GstStructure *to, const std::string &name, const Durations &durations) {
  set(to, name + "-ns", durations.total());
  set(to, name + "-p50-ns", durations.percentile(50));
  set(to, name + "-p95-ns", durations.percentile(95));
}

} // namespace

void Stats::add(const FrameQueue::FenceEnd &end) {
  const bool known = end.result.ok();
  if (known && end.result.value().outcome == FenceOutcome::Cancelled) return;
  if (end.waited) {
    ++fence_waits;
    fence_wait.add(static_cast<guint64>(end.wait.count()));
  }
  if (!known || end.result.value().outcome == FenceOutcome::Failed)
    ++fence_errors;
  else if (end.result.value().outcome == FenceOutcome::TimedOut)
    ++fence_timeouts;
}

GstStructure *Stats::structure() const {
  GstStructure *s = gst_structure_new_empty("stats");
  set(s, "frames", frames);
  set(s, "inferred", inferred);
  set(s, "dropped", dropped);
  set(s, "errors", errors);
  // frames are passed on as they are: neither count can be other than 0 while there is no route that copies
  set(s, "copies", guint64{0});
  set(s, "bytes-copied", guint64{0});
  set(s, "preprocessed", inferred);
  set(s, "preprocess", preprocess);
  set(s, "infer", infer);
  set(s, "fence-waits", fence_waits);
  set(s, "fence-wait", fence_wait);
  set(s, "fence-timeouts", fence_timeouts);
  set(s, "fence-errors", fence_errors);
  set(s, "mappings-made", mappings.imports);
  set(s, "mapping-hits", mappings.hits);
  set(s, "mappings", mappings.entries);
  return s;
}

} // namespace gstzc::infer
