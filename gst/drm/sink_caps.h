// SPDX-License-Identifier: LGPL-2.1-or-later
// What the output takes, as GStreamer caps; and the other way, what caps ask of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

struct SinkCapsOptions {
  bool dmabuf = true;               // video/x-raw(memory:DMABuf), explicit layouts
  bool implicit_dmabuf = true;      // video/x-raw(memory:DMABuf), format=NV12: layout known to the driver only
  bool system_memory = true;        // video/x-raw, in the formats that can be shown linear
  bool overlay_composition = false; // each structure also with meta:GstVideoOverlayComposition, before the one without
};

// One structure a group of offers and kind of memory, in this order: all groups as memory:DMABuf with format=DMA_DRM
// and their pairs as drm-format; implicit layouts; system memory. Sizes are the group's: a frame may be smaller
// than the smallest mode, not than the device's smallest framebuffer. Transfer full. Cost: linear in pairs.
GstCaps *capsOfOffers(const OfferedFormats &offers, const SinkCapsOptions &options);

// The sink's answer to caps queries: made when the offers change, returned by reference. Thread-safe.
class SinkCaps {
public:
  SinkCaps() = default;
  ~SinkCaps();
  SinkCaps(const SinkCaps &) = delete;
  SinkCaps &operator=(const SinkCaps &) = delete;

  void update(const OfferedFormats &offers, const SinkCapsOptions &options);
  void clear(); // until the next update() there are no caps
  bool ready() const;

  // Transfer full; null before update(). With a filter the common part, in the filter's order of preference:
  // drm-formats of the filter that have a Broadcom column height pass where the layout is offered, which is so for any
  // height. Nothing of the filter that hasSeparateFields().
  GstCaps *caps(GstCaps *filter = nullptr) const;
  // Fixed or not: whether all of it could be shown, going by formats, sizes and fields. A Broadcom column height does
  // not count.
  bool accepts(const GstCaps *caps) const;

private:
  bool withColumns(const GstCaps *theirs, GstCaps **wider) const;

  mutable std::mutex mutex_;
  GstCaps *caps_ = nullptr;
  std::vector<DrmFormat> columns_; // offered layouts whose column height is free
};

// The interlace-mode puts fields apart, each in a picture of its own (fields, alternate), or may: shown as they come
// they would be no frame. What has both fields woven (interleaved, mixed) is a frame.
bool hasSeparateFields(const GstStructure *structure);

// A frame described by caps, lists multiplied out in their order: formats, then widths, then heights. Where a side is a
// range or absent width and height are 0, and FrameNeed::widths and heights say which will do. Errors name the field
// and its value; caps without video/x-raw, separate fields, sides that no frame has, more than kMaxCapsNeeds frames.
// Broadcom column heights are kept, implicit layouts are DRM_FORMAT_MOD_INVALID.
constexpr size_t kMaxCapsNeeds = 4096;
struct CapsNeed {
  FrameNeed need;
  bool system_memory = false; // the frame is copied or rendered into memory of the display: linear
  std::string text;           // "video/x-raw(memory:DMABuf) NV12:0x0100000000000002 1920x1080"
};
// `skip_foreign`: formats of a list that no display has are left out, unless all are.
Result<std::vector<CapsNeed>> needsOfCaps(const GstCaps *caps, bool skip_foreign = false);

} // namespace gstzc
