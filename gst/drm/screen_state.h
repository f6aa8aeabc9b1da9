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

// A list of properties to be set at once.
class AtomicRequest {
public:
  AtomicRequest() : request_(drmModeAtomicAlloc()) {}
  ~AtomicRequest() { drmModeAtomicFree(request_); }
  AtomicRequest(const AtomicRequest &) = delete;
  AtomicRequest &operator=(const AtomicRequest &) = delete;

  void set(uint32_t object, uint32_t property, uint64_t value) {
    drmModeAtomicAddProperty(request_, object, property, value);
  }
  // By name; an object without that property is left alone.
  void set(uint32_t object, const KmsProperties &properties, const char *name, uint64_t value) {
    if (const auto p = properties.find(name); p != properties.end()) set(object, p->second.id, value);
  }
  // 0 or errno; `flags` DRM_MODE_ATOMIC_*
  int commit(int fd, uint32_t flags) { return -drmModeAtomicCommit(fd, request_, flags, nullptr); }

private:
  drmModeAtomicReqPtr request_;
};

// Timings in the kernel's keeping.
class ModeBlob {
public:
  static Result<std::shared_ptr<ModeBlob>> create(std::shared_ptr<KmsDevice> device, const drmModeModeInfo &mode);
  ~ModeBlob();
  ModeBlob(const ModeBlob &) = delete;
  ModeBlob &operator=(const ModeBlob &) = delete;
  uint32_t id() const { return id_; }

private:
  ModeBlob(std::shared_ptr<KmsDevice> device, uint32_t id) : device_(std::move(device)), id_(id) {}
  std::shared_ptr<KmsDevice> device_;
  uint32_t id_;
};

struct PlaneUse {
  size_t plane = 0;                                      // index into KmsSnapshot::planes
  std::shared_ptr<Framebuffer> fb;                       // null: the plane is off
  Rect source, target;                                   // pixels
  std::vector<std::pair<uint32_t, uint64_t>> properties; // further ones, by id
};

struct ScreenState {
  std::vector<PlaneUse> planes;
  std::shared_ptr<ModeBlob> mode; // set: switch the output to it as well (a full modeset)
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
  // Blocking; the kernel bounds the wait.
  Status restore(const std::shared_ptr<KmsDevice> &device) const;

private:
  enum class Extent { Full, ModeOnly, Off };
  int attempt(const std::shared_ptr<KmsDevice> &device, Extent extent) const;

  KmsSnapshot snapshot_;
  Output output_;
};

} // namespace gstzc
