// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/negotiation.h"

#include <algorithm>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/drm/overlay/composition_caps.h"
#include "gst/zerocopy/caps_formats.h"

namespace gstzc {

GstCaps *templateCaps() {
  GstCaps *caps = gst_caps_new_empty();
  const auto dmabuf = [] { return gst_caps_features_new_single_static_str(GST_CAPS_FEATURE_MEMORY_DMABUF); };
  gst_caps_append_structure_full(caps, anyDrmStructure(), dmabuf());
  gst_caps_append_structure_full(caps, anyPlainStructure(), dmabuf());
  gst_caps_append_structure(caps, anyPlainStructure());
  GstCaps *both = withCompositions(caps);
  gst_caps_unref(caps);
  return both;
}

FrameNeed needOfCaps(const FrameCaps &caps) {
  FrameNeed need;
  const bool implicit = caps.memory == MemoryKind::DmaBuf && !caps.drm_notation;
  need.format = {caps.fourcc, implicit ? DRM_FORMAT_MOD_INVALID : caps.modifier};
  need.width = caps.width();
  need.height = caps.height();
  need.par_n = std::max(GST_VIDEO_INFO_PAR_N(&caps.info), 1);
  need.par_d = std::max(GST_VIDEO_INFO_PAR_D(&caps.info), 1);
  return need;
}

void SinkNegotiation::offer(const OfferedFormats &offers, bool overlays) {
  overlays_ = overlays;
  caps_.update(offers, {.overlay_composition = overlays});
  const std::lock_guard lock(mutex_);
  offered_.clear();
  for (const OfferedGroup &group : offers.groups) {
    offered_.insert(offered_.end(), group.pairs.begin(), group.pairs.end());
    for (const uint32_t fourcc : group.implicit) offered_.push_back({fourcc, DRM_FORMAT_MOD_INVALID});
  }
}

const FrameNeed &SinkNegotiation::nearest(const std::vector<CapsNeed> &needs) const {
  const std::lock_guard lock(mutex_);
  const auto offered = [this](auto is) { return std::any_of(offered_.begin(), offered_.end(), is); };
  for (const CapsNeed &n : needs)
    if (offered([&](const DrmFormat &f) { return sameLayout(f, n.need.format); })) return n.need;
  for (const CapsNeed &n : needs)
    if (offered([&](const DrmFormat &f) { return f.fourcc == n.need.format.fourcc; })) return n.need;
  return needs.front().need;
}

bool SinkNegotiation::accepts(const GstCaps *caps) const {
  if (!caps_.ready()) { // no device is open: what any could take
    GstCaps *any = templateCaps();
    const bool possible = gst_caps_is_subset(caps, any);
    gst_caps_unref(any);
    return possible;
  }
  if (caps_.accepts(caps)) return true;
  const std::lock_guard lock(mutex_);
  return coming_ != nullptr && (caps == coming_ || gst_caps_is_equal(caps, coming_));
}

void SinkNegotiation::eventIsComing(const GstCaps *caps) {
  const std::lock_guard lock(mutex_);
  coming_ = const_cast<GstCaps *>(caps);
}

namespace {

// Whether caps of one structure leave no choice but the frames of `now`: what else is open in them, a frame rate or a
// list of chroma sites, makes no difference to a display.
bool isSameFrame(const GstCaps *one, const GstCaps *now) {
  if (gst_caps_is_empty(one) ||
      !gst_caps_features_is_equal(gst_caps_get_features(one, 0), gst_caps_get_features(now, 0)))
    return false;
  const GstStructure *a = gst_caps_get_structure(one, 0), *b = gst_caps_get_structure(now, 0);
  for (const char *field : {"format", "drm-format", "width", "height"}) {
    const GValue *x = gst_structure_get_value(a, field), *y = gst_structure_get_value(b, field);
    if ((x == nullptr) != (y == nullptr)) return false;
    if (x != nullptr && (!gst_value_is_fixed(x) || gst_value_compare(x, y) != GST_VALUE_EQUAL)) return false;
  }
  return true;
}

} // namespace

bool SinkNegotiation::renegotiate(GstPad *pad, const GstCaps *now, const OfferedFormats &offers, const Error &why) {
  if (waiting_ != 0) return false;
  offer(offers, overlays_);
  GstCaps *mine = caps_.caps();
  GstCaps *possible = gst_pad_peer_query_caps(pad, mine);
  gst_caps_unref(mine);
  // Upstream that answers with what it sends already has nothing else. What may be attached to frames is no difference.
  GstCaps *plain = now != nullptr ? withoutCompositions(now) : nullptr;
  bool other = false;
  for (guint i = 0; possible != nullptr && i < gst_caps_get_size(possible) && !other; ++i) {
    GstCaps *nth = gst_caps_copy_nth(possible, i), *one = withoutCompositions(nth);
    gst_caps_unref(nth);
    other = caps_.accepts(one) || (!gst_caps_is_fixed(one) && !gst_caps_is_empty(one));
    other = other && !(plain != nullptr && isSameFrame(one, plain));
    gst_caps_unref(one);
  }
  gst_clear_caps(&plain);
  gst_clear_caps(&possible);
  if (!other) return false;
  waiting_ = 1;
  given_up_ = why;
  gst_pad_push_event(pad, gst_event_new_reconfigure());
  return true;
}

std::optional<Error> SinkNegotiation::endedUnshown() const {
  if (!given_up_) return std::nullopt;
  return Error{"the stream ended before one of its frames could be shown: " + given_up_->message(), 0,
               waiting_ != 0 ? "Upstream was asked for something else, and sent nothing of it" : ""};
}

bool SinkNegotiation::isWaiting() {
  if (waiting_ == 0 || waitedTooLong()) return false;
  ++waiting_;
  return true;
}

bool SinkNegotiation::giveUpFrame(const Error &why) {
  if (refused_frames_ > kMaxRenegotiationFrames) return false;
  ++refused_frames_;
  given_up_ = why;
  return true;
}

} // namespace gstzc
