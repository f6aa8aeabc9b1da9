// SPDX-License-Identifier: LGPL-2.1-or-later
// Route host-register: the device reads the CPU's pages of the buffer, over its bus where it has memory of its own.
#include <atomic>
#include <cerrno>

#include "ext/cuda/routes/host_pages.h"
#include "ext/cuda/routes/host_register_target.h"
#include "ext/cuda/routes/route.h"
#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

class HostRegisterImport : public DeviceImport {
public:
  HostRegisterImport(ContextPtr context, UniqueFd keep, RegisteredPages pages, bool handover)
      : context_(std::move(context)), keep_(std::move(keep)), pages_(std::move(pages)), handover_(handover) {
    pointer = pages_.pointer;
  }

  bool refreshes() const override { return handover_; }
  // Nothing moves. Where the buffer has to be handed over to the CPU first, that is done in the stream's order, after
  // the waits for the frame's fences that are on it.
  Status refresh(CUstream stream) override {
    if (!handover_ || !waitPoint("handover")) return Nothing{};
    if (const int error = failed_.exchange(0); error != 0)
      return Error{"handing the frame before over to the CPU", error, ""};
    const auto call = [](void *self) { static_cast<HostRegisterImport *>(self)->handOverNow(); };
    return context_->driver.check(context_->driver.cuLaunchHostFunc(stream, call, this), "cuLaunchHostFunc");
  }

private:
  void handOverNow() {
    if (const auto scope = handOver(keep_.get()); scope && !scope->ok()) failed_ = scope->error();
  }

  const ContextPtr context_;
  const UniqueFd keep_; // the buffer's identity: a mapping of the memfd does not keep the dma-buf
  const RegisteredPages pages_;
  const bool handover_;
  std::atomic<int> failed_ = 0; // errno
};

class HostRegisterRoute : public ImportRoute {
public:
  HostRegisterRoute(ContextPtr context, bool written) : context_(std::move(context)), written_(written) {}
  const char *name() const override { return "host-register"; }

  Status available() override {
    const auto has = [&](CUdevice_attribute a) { return context_->driver.attribute(context_->device, a) != 0; };
    if (has(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) && has(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED))
      return Nothing{};
    return Error{"the device cannot read pages of the host that were not allocated for it", ENOSYS, ""};
  }

  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    if (auto linear = linearOnly(source); !linear) return linear.error();
    UniqueFd keep = UniqueFd::duplicate(source.fd);
    if (!keep.isValid()) return Error{"second descriptor of dma-buf " + source.id.toString(), errno, ""};

    // Registering as memory of another device (IOMEMORY) is meant for what is in one piece; the driver reads it without
    // caches, so it comes last.
    const unsigned read_only = written_ ? 0u : readOnlyFlag(*context_);
    const HostFile memfd = memfdOf(source), dmabuf = dmabufOf(source);
    const struct {
      const HostFile &file;
      unsigned flags;
    } attempts[] = {{memfd, read_only}, {dmabuf, read_only}, {dmabuf, CU_MEMHOSTREGISTER_IOMEMORY}};
    Error refused{"", EINVAL, ""};
    for (const auto &[file, flags] : attempts) {
      if (file.fd < 0) continue;
      auto pages = RegisteredPages::create(context_, source, file, flags);
      if (!pages) {
        refused.what += (refused.what.empty() ? "" : ", ") + pages.error().what;
        refused.code = pages.error().code;
        refused.remedy = pages.error().remedy;
        continue;
      }
      auto import = std::make_shared<HostRegisterImport>(context_, std::move(keep), pages.take(),
                                                         needsHandover(*context_, source));
      import->size = source.size;
      import->n_planes = source.n_planes;
      import->planes = source.planes;
      return std::shared_ptr<DeviceImport>(std::move(import));
    }
    return refused;
  }

private:
  const ContextPtr context_;
  const bool written_; // by the device
};

} // namespace

std::unique_ptr<ImportRoute> makeHostRegisterRoute(ContextPtr context) {
  return std::make_unique<HostRegisterRoute>(std::move(context), false);
}

std::unique_ptr<ImportRoute> makeHostRegisterTarget(ContextPtr context) {
  return std::make_unique<HostRegisterRoute>(std::move(context), true);
}

} // namespace gstzc::cuda
