// SPDX-License-Identifier: LGPL-2.1-or-later
// The links on the way to a sink, watched while the pipeline runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <gst/gst.h>

#include "negotiation.h"

namespace gstzc::inspect {

// A pad of an element proper: ghost pads stand for one inside of a bin. Null where there is none behind them.
Object<GstPad> behindGhosts(Object<GstPad> pad);

// Callbacks come from the pipeline's threads. look() is one thread's, the answers are any thread's: they do not wait
// for elements. Outlives the pipeline's running.
class LinkWatch {
public:
  // Borrowed: the sink and its pad, which is no ghost.
  LinkWatch(GstElement *sink, GstPad *sink_pad);
  ~LinkWatch();
  LinkWatch(const LinkWatch &) = delete;
  LinkWatch &operator=(const LinkWatch &) = delete;

  // Links that are not yet known: their answers now, and a watch on their caps.
  void look();
  // As of now; what the two sides answered is as of look().
  std::vector<LinkReport> reports() const;

  size_t frames() const { return frames_; }
  bool placeholders() const { return placeholders_; }
  bool ended() const { return ended_; } // end of stream at the sink
  bool shown() const;                   // the sink has taken a frame to its own satisfaction

private:
  struct Watched;
  static GstPadProbeReturn onEvent(GstPad *pad, GstPadProbeInfo *info, gpointer watched);
  static GstPadProbeReturn onFrame(GstPad *pad, GstPadProbeInfo *info, gpointer self);

  GstElement *sink_;
  GstPad *sink_pad_;
  gulong frames_probe_ = 0;
  mutable std::mutex mutex_;                      // of the two lists
  std::vector<std::shared_ptr<Watched>> watched_; // those of now, in the order of the flow
  std::vector<std::shared_ptr<Watched>> gone_;    // their probes may be running
  std::atomic<size_t> frames_ = 0;
  std::atomic<bool> placeholders_ = false, ended_ = false;
};

} // namespace gstzc::inspect
