// SPDX-License-Identifier: LGPL-2.1-or-later
// Which output, mode, plane and rectangles a frame gets. Pure functions over a snapshot: they order the possibilities
// and say why others are out; the kernel's TEST_ONLY has the last word on each.
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <vector>

#include "gst/drm/kms_types.h"
#include "gst/drm/mode.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

struct Output {
  size_t connector = 0; // index into KmsSnapshot::connectors
  size_t crtc = 0;      // index into KmsSnapshot::crtcs
};

// `wanted`: a connector's name or id, empty for the first connected one. Writeback connectors are never outputs. The
// connector's present CRTC is kept where it has one, else a free one is taken. Errors list the connectors and their
// state.
Result<Output> chooseOutput(const KmsSnapshot &snapshot, const std::string &wanted);

// The same connector and CRTC in a later snapshot of the device, whose lists may have changed; an error where either is
// gone.
Result<Output> sameOutput(const KmsSnapshot &before, const Output &output, const KmsSnapshot &now);

struct Rect {
  int x = 0, y = 0, width = 0, height = 0;
  auto operator<=>(const Rect &) const = default;
};

std::string rectName(const Rect &rect); // "640x480 at 192,144"
const char *planeKind(uint32_t type);   // "primary", "overlay", "cursor"
const char *errnoName(int code);        // "EINVAL"; "?" where nobody knows it

// Sides of which one will do.
struct SideRange {
  int min = 1, max = INT_MAX; // pixels, both included
  bool any() const { return min <= 1 && max == INT_MAX; }
  auto operator<=>(const SideRange &) const = default;
};

// What the frame is, and how it is wanted.
struct FrameNeed {
  DrmFormat format; // modifier INVALID: the layout is implicit, known to the exporting driver only
  int width = 0;    // pixels; both 0: no single size, but any of those that follow
  int height = 0;
  SideRange widths, heights;
  int par_n = 1; // pixel aspect ratio
  int par_d = 1;
  uint32_t rotation = 0;        // DRM_MODE_ROTATE_* with DRM_MODE_REFLECT_*; 0: as it is
  unsigned memory_planes = 0;   // that its buffers have; 0: not known
  bool alpha = false;           // less than opaque, by the plane's property
  std::optional<uint64_t> zpos; // of the plane; nothing: as it is
  std::optional<Rect> crop;     // the part to be shown, in its pixels; nothing: all
  // Wanted on the display, pixels, rotation included; 0x0: pixel for pixel.
  int target_width = 0;
  int target_height = 0;

  Rect source() const { return crop.value_or(Rect{0, 0, width, height}); }
};

struct ModeChoice {
  drmModeModeInfo mode = {};
  bool listed = true; // false: generated timings
};

enum class AutoMode {
  Match,  // see modeCandidates()
  Native, // the output's preferred mode
  Keep,   // what it has now, or else as Match
};

// The modes to try, best first. A request: the listed mode of that size (and refresh, within half a Hz), else generated
// timings, and nothing else. Without one: listed modes of the frame's size, the smallest that holds it, the preferred
// one; for a virtual output, which takes any timings, generated ones of the frame's size come last, for devices whose
// only plane has to cover the screen. A quarter turn changes the frame's sides.
Result<std::vector<ModeChoice>> modeCandidates(const KmsSnapshot &snapshot, const KmsConnector &connector,
                                               const FrameNeed &need, const std::optional<ModeRequest> &request);
// The same for `how`, for the output's present mode `current`.
Result<std::vector<ModeChoice>> modeCandidates(const KmsSnapshot &snapshot, const Output &output, const FrameNeed &need,
                                               const std::optional<ModeRequest> &request, AutoMode how);

// Planes that can show the format on that CRTC, as indices into KmsSnapshot::planes: the primary, then overlays;
// cursors never. `refusals` gets a sentence for each plane that cannot.
std::vector<size_t> planeCandidates(const KmsSnapshot &snapshot, size_t crtc, const DrmFormat &format,
                                    std::string *refusals);

// Planes above `video` that could show boxes in `fourcc`, nearest first. Above: by zpos where planes have it, else by
// type and order.
std::vector<size_t> overlayCandidates(const KmsSnapshot &snapshot, size_t crtc, size_t video, uint32_t fourcc);

// A part of the frame (in its pixels) on a part of the display.
struct Placement {
  Rect source;
  Rect target;
  bool scaled = false;
  bool covers(int width, int height) const {
    return target.x <= 0 && target.y <= 0 && target.width >= width && target.height >= height;
  }
  auto operator<=>(const Placement &) const = default;
};

// Where on the display frames go.
struct Area {
  Rect rectangle;            // of the display
  bool keep_aspect = true;   // else it is filled
  int width = 0, height = 0; // of the display: nothing can be shown outside
};

// Centred in the area: first as large as fits with the aspect ratio kept (where that means scaling), then pixel for
// pixel, cropped where the frame is larger than the area. Cropped edges stay on multiples of 2, as subsampled chroma
// needs. The frame's crop and rotation count. What lies outside of the display is cut off.
std::vector<Placement> placements(const FrameNeed &need, const Area &area);
// The same on the whole display.
std::vector<Placement> placements(const FrameNeed &need, int width, int height);

// The formats all usable planes of the output can show with linear layout, in order of planes and without repetitions.
std::vector<uint32_t> linearFormats(const KmsSnapshot &snapshot, size_t crtc);

} // namespace gstzc
