// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/card.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <drm_fourcc.h>
#include <sys/mman.h>

namespace gstzc::lab {

std::vector<CardInfo> listCards() {
  std::vector<CardInfo> cards;
  std::error_code none;
  for (const auto &entry : std::filesystem::directory_iterator("/dev/dri", none)) {
    if (!entry.path().filename().string().starts_with("card")) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.isValid()) continue;
    if (drmVersion *version = drmGetVersion(fd.get())) {
      cards.push_back({entry.path().string(), version->name});
      drmFreeVersion(version);
    }
  }
  std::sort(cards.begin(), cards.end(), [](const CardInfo &a, const CardInfo &b) { return a.path < b.path; });
  return cards;
}

Result<std::string> cardPath(const std::string &driver) {
  std::string there;
  for (const CardInfo &card : listCards()) {
    if (card.driver == driver) return card.path;
    there += " " + card.path + "=" + card.driver;
  }
  return Error{"no card of the driver " + driver + "; there are:" + (there.empty() ? " none" : there), ENODEV, ""};
}

Result<UniqueFd> openCard(const std::string &driver) {
  auto path = cardPath(driver);
  if (!path) return path.error();
  UniqueFd fd(::open(path->c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.isValid()) return Error{"open " + *path, errno, ""};
  // vgem is no display and refuses them
  drmSetClientCap(fd.get(), DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1);
  if (drmSetClientCap(fd.get(), DRM_CLIENT_CAP_ATOMIC, 1) == 0)
    drmSetClientCap(fd.get(), DRM_CLIENT_CAP_WRITEBACK_CONNECTORS, 1);
  return fd;
}

Property property(int card, uint32_t object, uint32_t type, const char *name) {
  Property found;
  drmModeObjectProperties *properties = drmModeObjectGetProperties(card, object, type);
  if (!properties) return found;
  for (uint32_t i = 0; i < properties->count_props && !found.id; ++i) {
    drmModePropertyRes *p = drmModeGetProperty(card, properties->props[i]);
    if (p && std::string(p->name) == name) found = {p->prop_id, properties->prop_values[i]};
    drmModeFreeProperty(p);
  }
  drmModeFreeObjectProperties(properties);
  return found;
}

std::vector<PlaneInfo> planes(int card) {
  std::vector<PlaneInfo> found;
  const DrmPtr<drmModePlaneRes> resources(drmModeGetPlaneResources(card));
  for (uint32_t i = 0; resources && i < resources->count_planes; ++i) {
    const DrmPtr<drmModePlane> plane(drmModeGetPlane(card, resources->planes[i]));
    if (!plane) continue;
    found.push_back({plane->plane_id,
                     property(card, plane->plane_id, DRM_MODE_OBJECT_PLANE, "type").value,
                     plane->possible_crtcs,
                     {plane->formats, plane->formats + plane->count_formats}});
  }
  return found;
}

Result<DumbFramebuffer> DumbFramebuffer::create(int card, uint32_t width, uint32_t height, uint32_t fourcc) {
  DumbFramebuffer fb;
  fb.card_ = card;
  fb.width_ = width;
  fb.height_ = height;
  uint64_t size = 0, offset = 0;
  if (int rc = drmModeCreateDumbBuffer(card, width, height, 32, 0, &fb.handle_, &fb.stride_, &size); rc < 0)
    return Error{"create a dumb buffer of " + std::to_string(width) + "x" + std::to_string(height), -rc, ""};
  fb.size_ = size;
  const uint32_t handles[4] = {fb.handle_}, pitches[4] = {fb.stride_}, offsets[4] = {};
  if (int rc = drmModeAddFB2(card, width, height, fourcc, handles, pitches, offsets, &fb.framebuffer_, 0); rc < 0)
    return Error{"make a framebuffer of a dumb buffer", -rc, ""};
  if (int rc = drmModeMapDumbBuffer(card, fb.handle_, &offset); rc < 0) return Error{"map a dumb buffer", -rc, ""};
  void *map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, card, static_cast<off_t>(offset));
  if (map == MAP_FAILED) return Error{"mmap a dumb buffer", errno, ""};
  fb.map_ = map;
  return fb;
}

DumbFramebuffer::DumbFramebuffer(DumbFramebuffer &&other) noexcept
    : card_(other.card_), handle_(std::exchange(other.handle_, 0)), framebuffer_(std::exchange(other.framebuffer_, 0)),
      width_(other.width_), height_(other.height_), stride_(other.stride_), size_(other.size_),
      map_(std::exchange(other.map_, nullptr)) {}

DumbFramebuffer::~DumbFramebuffer() {
  if (map_) munmap(map_, size_);
  if (framebuffer_) drmModeRmFB(card_, framebuffer_);
  if (handle_) drmModeDestroyDumbBuffer(card_, handle_);
}

drmModeModeInfo makeMode(uint16_t width, uint16_t height, uint32_t refresh) {
  drmModeModeInfo mode = {};
  mode.hdisplay = width;
  mode.hsync_start = static_cast<uint16_t>(width + 8);
  mode.hsync_end = static_cast<uint16_t>(width + 16);
  mode.htotal = static_cast<uint16_t>(width + 32);
  mode.vdisplay = height;
  mode.vsync_start = static_cast<uint16_t>(height + 2);
  mode.vsync_end = static_cast<uint16_t>(height + 4);
  mode.vtotal = static_cast<uint16_t>(height + 8);
  mode.clock = (uint32_t{mode.htotal} * mode.vtotal * refresh + 999) / 1000; // kHz
  mode.vrefresh = refresh;
  mode.type = DRM_MODE_TYPE_USERDEF;
  std::snprintf(mode.name, sizeof mode.name, "%ux%u", width, height);
  return mode;
}

} // namespace gstzc::lab
