// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/gbm/gbm_frames.h"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/modifiers.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/drm_format.h"

namespace gstzc {
namespace {

class GbmBuffer {
public:
  GbmBuffer(const GbmLibrary &gbm, gbm_bo *bo) : gbm_(gbm), bo_(bo) {}
  ~GbmBuffer() { gbm_.bo_destroy(bo_); }
  GbmBuffer(const GbmBuffer &) = delete;
  GbmBuffer &operator=(const GbmBuffer &) = delete;
  gbm_bo *get() const { return bo_; }

private:
  const GbmLibrary &gbm_;
  gbm_bo *bo_;
};

class GbmFrames : public FrameSource {
public:
  GbmFrames(const GbmLibrary &gbm, UniqueFd node, gbm_device *device, std::string name)
      : gbm_(gbm), node_(std::move(node)), device_(device), name_(std::move(name)) {}
  ~GbmFrames() override { gbm_.device_destroy(device_); }

  Result<PoolFrame> make(const FrameCaps &caps) override {
    const std::lock_guard lock(mutex_); // libgbm's drivers are not all thread safe
    const DrmFormat pair{caps.fourcc, caps.modifier};
    const std::string what = "a buffer of " + name_ + " for " + describe(pair) + " " + std::to_string(caps.width()) +
                             "x" + std::to_string(caps.height());
    errno = 0;
    gbm_bo *made = gbm_.bo_create_with_modifiers2(device_, static_cast<uint32_t>(caps.width()),
                                                  static_cast<uint32_t>(caps.height()), pair.fourcc, &pair.modifier, 1,
                                                  kGbmScanout | kGbmRendering);
    if (made == nullptr) return Error{what, errno, "Its driver makes no such buffers for display"};
    const GbmBuffer bo(gbm_, made);
    // drivers without modifiers have none to tell, and take no other one than the linear one
    const uint64_t modifier = gbm_.bo_get_modifier(bo.get());
    if (modifier != pair.modifier && !(caps.linear() && modifier == DRM_FORMAT_MOD_INVALID))
      return Error{what + ": it came as " + layoutName(modifier), 0, ""};
    const int planes = gbm_.bo_get_plane_count(bo.get());
    if (planes < 1 || planes > static_cast<int>(kMaxFramebufferPlanes) ||
        (memoryPlanesKnown(pair.modifier) && planes != static_cast<int>(memoryPlanes(pair))))
      return Error{what + ": it came in " + std::to_string(planes) + " memory planes, not " +
                       std::to_string(memoryPlanes(pair)),
                   0, ""};
    PoolFrame frame;
    if (caps.linear()) frame.format = GST_VIDEO_INFO_FORMAT(&caps.info); // else DMA_DRM
    frame.n_planes = static_cast<guint>(planes);
    std::vector<BufferId> known; // of the frame's memories
    std::vector<gsize> begins;
    for (int p = 0; p < planes; ++p)
      if (auto placed = addPlane(bo.get(), p, frame, known, begins); !placed)
        return Error{what + ": " + placed.error().what, placed.error().code, placed.error().remedy};
    return frame;
  }

private:
  // Planes share a dma-buf or have their own.
  Status addPlane(gbm_bo *bo, int p, PoolFrame &frame, std::vector<BufferId> &known, std::vector<gsize> &begins) const {
    const std::string plane = "memory plane " + std::to_string(p);
    errno = 0;
    UniqueFd fd(gbm_.bo_get_fd_for_plane(bo, p));
    if (!fd.isValid()) return Error{"export of " + plane, errno, ""};
    auto id = bufferId(fd.get());
    if (!id) return id.error();
    auto memory = static_cast<size_t>(std::find(known.begin(), known.end(), *id) - known.begin());
    if (memory == known.size()) {
      auto size = fileSize(fd.get());
      if (!size) return size.error();
      begins.push_back(frame.size());
      known.push_back(*id);
      frame.memories.push_back({std::move(fd), *size});
    }
    const gsize offset = gbm_.bo_get_offset(bo, p);
    const uint32_t stride = gbm_.bo_get_stride_for_plane(bo, p);
    if (stride == 0 || stride > G_MAXINT || offset >= frame.memories[memory].size)
      return Error{plane + " with rows of " + std::to_string(stride) + " bytes at " + std::to_string(offset) + " of " +
                       std::to_string(frame.memories[memory].size),
                   0, ""};
    frame.offsets[static_cast<size_t>(p)] = begins[memory] + offset;
    frame.strides[static_cast<size_t>(p)] = static_cast<gint>(stride);
    return Nothing{};
  }

  const GbmLibrary gbm_;
  const UniqueFd node_; // outlives the device
  gbm_device *const device_;
  const std::string name_;
  std::mutex mutex_;
};

} // namespace

Result<std::shared_ptr<FrameSource>> gbmFrames(const KmsDevice &device, const Result<GbmLibrary> &library) {
  if (!library) return library.error();
  UniqueFd node = device.openAgain();
  if (!node.isValid())
    return Error{"open " + device.path() + " once more, for libgbm", errno, "Give the process access to the node"};
  errno = 0;
  gbm_device *made = library->create_device(node.get());
  if (made == nullptr)
    return Error{"libgbm's device for " + device.path() + " (" + device.driver() + ")", errno,
                 "It may have no driver for this display: install the GPU vendor's"};
  const char *backend = library->device_get_backend_name(made);
  return std::shared_ptr<FrameSource>(std::make_shared<GbmFrames>(
      *library, std::move(node), made,
      "libgbm (" + std::string(backend != nullptr ? backend : "?") + ", " + device.path() + ")"));
}

Status takesFrame(KmsDevice &device, const PoolFrame &frame, const FrameCaps &caps) {
  FramebufferRequest request;
  request.width = static_cast<uint32_t>(caps.width());
  request.height = static_cast<uint32_t>(caps.height());
  request.fourcc = caps.fourcc;
  request.modifier = caps.modifier;
  request.n_planes = std::min<unsigned>(frame.n_planes, kMaxFramebufferPlanes);
  std::vector<uint32_t> handles; // of the memories
  std::vector<gsize> begins;
  int rc = 0;
  gsize end = 0;
  for (const PoolFrame::Memory &memory : frame.memories) {
    uint32_t handle = 0;
    if (rc = device.importHandle(memory.fd.get(), &handle); rc != 0) break;
    handles.push_back(handle);
    begins.push_back(end);
    end += memory.size;
  }
  const bool imported = rc == 0;
  if (imported) {
    for (unsigned p = 0; p < request.n_planes; ++p) {
      const size_t m =
          static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), frame.offsets[p]) - begins.begin()) - 1;
      request.handles[p] = handles[m];
      request.offsets[p] = static_cast<uint32_t>(frame.offsets[p] - begins[m]);
      request.pitches[p] = static_cast<uint32_t>(frame.strides[p]);
    }
    uint32_t id = 0;
    rc = device.addFramebuffer(request, &id);
    if (rc == 0) device.removeFramebuffer(id);
  }
  for (const uint32_t handle : handles) device.closeHandle(handle); // of new buffers: nobody else has them
  if (rc == 0) return Nothing{};
  return Error{std::string(imported ? "a framebuffer of " : "the import of ") + describe({caps.fourcc, caps.modifier}) +
                   " by " + device.path() + " (" + device.driver() + ")",
               rc, ""};
}

} // namespace gstzc
