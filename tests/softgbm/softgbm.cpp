// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/softgbm/softgbm.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <drm_fourcc.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct gbm_device {
  int fd = -1;
  ino_t inode = 0;
};
struct gbm_bo {
  gbm_device *device = nullptr;
  uint64_t modifier = 0;
  struct Plane {
    size_t memory = 0;
    uint32_t stride = 0, offset = 0;
  };
  std::vector<Plane> planes;
  std::vector<int> memories; // descriptors
};

namespace {

std::mutex mutex;
SoftGbmFaults faults;
std::string violation;
std::set<gbm_device *> devices;
std::set<gbm_bo *> buffers;
unsigned made = 0;

constexpr uint32_t kUseScanout = 1, kUseRendering = 4;

void violate(const std::string &what) {
  if (violation.empty()) violation = what;
}

ino_t inodeOf(int fd) {
  struct stat st = {};
  return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

bool isDevice(gbm_device *device, const char *function) {
  if (!devices.contains(device)) {
    violate(std::string(function) + " of what is no device");
    return false;
  }
  // the library only borrows it
  if (inodeOf(device->fd) != device->inode) violate(std::string(function) + " after the descriptor was closed");
  return true;
}

bool isBuffer(gbm_bo *bo, const char *function) {
  if (buffers.contains(bo)) return isDevice(bo->device, function);
  violate(std::string(function) + " of what is no buffer");
  return false;
}

const gbm_bo::Plane *planeOf(gbm_bo *bo, int plane, const char *function) {
  if (!isBuffer(bo, function)) return nullptr;
  if (plane < 0 || plane >= static_cast<int>(bo->planes.size())) {
    violate(std::string(function) + " of plane " + std::to_string(plane));
    return nullptr;
  }
  return &bo->planes[static_cast<size_t>(plane)];
}

uint32_t roundUp(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

// Tiles of 128 bytes x 32 rows, as Intel's Y; CCS has a state byte for 32 rows of 1024 bytes. Empty: no such pair.
struct PlaneShape {
  uint32_t stride, rows;
};
std::vector<PlaneShape> shapes(uint32_t width, uint32_t height, uint32_t format, uint64_t modifier) {
  const bool tiled = modifier == I915_FORMAT_MOD_Y_TILED || modifier == I915_FORMAT_MOD_Y_TILED_CCS;
  if (modifier != DRM_FORMAT_MOD_LINEAR && !tiled) return {};
  const auto main = [&](uint32_t bytes, uint32_t rows) {
    return tiled ? PlaneShape{roundUp(bytes, 128), roundUp(rows, 32)} : PlaneShape{roundUp(bytes, 64), rows};
  };
  std::vector<PlaneShape> result;
  if (format == DRM_FORMAT_XRGB8888) {
    result = {main(width * 4, height)};
    if (modifier == I915_FORMAT_MOD_Y_TILED_CCS)
      result.push_back({roundUp(width * 4 / 32, 128), roundUp(height / 16 + 1, 32)});
  } else if (format == DRM_FORMAT_NV12 && modifier != I915_FORMAT_MOD_Y_TILED_CCS) {
    result = {main(width, height), main((width + 1) / 2 * 2, (height + 1) / 2)};
  }
  return result;
}

int memory(size_t bytes) {
  const int fd = memfd_create("softgbm", MFD_CLOEXEC);
  return fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? fd : -1;
}

} // namespace

extern "C" {

void softgbm_reset(void) {
  const std::lock_guard lock(mutex);
  faults = {};
  violation.clear();
  made = 0;
}

void softgbm_set_faults(const SoftGbmFaults *wanted) {
  const std::lock_guard lock(mutex);
  faults = *wanted;
}

unsigned softgbm_live_devices(void) {
  const std::lock_guard lock(mutex);
  return static_cast<unsigned>(devices.size());
}

unsigned softgbm_live_buffers(void) {
  const std::lock_guard lock(mutex);
  return static_cast<unsigned>(buffers.size());
}

unsigned softgbm_buffers(void) {
  const std::lock_guard lock(mutex);
  return made;
}

const char *softgbm_violation(void) {
  const std::lock_guard lock(mutex);
  return violation.empty() ? nullptr : violation.c_str();
}

gbm_device *gbm_create_device(int fd) {
  const std::lock_guard lock(mutex);
  if (fcntl(fd, F_GETFD) < 0) violate("gbm_create_device() of a closed descriptor");
  if (faults.create_device != 0) {
    errno = faults.create_device;
    return nullptr;
  }
  auto *device = new gbm_device{fd, inodeOf(fd)};
  devices.insert(device);
  return device;
}

void gbm_device_destroy(gbm_device *device) {
  const std::lock_guard lock(mutex);
  if (!isDevice(device, "gbm_device_destroy()")) return;
  if (std::any_of(buffers.begin(), buffers.end(), [&](const gbm_bo *bo) { return bo->device == device; }))
    violate("gbm_device_destroy() of a device with buffers");
  devices.erase(device);
  delete device;
}

const char *gbm_device_get_backend_name(gbm_device *device) {
  const std::lock_guard lock(mutex);
  return isDevice(device, "gbm_device_get_backend_name()") ? "stand-in" : nullptr;
}

gbm_bo *gbm_bo_create_with_modifiers2(gbm_device *device, uint32_t width, uint32_t height, uint32_t format,
                                      const uint64_t *modifiers, unsigned int count, uint32_t flags) {
  const std::lock_guard lock(mutex);
  errno = EINVAL;
  if (!isDevice(device, "gbm_bo_create_with_modifiers2()")) return nullptr;
  if (width == 0 || height == 0) violate("a buffer without pixels");
  if (modifiers == nullptr || count == 0) {
    violate("a list of modifiers without any");
    return nullptr;
  }
  if (std::find(modifiers, modifiers + count, DRM_FORMAT_MOD_INVALID) != modifiers + count)
    violate("the modifier INVALID, which names no layout");
  if ((flags & ~(kUseScanout | kUseRendering)) != 0) violate("flags " + std::to_string(flags));
  if ((flags & kUseScanout) == 0) violate("a buffer that is not for scan-out");
  if (faults.create_bo != 0) {
    errno = faults.create_bo;
    return nullptr;
  }
  for (unsigned i = 0; i < count; ++i) {
    auto planes = shapes(width, height, format, modifiers[i]);
    if (planes.empty()) continue;
    for (int p = 0; p < faults.extra_planes; ++p) planes.push_back({64, 1});
    auto *bo = new gbm_bo;
    bo->device = device;
    bo->modifier = faults.other_modifier != 0 ? faults.other_modifier : modifiers[i];
    uint32_t end = 0;
    for (const PlaneShape &shape : planes) {
      if (faults.own_memory) {
        bo->planes.push_back({bo->memories.size(), shape.stride, 0});
        bo->memories.push_back(memory(size_t{shape.stride} * shape.rows));
      } else {
        bo->planes.push_back({0, shape.stride, end});
        end = roundUp(end + shape.stride * shape.rows, 4096);
      }
    }
    if (!faults.own_memory) bo->memories.push_back(memory(end));
    if (faults.offset_outside) bo->planes.back().offset = end + (1u << 20);
    buffers.insert(bo);
    ++made;
    return bo;
  }
  errno = ENOSYS;
  return nullptr;
}

void gbm_bo_destroy(gbm_bo *bo) {
  const std::lock_guard lock(mutex);
  if (!isBuffer(bo, "gbm_bo_destroy()")) return;
  for (const int fd : bo->memories) close(fd);
  buffers.erase(bo);
  delete bo;
}

uint64_t gbm_bo_get_modifier(gbm_bo *bo) {
  const std::lock_guard lock(mutex);
  return isBuffer(bo, "gbm_bo_get_modifier()") ? bo->modifier : 0;
}

int gbm_bo_get_plane_count(gbm_bo *bo) {
  const std::lock_guard lock(mutex);
  return isBuffer(bo, "gbm_bo_get_plane_count()") ? static_cast<int>(bo->planes.size()) : -1;
}

int gbm_bo_get_fd_for_plane(gbm_bo *bo, int plane) {
  const std::lock_guard lock(mutex);
  const auto *p = planeOf(bo, plane, "gbm_bo_get_fd_for_plane()");
  if (p == nullptr) return -1;
  if (plane == faults.export_plane) {
    errno = EMFILE;
    return -1;
  }
  return fcntl(bo->memories[p->memory], F_DUPFD_CLOEXEC, 3);
}

uint32_t gbm_bo_get_stride_for_plane(gbm_bo *bo, int plane) {
  const std::lock_guard lock(mutex);
  const auto *p = planeOf(bo, plane, "gbm_bo_get_stride_for_plane()");
  return p != nullptr ? p->stride : 0;
}

uint32_t gbm_bo_get_offset(gbm_bo *bo, int plane) {
  const std::lock_guard lock(mutex);
  const auto *p = planeOf(bo, plane, "gbm_bo_get_offset()");
  return p != nullptr ? p->offset : 0;
}
}
