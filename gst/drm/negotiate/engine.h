// SPDX-License-Identifier: LGPL-2.1-or-later
// The choice of plane, format, modifier and scaling for a frame, and what to offer upstream before there is one. Pure
// functions over a snapshot: no system calls, no GStreamer. They order what may work and say of the rest why not; what
// nobody knows beforehand, TEST_ONLY has to say, in the order given here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gst/drm/kms_types.h"
#include "gst/drm/negotiate/failure_memory.h"
#include "gst/drm/negotiate/modifiers.h"
#include "gst/drm/planning.h"

namespace gstzc {

enum class Scaling { None, Up, Down, Both }; // Both: up on one axis, down on the other
const char *scalingName(Scaling scaling);    // "none", "up", …

// What nobody knows beforehand, so that TEST_ONLY decides. Of a device without known limits: all that the frame asks.
struct OpenQuestions {
  bool size = false;    // no limit is known
  bool scaling = false; // wanted, and nowhere promised by that factor
  bool odd = false;     // a side splits a chroma sample
  bool any() const { return size || scaling || odd; }
  auto operator<=>(const OpenQuestions &) const = default;
};

// One way to show the frame.
struct Option {
  size_t plane = 0; // index into KmsSnapshot::planes
  DrmFormat format; // as the frame has it, with a Broadcom column height; INVALID where the layout is implicit
  Scaling scaling = Scaling::None;
  uint32_t rotation = 0;      // for the plane's property of that name, DRM_MODE_ROTATE_0 where nothing is turned
  unsigned memory_planes = 1; // that a buffer of this format and modifier has
  OpenQuestions open;
  auto operator<=>(const Option &) const = default;
};

enum class RefusalReason {
  NotOnThisCrtc,
  Cursor, // takes small pictures only
  InUse,  // by another CRTC
  NoSuchFormat,
  NotWithThisModifier,
  ImpossiblePair, // advertised, but no such buffer can be
  NeedsModifier,  // the layout is implicit, and the plane takes explicit ones only
  TooLarge,
  TooSmall,
  ScalingRefused, // none, or not by this factor
  NotEven,        // a side that splits a chroma sample
  RotationRefused,
  NoAlpha,       // property that could be set
  ZposRefused,   // no property, or the value is not among its own
  MemoryPlanes,  // the buffers have another number of planes than the pair
  SourceOutside, // the part to be shown is not within the frame
  FailedBefore,
  TestOnly, // said by TEST_ONLY, or by a profile in its place
};
const char *reasonName(RefusalReason reason); // "not-on-this-crtc", …: stable, for programs

struct Refusal {
  size_t plane = 0;
  RefusalReason reason = RefusalReason::NoSuchFormat;
  std::string sentence; // "plane 51 (overlay) has NV12, but not with INTEL_Y_TILED"
  int error = 0;        // errno of TestOnly
};

// "plane 51 (overlay)", with the label where there is one: "plane 4 (overlay, Esmart0)"
std::string planeName(const KmsPlane &plane);
// "NV12:0x0100000000000002 (INTEL_Y_TILED) 1920x1080, scaled to 640x360, rotated by 90 degrees"
std::string describeNeed(const FrameNeed &need);
// "1920x1080"; "1..64 x any" where several sizes will do; empty for any size
std::string sizeText(const FrameNeed &need);

// The value of the plane's rotation property for what is wanted (0 is DRM_MODE_ROTATE_0), in the form that the plane
// has: turning by 180 degrees is the same as reflecting both axes. Nothing where it cannot.
std::optional<uint32_t> planeRotation(const KmsPlane &plane, uint32_t wanted);

// Target size in relation to the source's as it comes out of the rotation; none where the target is not set.
Scaling scalingOf(const FrameNeed &need);

// A plane's limits for a pair, all entries that apply taken together.
PlaneFormatLimits limitsOf(const KmsPlane &plane, const DrmFormat &format);

// The planes of the CRTC that may show the frame, best first: the primary plane before overlays, and cursors only where
// nothing else has the pair and the plane has video formats, as some vendors' ordinary planes are called so; planes
// that need no scaling promise before those that do, among equals the driver's order. `refusals` gets one entry for
// each other plane of the device; it may be null. `crtc` is an index into the snapshot's list.
std::vector<Option> propose(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need,
                            const FailureMemory &failures, std::vector<Refusal> *refusals);

// What one plane takes, as it is to be offered.
struct OfferedGroup {
  size_t plane = 0;
  std::vector<DrmFormat> pairs;           // explicit layouts, best first; Broadcom's without a column height: any
  std::vector<uint32_t> implicit;         // fourccs whose layout may be left to the driver
  uint32_t min_width = 1, min_height = 1; // of a frame
  uint32_t max_width = 0, max_height = 0; // of a frame; 0: not known
};

// Groups in order of preference of their planes; a plane has several where its formats differ in sizes. What an earlier
// group has in the same sizes, a later one has not, and without it empty ones are gone. Their union is exactly what
// propose() can return something for.
struct OfferedFormats {
  std::vector<OfferedGroup> groups;
  uint32_t max_width = 0, max_height = 0; // of the device's framebuffers; 0: not known

  bool contains(const DrmFormat &format) const;
  std::vector<uint32_t> linear() const; // fourccs that can be shown linear (or implicit), in order
};

// Best plane first: that with the best layout (compressed, tiled, linear), the primary plane before overlays. In a
// group compressed layouts come first and the linear one last; among equals fewer memory planes, then the driver's
// order; formats without alpha before those with, palettes and fewer than 8 bits a colour at the end. Pairs that
// `failures` has for frames of that size are left out; a size of 0x0: only those that failed at all sizes.
OfferedFormats offers(const KmsSnapshot &snapshot, size_t crtc, const FailureMemory &failures, uint32_t width = 0,
                      uint32_t height = 0);

// What the output could show that is nearest to a frame it cannot: the same fourcc with another modifier (the same
// vendor's first, then linear), else a similar fourcc. Empty where the output shows nothing.
struct NearMiss {
  DrmFormat format;
  size_t plane = 0;
  std::string sentence;    // "NV12 would be shown with INTEL_X_TILED or linear, on plane 51 (overlay)"
  std::string remedy = {}; // where it is not about format, layout or size
};
std::vector<NearMiss> nearestMiss(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need,
                                  const FailureMemory &failures);

// Why nothing shows a frame, in parts.
struct NoPlane {
  std::string
      refusal; // "no plane of /dev/dri/card0 (vkms) shows NV12:0x…: plane 51 (overlay) has NV12, but not with …"
  std::string possible; // "Offered are …. Nearest: …"
  std::string remedy;   // "Ask upstream for drm-format=NV12, or let it convert"
  Error error() const { return {refusal + ". " + possible, 0, remedy}; }
};
NoPlane noPlane(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures,
                const std::vector<Refusal> &refusals);

} // namespace gstzc
