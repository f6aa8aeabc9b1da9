// SPDX-License-Identifier: LGPL-2.1-or-later
// Framebuffers: dma-bufs and dumb buffers as the display sees them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "gst/drm/kms_device.h"
#include "gst/zerocopy/core/drm_format.h"
#include "gst/zerocopy/core/import_cache.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// Owner of one framebuffer id; removed when the last user lets go. Removing one that is on screen switches its plane
// off, so whoever shows it holds it until it is replaced there.
class Framebuffer {
public:
  struct Plane {
    uint32_t handle = 0; // GEM handle of the device, borrowed: the framebuffer keeps the memory itself
    uint32_t pitch = 0;
    uint32_t offset = 0;
  };

  // Linear memory is declared as such where the device knows modifiers, since without the declaration a driver may take
  // its own idea of the memory's tiling.
  static Result<std::shared_ptr<Framebuffer>> create(std::shared_ptr<KmsDevice> device, bool modifiers,
                                                     const DrmFormat &format, uint32_t width, uint32_t height,
                                                     std::span<const Plane> planes);
  ~Framebuffer();
  Framebuffer(const Framebuffer &) = delete;
  Framebuffer &operator=(const Framebuffer &) = delete;

  uint32_t id() const { return id_; }

private:
  Framebuffer(std::shared_ptr<KmsDevice> device, uint32_t id) : device_(std::move(device)), id_(id) {}
  std::shared_ptr<KmsDevice> device_;
  uint32_t id_;
};

// Imports dma-bufs as framebuffers, into the process's ImportCache under an importer of its own. Thread safe.
class FramebufferImporter {
public:
  struct Source {
    ImportKey key; // its importer is not looked at; offsets within the 32 bits of a framebuffer
    std::array<int, kMaxFramebufferPlanes> fds = {}; // borrowed
    bool subsampled = false; // chroma has fewer pixels than luma, so odd sizes may have to be rounded up for the kernel
  };

  FramebufferImporter(std::shared_ptr<KmsDevice> device, bool modifiers);
  ~FramebufferImporter();
  FramebufferImporter(const FramebufferImporter &) = delete;
  FramebufferImporter &operator=(const FramebufferImporter &) = delete;

  // Errors: the system call, the device and errno (ENODEV: this device takes no foreign memory). `refused`, where
  // given, says of an error whether it was the framebuffer that was refused, and not the memory.
  Result<std::shared_ptr<Framebuffer>> import(const Source &source, bool *refused = nullptr);
  void clear(); // frames of other caps follow

  uint64_t imports() const { return counters().imports; }
  uint64_t hits() const { return counters().hits; }
  ImportCache::Counters counters() const { return ImportCache::process().counters(importer_); }

private:
  Result<std::shared_ptr<Framebuffer>> create(const Source &source, bool *refused);

  std::shared_ptr<KmsDevice> device_;
  const bool modifiers_;
  const ImporterId importer_;
  std::mutex mutex_;
};

// Memory of the device itself, as its driver gives it to programs that draw with the CPU.
class DumbBuffer {
public:
  // `width` in pixels of `bits` each
  static Result<std::unique_ptr<DumbBuffer>> create(std::shared_ptr<KmsDevice> device, uint32_t width, uint32_t height,
                                                    uint32_t bits);
  ~DumbBuffer();
  DumbBuffer(const DumbBuffer &) = delete;
  DumbBuffer &operator=(const DumbBuffer &) = delete;

  uint32_t handle() const { return memory_.handle; }
  uint32_t pitch() const { return memory_.pitch; } // bytes
  uint64_t size() const { return memory_.size; }   // bytes
  // Mapped on first use; zeroed by the kernel.
  Result<unsigned char *> map();
  Result<UniqueFd> exportDmaBuf() const;

private:
  DumbBuffer() = default;
  std::shared_ptr<KmsDevice> device_;
  DumbMemory memory_;
  unsigned char *data_ = nullptr;
};

} // namespace gstzc
