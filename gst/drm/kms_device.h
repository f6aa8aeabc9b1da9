// SPDX-License-Identifier: LGPL-2.1-or-later
// One open display device.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "gst/drm/kms_types.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

enum class ForeignMemory { None, Contiguous, Any };

// Two open files of the same device: `fd` is master and commits; `memoryFd` owns what we make (GEM handles,
// framebuffers). They are one where we opened the device. Where the application gave a descriptor its open file is
// shared with us, and a GEM handle closed there could be one that the application holds for the same dma-buf: so memory
// gets a file of its own (framebuffer ids are valid in every file of a device), if the node can be opened again.
class KmsDevice {
public:
  // Errors name the node: missing, no permission (and the group to join), no atomic modesetting, another master.
  static Result<std::shared_ptr<KmsDevice>> openPath(const std::string &path);
  // Duplicates `fd`; its open file has to be master already.
  static Result<std::shared_ptr<KmsDevice>> fromFd(int fd);

  ~KmsDevice();
  KmsDevice(const KmsDevice &) = delete;
  KmsDevice &operator=(const KmsDevice &) = delete;

  int fd() const { return fd_.get(); }
  int memoryFd() const { return memory_fd_.isValid() ? memory_fd_.get() : fd_.get(); }
  // False where the only open file is the application's: then handles of imported dma-bufs stay open, see above.
  bool ownsMemoryFile() const { return memory_fd_.isValid() || !shared_; }
  bool shared() const { return shared_; }
  const std::string &path() const { return path_; }
  const std::string &driver() const { return driver_; }

  // What memory of other exporters can be imported: tried once, with small buffers of udmabuf or of a dma-heap. None
  // also where no such buffer is to be had; Any where there is no udmabuf to make a scattered one with.
  ForeignMemory foreignMemory() const;

  // Lets others become master where it was us who did; for users of its memory the device works on.
  void dropMaster();

  // Reads everything anew. Probe: the outputs are asked who is connected, which may take long; AsKnown: as of the
  // kernel's last probe.
  enum class Outputs { Probe, AsKnown };
  Result<KmsSnapshot> snapshot(Outputs outputs = Outputs::Probe) const;

private:
  KmsDevice() = default;
  Status prepare();

  UniqueFd fd_, memory_fd_;
  bool shared_ = false;
  bool became_master_ = false; // by us, not by the application before
  std::string path_, driver_;
  mutable std::once_flag foreign_once_;
  mutable ForeignMemory foreign_ = ForeignMemory::None;
};

// Properties of one KMS object with their present values.
KmsProperties readProperties(int fd, uint32_t object, uint32_t type);

struct OpenRequest {
  std::string path;      // empty: choose
  int fd = -1;           // of the application, not taken; -1: none
  std::string connector; // name or id, empty: the first connected one
};

// By descriptor, by path, or the first card that is atomic and has the connector (or any connected output). The error
// of the last way says for each card why it was passed over.
Result<std::shared_ptr<KmsDevice>> openDisplay(const OpenRequest &request);

} // namespace gstzc
