// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stats.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace gstzc::infer {
namespace {

guint64 microseconds(guint64 ns) { return ns / 1000 + (ns % 1000 >= 500 ? 1 : 0); }

void set(GstStructure *to, const std::string &name, guint64 value) {
  gst_structure_set(to, name.c_str(), G_TYPE_UINT64, value, nullptr);
}

void set(GstStructure *to, const std::string &name, const Durations &durations) {
  const Durations::Percentiles newest = durations.percentiles();
  set(to, name + "-us", microseconds(durations.total()));
  set(to, name + "-p50-us", microseconds(newest.p50));
  set(to, name + "-p95-us", microseconds(newest.p95));
  set(to, name + "-p99-us", microseconds(newest.p99));
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

void Stats::addRun(std::chrono::nanoseconds waited, std::chrono::nanoseconds filled, std::chrono::nanoseconds ran,
                   int batch) {
  ++inferred;
  wait.add(static_cast<guint64>(waited.count()));
  preprocess.add(static_cast<guint64>(filled.count()));
  infer.add(static_cast<guint64>(ran.count()));
  batches += 1.0 / std::max(batch, 1);
}

GstStructure *Stats::structure() const {
  GstStructure *s = gst_structure_new_empty("stats");
  set(s, "frames", frames);
  set(s, "inferred", inferred);
  set(s, "preprocessed", inferred - in_place);
  set(s, "skipped", skipped);
  set(s, "dropped", dropped);
  set(s, "stale", stale);
  set(s, "errors", errors);
  set(s, "queue-depth", queue_depth);
  set(s, "copies", copies);
  set(s, "bytes-copied", bytes_copied);
  set(s, "batches", static_cast<guint64>(std::llround(batches)));
  gst_structure_set(s, "batch-size-mean", G_TYPE_DOUBLE, batches > 0 ? static_cast<double>(inferred) / batches : 0.0,
                    nullptr);
  set(s, "wait", wait);
  set(s, "pre", preprocess);
  set(s, "infer", infer);
  set(s, "post", post);
  set(s, "fence-waits", fence_waits);
  set(s, "fence-wait", fence_wait);
  set(s, "fence-timeouts", fence_timeouts);
  set(s, "fence-errors", fence_errors);
  set(s, "mappings-made", mappings.imports);
  set(s, "mapping-hits", mappings.hits);
  set(s, "mappings", mappings.entries);
  gst_structure_set(s, "device", G_TYPE_STRING, device.c_str(), nullptr);
  return s;
}

} // namespace gstzc::infer
