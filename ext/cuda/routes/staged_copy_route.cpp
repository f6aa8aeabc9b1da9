// SPDX-License-Identifier: LGPL-2.1-or-later
// Route staged-copy: each frame is copied to memory of the device.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ext/cuda/routes/host_pages.h"
#include "ext/cuda/routes/route.h"
#include "ext/cuda/routes/staged_layout.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/zerocopy/core/mapping.h"

namespace gstzc::cuda {
namespace {

// Where the copies come from. A driver reads pageable memory when the copy is called, not when its turn in the stream
// comes, which would be before the frame's fences. So it gets pinned pages: the buffer's own where they can be
// registered, else a bounce buffer that the CPU fills in the stream's order.
class StagedImport : public DeviceImport {
public:
  StagedImport(ContextPtr context, UniqueFd keep, const ImportSource &source, const StagedLayout &layout,
               DeviceMemory memory)
      : context_(std::move(context)), keep_(std::move(keep)), from_(source.planes), memory_(std::move(memory)) {
    pointer = memory_.get();
    size = layout.size;
    n_planes = source.n_planes;
    planes = layout.planes;
    for (unsigned p = 0; p < n_planes; ++p) frame_bytes_ += uint64_t{planes[p].rows} * planes[p].row_bytes;
  }

  void takePinned(RegisteredPages pages) { pinned_ = std::move(pages); }
  Status takeBounce(std::shared_ptr<CpuMapping> mapping) {
    auto bounce = allocPinned(context_, size);
    if (!bounce) return bounce.error();
    bounce_ = bounce.take();
    mapping_ = std::move(mapping);
    return Nothing{};
  }

  // Over the bounce buffer each byte is copied twice.
  uint64_t copyBytes() const override { return bounce_ ? 2 * frame_bytes_ : frame_bytes_; }

  Status refresh(CUstream stream) override {
    const Driver &driver = context_->driver;
    if (const int error = failed_.exchange(0); error != 0)
      return Error{"handing the frame before over to the CPU", error, ""};
    if (bounce_) {
      const auto fill = [](void *self) { static_cast<StagedImport *>(self)->fillBounce(); };
      if (auto s = driver.check(driver.cuLaunchHostFunc(stream, fill, this), "cuLaunchHostFunc"); !s) return s;
    }
    for (unsigned p = 0; p < n_planes; ++p) {
      CUDA_MEMCPY2D copy = {};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      if (bounce_) {
        copy.srcHost = static_cast<const uint8_t *>(bounce_.get()) + planes[p].offset;
        copy.srcPitch = planes[p].pitch;
      } else {
        copy.srcHost = pinned_.mapping.data() + from_[p].offset;
        copy.srcPitch = std::max(from_[p].pitch, from_[p].row_bytes);
      }
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = pointer + planes[p].offset;
      copy.dstPitch = planes[p].pitch;
      copy.WidthInBytes = planes[p].row_bytes;
      copy.Height = planes[p].rows;
      if (auto s = driver.check(driver.cuMemcpy2DAsync(&copy, stream),
                                "cuMemcpy2DAsync of plane " + std::to_string(p) + " to the device");
          !s)
        return s;
    }
    return Nothing{};
  }

private:
  // On a thread of the driver, which may not be kept waiting; the frame's fences are over, or it was given up.
  void fillBounce() {
    const auto scope = waitPoint("handover-bounce") ? handOver(keep_.get()) : std::nullopt;
    if (scope && !scope->ok()) failed_ = scope->error();
    auto *const to = static_cast<uint8_t *>(bounce_.get());
    for (unsigned p = 0; p < n_planes; ++p)
      for (uint32_t row = 0; row < planes[p].rows; ++row)
        std::memcpy(to + planes[p].offset + uint64_t{row} * planes[p].pitch,
                    mapping_->data() + from_[p].offset + uint64_t{row} * from_[p].pitch, planes[p].row_bytes);
  }

  const ContextPtr context_;
  const UniqueFd keep_;
  const std::array<ImportPlane, kMaxImportPlanes> from_;
  uint64_t frame_bytes_ = 0;
  std::atomic<int> failed_ = 0; // errno
  RegisteredPages pinned_;
  std::shared_ptr<CpuMapping> mapping_;
  PinnedMemory bounce_;
  const DeviceMemory memory_;
};

class StagedCopyRoute : public ImportRoute {
public:
  explicit StagedCopyRoute(ContextPtr context) : context_(std::move(context)) {}
  const char *name() const override { return "staged-copy"; }
  bool copies() const override { return true; }
  bool onDevice() const override { return false; }
  Status available() override { return Nothing{}; }
  bool retreat() override { return std::exchange(pin_, false); } // a registration that is wrong is so for copies, too

  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    if (auto linear = linearOnly(source); !linear) return linear.error();
    UniqueFd keep = UniqueFd::duplicate(source.fd);
    if (!keep.isValid()) return Error{"second descriptor of dma-buf " + source.id.toString(), errno, ""};

    const Driver &driver = context_->driver;
    const StagedLayout layout =
        stagedLayout(source, driver.attribute(context_->device, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
                     driver.attribute(context_->device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
    auto memory = allocDevice(context_, layout.size);
    if (!memory) return memory.error();
    auto import = std::make_shared<StagedImport>(context_, std::move(keep), source, layout, memory.take());

    // With an integrated device it is the CPU that has to read a dma-buf, see needsHandover().
    if (pin_ && !needsHandover(*context_, source))
      for (const HostFile &file : {memfdOf(source), dmabufOf(source)}) {
        if (file.fd < 0) continue;
        auto pages = RegisteredPages::create(context_, source, file, readOnlyFlag(*context_));
        if (!pages) continue;
        import->takePinned(pages.take());
        return std::shared_ptr<DeviceImport>(std::move(import));
      }

    auto mapping = CpuMapping::create(source.fd, source.size);
    if (!mapping) return mapping.error();
    if (auto bounce = import->takeBounce(mapping.take()); !bounce) return bounce.error();
    return std::shared_ptr<DeviceImport>(std::move(import));
  }

private:
  const ContextPtr context_;
  bool pin_ = true;
};

} // namespace

StagedLayout stagedLayout(const ImportSource &source, int pitch_alignment, int plane_alignment) {
  const auto up = [](uint64_t value, uint64_t to) { return (value + to - 1) / to * to; };
  const uint64_t pitch_to = static_cast<uint64_t>(std::max(pitch_alignment, 256));
  const uint64_t plane_to = static_cast<uint64_t>(std::max(plane_alignment, 256));
  uint32_t widest = 0;
  for (unsigned p = 0; p < source.n_planes; ++p) widest = std::max(widest, source.planes[p].row_bytes);
  StagedLayout layout;
  layout.planes = source.planes;
  for (unsigned p = 0; p < source.n_planes; ++p) {
    layout.planes[p].offset = layout.size = up(layout.size, plane_to);
    layout.planes[p].pitch = static_cast<uint32_t>(up(widest, pitch_to));
    layout.size += uint64_t{layout.planes[p].pitch} * layout.planes[p].rows;
  }
  return layout;
}

std::unique_ptr<ImportRoute> makeStagedCopyRoute(ContextPtr context) {
  return std::make_unique<StagedCopyRoute>(std::move(context));
}

} // namespace gstzc::cuda
