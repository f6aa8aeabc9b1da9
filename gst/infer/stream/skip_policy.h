// SPDX-License-Identifier: LGPL-2.1-or-later
// Which frames the model looks at: every n-th, and none that would come too late.
#pragma once

#include <mutex>

#include <gst/gst.h>

namespace gstzc::infer {

class SkipPolicy {
public:
  enum class Verdict { Look, Interval, Late };

  // A new stream or one after a flush: the first frame is looked at.
  void reset();
  // A sink's report (GST_EVENT_QOS): the buffer with running time `timestamp` came `diff` after its time, or before it
  // where it is negative. From another thread than decide().
  void report(GstClockTimeDiff diff, GstClockTime timestamp);
  // For the next frame. `running_time`: its own, GST_CLOCK_TIME_NONE where it has none: it is not late then. Late
  // frames do not count for the interval: the next one in time is looked at.
  Verdict decide(GstClockTime running_time, guint interval, bool qos);
  // The frame that was to be looked at is gone: it is the next one's turn.
  void giveTurnBack();

private:
  std::mutex mutex_;
  GstClockTime earliest_ = GST_CLOCK_TIME_NONE; // running time from which a frame can be in time; under mutex_
  guint since_ = 0;                             // frames since the last one looked at, that one included; 0: none yet
};

} // namespace gstzc::infer
