// SPDX-License-Identifier: LGPL-2.1-or-later
// A display device: what the sink needs of a kernel, so that something else can stand in for one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gst/drm/device/atomic_request.h"
#include "gst/drm/device/claims.h"
#include "gst/drm/kms_types.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

class CrtcShare;

enum class ForeignMemory { None, Contiguous, Any };

constexpr unsigned kMaxFramebufferPlanes = 4;

// Memory as a framebuffer. `modifier` INVALID: not told, the driver takes its own idea of the memory's tiling.
struct FramebufferRequest {
  uint32_t width = 0, height = 0; // pixels
  uint32_t fourcc = 0;
  uint64_t modifier = 0;
  unsigned n_planes = 0; // memory planes: may be more than the format has
  std::array<uint32_t, kMaxFramebufferPlanes> handles = {}, pitches = {}, offsets = {}; // bytes
};

struct DumbMemory {
  uint32_t handle = 0;
  uint32_t pitch = 0; // bytes
  uint64_t size = 0;  // bytes
};

// LibdrmDevice is the real one, ProfileDevice one that a file describes. What returns int returns 0 or a positive
// errno. Thread safe.
class KmsDevice {
public:
  virtual ~KmsDevice() = default;
  KmsDevice(const KmsDevice &) = delete;
  KmsDevice &operator=(const KmsDevice &) = delete;

  const std::string &path() const { return path_; }     // "/dev/dri/card0"
  const std::string &driver() const { return driver_; } // for messages only

  // Reads everything anew. Probe: the outputs are asked who is connected, which may take long; AsKnown: as of the
  // kernel's last probe.
  enum class Outputs { Probe, AsKnown };
  virtual Result<KmsSnapshot> snapshot(Outputs outputs = Outputs::Probe) const = 0;

  // What memory of other exporters can be imported: tried once, with small buffers of udmabuf or of a dma-heap. None
  // also where no such buffer is to be had; Any where there is no udmabuf to make a scattered one with.
  virtual ForeignMemory foreignMemory() const = 0;

  // The device's node as an open file of its own, which is not master, for a library that makes memory with it: its
  // handles are nobody else's. Not valid: it cannot be opened again (errno).
  virtual UniqueFd openAgain() const = 0;

  virtual int addFramebuffer(const FramebufferRequest &request, uint32_t *id) = 0;
  virtual void removeFramebuffer(uint32_t id) = 0;

  // One handle per dma-buf, however often it is imported: to be closed once, by whoever knows that nobody else uses it.
  virtual int importHandle(int dmabuf, uint32_t *handle) = 0;
  virtual void closeHandle(uint32_t handle) = 0;

  virtual int createBlob(const void *data, size_t size, uint32_t *id) = 0;
  virtual void destroyBlob(uint32_t id) = 0;

  // `flags`: DRM_MODE_ATOMIC_*. `flipped`, where it is not null and the request names a CRTC, becomes a descriptor that
  // is readable when what was committed is on screen; blocking and TEST_ONLY commits have none.
  virtual int commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) = 0;
  // When that was, CLOCK_MONOTONIC ns. Below 0: it ended in an error, as a negative errno.
  virtual int64_t flipTime(int flipped) const = 0;
  // Flips as events, which cost less than a descriptor each: of one user of the device at a time, who reads them all.
  // A descriptor of the device's to be polled, until giveFlipEvents(); -1: they are not to be had.
  virtual int takeFlipEvents() { return -1; }
  virtual void giveFlipEvents() {}
  struct FlipEvent {
    uint64_t token = 0; // of the commit
    int64_t time = 0;   // CLOCK_MONOTONIC ns
  };
  // The latest of those that have come; does not wait.
  virtual std::optional<FlipEvent> readFlipEvents() { return std::nullopt; }
  // A fence that has signalled, for IN_FENCE_FD; borrowed, for as long as the device lives. -1: none is to be had.
  virtual int signalledFence() = 0;

  // Memory of the device itself, zeroed.
  virtual int createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) = 0;
  virtual void destroyDumb(uint32_t handle) = 0;
  // The mapping, `memory.size` bytes, is the caller's to munmap().
  virtual int mapDumb(const DumbMemory &memory, void **data) = 0;
  virtual int exportDumb(uint32_t handle, UniqueFd *dmabuf) = 0;

  // Sinks of a process share a device. Each that shows frames on it is a user; while there is one, the process is
  // master. After the last one has left others may become master, where it was us who did, and for users of its memory
  // the device works on. Errors of enter(): another process is master.
  virtual Status enter() = 0;
  virtual void leave() = 0;
  // After EACCES: another process became master. True: this one is again.
  virtual bool regainMaster() = 0;

  // `changed` is called, on any thread, when outputs may have been plugged in or out, until the token is let go, which
  // waits for a call under way. Null where nothing tells of it.
  virtual std::shared_ptr<void> watchOutputs(std::function<void()> changed) = 0;
  Claims &claims() { return claims_; }
  // What the process's sinks on one CRTC have in common; it goes with the last of them.
  std::shared_ptr<CrtcShare> crtcShare(uint32_t crtc);

protected:
  KmsDevice() = default;
  std::string path_, driver_;

private:
  Claims claims_;
  std::mutex shares_mutex_;
  std::map<uint32_t, std::weak_ptr<CrtcShare>> shares_; // by CRTC
};

struct OpenRequest {
  std::string path;                  // empty: choose
  std::string profile;               // file that describes a device to take instead; empty: none
  int fd = -1;                       // of the application, not taken; -1: none
  std::string connector;             // name or id, empty: the first connected one
  std::shared_ptr<KmsDevice> device; // one that is open already, instead of all that; null: none
};

// A described device, by descriptor, by path, or the first card that is atomic and has the connector (or any connected
// output that no other sink of this process has). The error of the last way says for each card why it was passed over.
// The caller has entered the device.
Result<std::shared_ptr<KmsDevice>> openDisplay(const OpenRequest &request);

} // namespace gstzc
