// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/flip_report.h"

#include <algorithm>
#include <chrono>

namespace gstzc {

using namespace std::chrono_literals;

uint64_t dueOf(GstBaseSink *sink, GstBuffer *buffer) {
  if (!GST_BUFFER_PTS_IS_VALID(buffer) || sink->segment.format != GST_FORMAT_TIME) return GST_CLOCK_TIME_NONE;
  const uint64_t running = gst_segment_to_running_time(&sink->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  const GstClockTimeDiff offset = gst_base_sink_get_ts_offset(sink);
  if (running == GST_CLOCK_TIME_NONE || (offset < 0 && running < static_cast<uint64_t>(-offset)))
    return GST_CLOCK_TIME_NONE;
  return running + static_cast<uint64_t>(offset);
}

// As CLOCK_MONOTONIC, in which flips are told; nothing: there is no clock that runs, or the frame is due at no time.
std::optional<uint64_t> FlipReport::dueTime(const DisplayFrame &frame, uint64_t flip_ns) {
  if (frame.due == GST_CLOCK_TIME_NONE) return std::nullopt;
  GST_OBJECT_LOCK(sink_);
  GstClock *clock = GST_ELEMENT_CLOCK(sink_);
  const bool playing = GST_STATE(sink_) == GST_STATE_PLAYING && clock != nullptr;
  const uint64_t base = GST_ELEMENT(sink_)->base_time;
  const bool ask = playing && (clock != clock_ || flip_ns > compared_at_ + GST_SECOND);
  if (ask) gst_object_ref(clock);
  GST_OBJECT_UNLOCK(sink_);
  if (!playing) return std::nullopt;
  if (ask) {
    // for a second both clocks run at the same rate
    const uint64_t clock_now = gst_clock_get_time(clock);
    ahead_ = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / 1ns) - clock_now;
    compared_at_ = flip_ns;
    clock_ = clock;
    gst_object_unref(clock);
  }
  return base + frame.due + gst_base_sink_get_latency(sink_) + ahead_;
}

void FlipReport::flipped(const DisplayFrame &frame, uint64_t flip_ns) {
  const auto due = dueTime(frame, flip_ns);
  uint64_t late = 0, interval = 0, nominal = 0;
  {
    const std::lock_guard lock(mutex_);
    late = statistics_.add({flip_ns, due, frame.refresh});
    if (last_flip_ != 0 && flip_ns > last_flip_) interval = flip_ns - last_flip_;
    if (last_due_ != GST_CLOCK_TIME_NONE && frame.due != GST_CLOCK_TIME_NONE && frame.due > last_due_)
      nominal = frame.due - last_due_;
    last_flip_ = flip_ns;
    last_due_ = frame.due;
  }
  if (messages_) {
    GstStructure *s = gst_structure_new("drmmodifiersink-flip", "pts", G_TYPE_UINT64, frame.pts, "flip-time",
                                        G_TYPE_UINT64, flip_ns, "device", G_TYPE_UINT64, frame.identity.device, "inode",
                                        G_TYPE_UINT64, frame.identity.inode, nullptr);
    gst_element_post_message(GST_ELEMENT(sink_), gst_message_new_element(GST_OBJECT(sink_), s));
  }
  if (late == 0 || !gst_base_sink_is_qos_enabled(sink_)) return;
  // The base class tells of frames that come late to it; of those that the display shows late only we know.
  const double proportion =
      interval > nominal && nominal != 0 ? std::min(double(interval) / double(nominal), 10.0) : 1.0;
  gst_pad_push_event(GST_BASE_SINK_PAD(sink_), gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, proportion,
                                                                 static_cast<GstClockTimeDiff>(late), frame.due));
}

void FlipReport::pause() {
  const std::lock_guard lock(mutex_);
  statistics_.pause();
  last_flip_ = 0;
  last_due_ = GST_CLOCK_TIME_NONE;
}

FlipStatistics::Summary FlipReport::summary() const {
  const std::lock_guard lock(mutex_);
  return statistics_.summary();
}

} // namespace gstzc
