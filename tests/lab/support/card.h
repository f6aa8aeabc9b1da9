// SPDX-License-Identifier: LGPL-2.1-or-later
// DRM cards for tests in the laboratory: found by the name of their driver, with owned handles and framebuffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <xf86drm.h>
#include <xf86drmMode.h>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

struct DrmDelete {
  void operator()(drmModeRes *p) const { drmModeFreeResources(p); }
  void operator()(drmModeConnector *p) const { drmModeFreeConnector(p); }
  void operator()(drmModeCrtc *p) const { drmModeFreeCrtc(p); }
  void operator()(drmModePlane *p) const { drmModeFreePlane(p); }
  void operator()(drmModePlaneRes *p) const { drmModeFreePlaneResources(p); }
  void operator()(drmModeAtomicReq *p) const { drmModeAtomicFree(p); }
};
template <typename T> using DrmPtr = std::unique_ptr<T, DrmDelete>;

struct CardInfo {
  std::string path;   // "/dev/dri/card0"
  std::string driver; // "vkms", "virtio_gpu", "bochs-drm", "vgem"
};

// Every card node of the machine, in the order of their names.
std::vector<CardInfo> listCards();

// Path of the first card of that driver, or an error that lists the ones there are.
Result<std::string> cardPath(const std::string &driver);

// Opens the card. With capabilities (atomic, universal planes, writeback connectors) where the driver is a display.
// The first open file of a card becomes its master.
Result<UniqueFd> openCard(const std::string &driver);

// Value of an object's property, and its id; id 0 where the object has none of that name.
struct Property {
  uint32_t id = 0;
  uint64_t value = 0;
};
Property property(int card, uint32_t object, uint32_t type, const char *name);

// A plane of a card and what it is.
struct PlaneInfo {
  uint32_t id = 0;
  uint64_t type = 0; // DRM_PLANE_TYPE_*
  uint32_t possibleCrtcs = 0;
  std::vector<uint32_t> formats; // DRM fourcc
};
std::vector<PlaneInfo> planes(int card);

// Memory of the card itself, mapped, as one linear 32 bit framebuffer. The card has to outlive it.
class DumbFramebuffer {
public:
  static Result<DumbFramebuffer> create(int card, uint32_t width, uint32_t height, uint32_t fourcc);
  DumbFramebuffer(DumbFramebuffer &&other) noexcept;
  DumbFramebuffer &operator=(DumbFramebuffer &&) = delete;
  ~DumbFramebuffer();

  uint32_t id() const { return framebuffer_; }
  uint32_t width() const { return width_; }
  uint32_t height() const { return height_; }
  uint32_t stride() const { return stride_; } // bytes
  uint32_t *pixels() const { return static_cast<uint32_t *>(map_); }

private:
  DumbFramebuffer() = default;
  int card_ = -1;
  uint32_t handle_ = 0, framebuffer_ = 0, width_ = 0, height_ = 0, stride_ = 0;
  size_t size_ = 0;
  void *map_ = nullptr;
};

// A mode that no connector lists; its timing is what a virtual display accepts.
drmModeModeInfo makeMode(uint16_t width, uint16_t height, uint32_t refresh = 60);

} // namespace gstzc::lab
