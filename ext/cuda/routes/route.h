// SPDX-License-Identifier: LGPL-2.1-or-later
// The ways a dma-buf can become memory of a CUDA device. Which of them work depends on device, driver and who made the
// buffer; route_choice.h tries them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ext/cuda/driver/objects.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/import_cache.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::cuda {

// One plane of a picture, in whole dma-buf coordinates.
struct ImportPlane {
  uint64_t offset = 0; // bytes from the start of the dma-buf
  uint32_t pitch = 0;  // bytes from one row to the next
  uint32_t rows = 0;
  uint32_t row_bytes = 0; // of a row that hold pixels
};

// One dma-buf (or memfd) with all planes of a picture. Descriptors are borrowed: a route that keeps one duplicates it.
struct ImportSource {
  int fd = -1;
  BufferId id;
  uint64_t size = 0; // bytes, of the whole dma-buf
  int memfd = -1;    // the file whose pages a udmabuf is, where its allocator kept it; else -1
  uint64_t memfd_offset = 0;
  uint32_t fourcc = 0;            // DRM_FORMAT_*
  uint64_t modifier = 0;          // DRM_FORMAT_MOD_*
  uint32_t width = 0, height = 0; // pixels
  unsigned n_planes = 0;
  std::array<ImportPlane, kMaxImportPlanes> planes = {};
};

// What a route made of an ImportSource: linear memory of the device that holds the picture. Keeps the dma-buf alive,
// and the context. Destroyed in any thread, with no context current, when the device does nothing with it any more.
class DeviceImport {
public:
  virtual ~DeviceImport() = default;

  CUdeviceptr pointer = 0; // of byte 0; planes lie at offsets from it
  uint64_t size = 0;       // bytes that may be touched from there
  unsigned n_planes = 0;
  std::array<ImportPlane, kMaxImportPlanes> planes = {}; // as the device sees them: a route that copies may use others

  // Bytes that refresh() copies for one frame; 0: the device reads the dma-buf itself.
  virtual uint64_t copyBytes() const { return 0; }
  // Whether there is something to do for each frame: a copy, or that the CPU gets the buffer first.
  virtual bool refreshes() const { return copyBytes() > 0; }
  // Enqueues on `stream` what brings a new frame to `pointer`, after the frame's fences; the context is current. The
  // dma-buf is read until that is done.
  virtual Status refresh(CUstream /*stream*/) { return Nothing{}; }
};

// Errors (EINVAL): no plane, a plane that does not lie in the dma-buf, rows that overlap. Of a layout that is not
// linear only the offsets are looked at.
Status checkSource(const ImportSource &source);
// "NV12 1920x1080 of dma-buf 12:345": for errors
std::string describe(const ImportSource &source);
// The error of routes that bring the bytes as they are, for layouts that would have to be understood (EOPNOTSUPP).
Status linearOnly(const ImportSource &source);

class ImportRoute {
public:
  virtual ~ImportRoute() = default;
  virtual const char *name() const = 0;          // "dmabuf-fd", as in the property `route`
  virtual bool copies() const { return false; }  // each frame: only taken where copies are allowed or it is named…
  virtual bool onDevice() const { return true; } // …unless it is the device that copies
  // Without a buffer: why this device cannot do it at all (a function, a library, an attribute that is missing).
  virtual Status available() = 0;
  // Errors say what refused and what that means; EOPNOTSUPP: not this layout (a modifier, planes in several buffers).
  virtual Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) = 0;
  // What it imported shows other memory. True: it has another way, which it takes from now on.
  virtual bool retreat() { return false; }
};

// In the order of preference. Each keeps the context.
std::unique_ptr<ImportRoute> makeDmabufFdRoute(ContextPtr context);     // external memory, DMABUF_FD
std::unique_ptr<ImportRoute> makeEglImageRoute(ContextPtr context);     // EGLImage, registered with CUDA
std::unique_ptr<ImportRoute> makeHostRegisterRoute(ContextPtr context); // the memfd's pages, or the dma-buf's mapping
std::unique_ptr<ImportRoute> makeVulkanBridgeRoute(ContextPtr context); // one copy by the device
std::unique_ptr<ImportRoute> makeStagedCopyRoute(ContextPtr context);   // a copy through the CPU

// All that this build has, in that order.
std::vector<std::unique_ptr<ImportRoute>> allRoutes(const ContextPtr &context);

} // namespace gstzc::cuda
