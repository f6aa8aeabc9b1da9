// SPDX-License-Identifier: LGPL-2.1-or-later
// A display device of the kernel.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gst/drm/kms_device.h"

namespace gstzc {

// Two open files of the same device: one is master and commits, the other owns what we make (GEM handles,
// framebuffers). They are one where we opened the device. Where the application gave a descriptor its open file is
// shared with us, and a GEM handle closed there could be one that the application holds for the same dma-buf: so memory
// gets a file of its own (framebuffer ids are valid in every file of a device), if the node can be opened again.
class LibdrmDevice : public KmsDevice {
public:
  // Both give the device that this process has open already where it has: by device number; for descriptors, by open
  // file, as leases of one device are different displays. The caller has entered the device.
  // Errors name the node: missing, no permission (and the group to join), no atomic modesetting, another master.
  static Result<std::shared_ptr<KmsDevice>> openPath(const std::string &path);
  // Duplicates `fd`; its open file has to be master already.
  static Result<std::shared_ptr<KmsDevice>> fromFd(int fd);

  ~LibdrmDevice() override;

  Result<KmsSnapshot> snapshot(Outputs outputs) const override;
  ForeignMemory foreignMemory() const override;
  UniqueFd openAgain() const override;
  int addFramebuffer(const FramebufferRequest &request, uint32_t *id) override;
  void removeFramebuffer(uint32_t id) override;
  int importHandle(int dmabuf, uint32_t *handle) override;
  // Does nothing where the only open file is the application's: see above.
  void closeHandle(uint32_t handle) override;
  int createBlob(const void *data, size_t size, uint32_t *id) override;
  void destroyBlob(uint32_t id) override;
  // Where the application gave us its descriptor, and for those who have not taken the events, the flip is told by the
  // commit's out-fence, whose signal is the flip event itself with the same time stamp: an event would go to whoever
  // reads the file first.
  int commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) const override;
  int takeFlipEvents() override;
  void giveFlipEvents() override { events_taken_ = false; }
  std::optional<FlipEvent> readFlipEvents() override;
  // What memory that nobody has used yet gives. None from kernels before 6.0.
  int signalledFence() override;
  int createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) override;
  void destroyDumb(uint32_t handle) override;
  int mapDumb(const DumbMemory &memory, void **data) override;
  int exportDumb(uint32_t handle, UniqueFd *dmabuf) override;
  Status enter() override;
  void leave() override;
  bool regainMaster() override;
  std::shared_ptr<void> watchOutputs(std::function<void()> changed) override;

private:
  LibdrmDevice() = default;
  Status prepare();
  // Of the registry, whose lock is held.
  static std::shared_ptr<LibdrmDevice> known(const std::function<bool(const LibdrmDevice &)> &is);
  int fd() const { return fd_.get(); }
  int memoryFd() const { return memory_fd_.isValid() ? memory_fd_.get() : fd_.get(); }
  UniqueFd makeSignalledFence();

  UniqueFd fd_, memory_fd_;
  bool shared_ = false;
  std::atomic<bool> events_taken_ = false;
  std::mutex users_mutex_;
  unsigned users_ = 0;
  bool became_master_ = false; // by us, not by the application before
  mutable std::once_flag foreign_once_;
  mutable ForeignMemory foreign_ = ForeignMemory::None;
  std::once_flag signalled_once_;
  UniqueFd signalled_;
};

// Everything the kernel says of the device behind `fd`.
Result<KmsSnapshot> readSnapshot(int fd, const std::string &path, const std::string &driver,
                                 KmsDevice::Outputs outputs);

// Where `fd`, the open node `path`, has no display because it is a render node: the error, with the card node of the
// same device where there is one, and `option` for what sets it ("device=").
std::optional<Error> renderNodeError(int fd, const std::string &path, const std::string &option);

// What memory of other exporters the device behind `fd`, a card node, master or not, can import: tried with small
// buffers of udmabuf or of a dma-heap. Nothing where no such buffer is to be had; Any where there is no udmabuf to make
// a scattered one with.
std::optional<ForeignMemory> probeForeignMemory(int fd);

} // namespace gstzc
