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

struct PlaneUse {
  size_t plane = 0;                                      // index into KmsSnapshot::planes
  std::shared_ptr<Framebuffer> fb;                       // null: the plane is off
  Rect source, target;                                   // pixels
  std::vector<std::pair<uint32_t, uint64_t>> properties; // further ones, by id
};

struct ScreenState {
  std::vector<PlaneUse> planes;
  std::shared_ptr<ModeBlob> mode; // set: switch the output to it as well (a full modeset)
  // Of connector and CRTC, with the mode; and the blob that one of them names.
  std::vector<PropertySetting> settings;
  std::shared_ptr<PropertyBlob> hdr;
};

// `next` takes the place of `missed`, which was never committed: it has to do what that one would have done with the
// mode and with planes that it does not speak of itself.
void inheritState(ScreenState &next, const ScreenState &missed);

void addState(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const ScreenState &state);

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
