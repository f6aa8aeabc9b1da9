// SPDX-License-Identifier: LGPL-2.1-or-later
// What the element says to upstream about formats, and how it asks for another one.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/sink_caps.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {

// Before a device is open: whatever any device could take.
GstCaps *templateCaps();

// What caps ask of the display. Plain memory:DMABuf leaves the layout to the driver.
FrameNeed needOfCaps(const FrameCaps &caps);

// Frames that are given up after the first one, while upstream is expected to change its caps or its crop; more would
// be a stream that shows nothing.
constexpr unsigned kMaxRenegotiationFrames = 120;

class SinkNegotiation {
public:
  // The answer to caps queries, from now on. `overlays`: whether frames may come with GstVideoOverlayComposition.
  void offer(const OfferedFormats &offers, bool overlays);
  void close() {
    caps_.clear();
    waiting_ = refused_frames_ = 0;
    given_up_.reset();
  }

  // Of several frames that upstream could send, none of which can be shown, the one that lacks least: a pair that is
  // offered in other sizes, a format in other layouts. Any thread.
  const FrameNeed &nearest(const std::vector<CapsNeed> &needs) const;

  // Transfer full; null before offer().
  GstCaps *caps(GstCaps *filter) const { return caps_.caps(filter); }
  // Caps of an event that is on its way pass, so that what is wrong with them is said where they arrive; refused they
  // would end as "not negotiated" without a reason.
  bool accepts(const GstCaps *caps) const;
  void eventIsComing(const GstCaps *caps); // null: it is over

  // The pair of `now` cannot be shown, for `why`. True: upstream could send something else and was asked to
  // (RECONFIGURE on `pad`); its frames are to be given up until caps come. False: it cannot, or was asked long ago.
  bool renegotiate(GstPad *pad, const GstCaps *now, const OfferedFormats &offers, const Error &why);
  // Whether caps are to come, so that a frame that is not shown may be given up; false after too many. Once a frame.
  bool isWaiting();
  bool waitedTooLong() const { return waiting_ > kMaxRenegotiationFrames; }
  void capsCame() { waiting_ = refused_frames_ = 0; }

  // A frame that cannot be shown, for `why`, which no other caps would change. Whether to give it up: false after too
  // many without one that could.
  bool giveUpFrame(const Error &why);

  // What a stream that is over has to say of frames that were given up for others, none of which came: nothing where a
  // frame was taken after them.
  void taken() {
    given_up_.reset();
    refused_frames_ = 0;
    if (waiting_ != 0) waiting_ = 1; // upstream has been asked all the same
  }
  std::optional<Error> endedUnshown() const;

private:
  SinkCaps caps_;
  mutable std::mutex mutex_;
  std::vector<DrmFormat> offered_;
  GstCaps *coming_ = nullptr; // borrowed: compared only
  bool overlays_ = false;
  unsigned waiting_ = 0;        // frames given up since RECONFIGURE, plus one
  unsigned refused_frames_ = 0; // given up in a row for what they are themselves
  std::optional<Error> given_up_;
};

} // namespace gstzc
