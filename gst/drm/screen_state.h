// SPDX-License-Identifier: LGPL-2.1-or-later
// What is to be on the screen, atomic requests that say so to the kernel, and the state to go back to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gst/drm/framebuffer.h"
#include "gst/drm/kms_device.h"
#include "gst/drm/planning.h"

namespace gstzc {

// Bytes in the kernel's keeping, as the value of a property: timings, HDR metadata.
class PropertyBlob {
public:
  // `what`: for errors
  static Result<std::shared_ptr<PropertyBlob>> create(std::shared_ptr<KmsDevice> device, const void *data, size_t size,
                                                      const std::string &what);
  static Result<std::shared_ptr<PropertyBlob>> create(std::shared_ptr<KmsDevice> device, const drmModeModeInfo &mode);
  ~PropertyBlob();
  PropertyBlob(const PropertyBlob &) = delete;
  PropertyBlob &operator=(const PropertyBlob &) = delete;
  uint32_t id() const { return id_; }

private:
  PropertyBlob(std::shared_ptr<KmsDevice> device, uint32_t id) : device_(std::move(device)), id_(id) {}
  std::shared_ptr<KmsDevice> device_;
  uint32_t id_;
};
using ModeBlob = PropertyBlob;

using PlaneSettings = std::vector<std::pair<uint32_t, uint64_t>>; // properties by id

struct PlaneUse {
  size_t plane = 0;                                // index into KmsSnapshot::planes
  std::shared_ptr<Framebuffer> fb;                 // null: the plane is off
  Rect source, target;                             // pixels
  std::shared_ptr<const PlaneSettings> properties; // further ones; null: none
  int in_fence = -1; // for a commit: a sync_file, borrowed, that the plane waits for instead of what its memory has
                     // pending
};

struct ScreenState {
  std::vector<PlaneUse> planes;
  std::shared_ptr<ModeBlob> mode; // set: switch the output to it as well (a full modeset)
  // Of connector and CRTC, with the mode; and the blob that one of them names.
  std::vector<PropertySetting> settings;
  std::shared_ptr<PropertyBlob> hdr;

  void clear() { // keeps its memory
    planes.clear();
    mode.reset();
    settings.clear();
    hdr.reset();
  }
};

// `next` takes the place of `missed`, which was never committed: it has to do what that one would have done with the
// mode and with planes that it does not speak of itself.
void inheritState(ScreenState &next, const ScreenState &missed);

void addState(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const ScreenState &state);

// What the kernel was told of the planes, so that it need not be told again: for a frame in the place of another one
// that is its framebuffer and nothing else. As long as nobody else sets the planes.
class KnownPlanes {
public:
  // As addState(), without what is known. Of what is shown the framebuffer is always named: it is what flips.
  void addChange(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const ScreenState &state);
  // Whether the state differs in nothing but what is on planes.
  bool onlyFramebuffers(const ScreenState &state) const;
  // The request was taken.
  void taken(const ScreenState &state);
  void forget() { planes_.clear(); }

private:
  struct Plane {
    bool known = false;
    uint32_t fb = 0; // 0: the plane is off
    Rect source, target;
    std::shared_ptr<const PlaneSettings> properties;
  };
  bool sameButForFramebuffer(const PlaneUse &use) const;
  std::vector<Plane> planes_; // by index into the snapshot's
};

// What the output showed before us.
class SavedState {
public:
  // `snapshot` as read just before the first commit
  SavedState(const KmsSnapshot &snapshot, const Output &output) : snapshot_(snapshot), output_(output) {}

  // Mode, planes and whether the CRTC was on, as before; planes that were off go off. Where an old framebuffer no
  // longer exists the screen gets as near as the kernel lets us: the old mode with planes off, then everything off.
  // Blocking; the kernel bounds the wait. What other sinks of the process have claimed is left alone; `owner` as in
  // Claims.
  Status restore(const std::shared_ptr<KmsDevice> &device, const void *owner);

private:
  enum class Extent { Full, ModeOnly, Off };
  int attempt(const std::shared_ptr<KmsDevice> &device, Extent extent) const;

  KmsSnapshot snapshot_;
  Output output_;
};

} // namespace gstzc
