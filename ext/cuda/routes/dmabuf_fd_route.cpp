// SPDX-License-Identifier: LGPL-2.1-or-later
// Route dmabuf-fd: the driver itself takes the dma-buf, as external memory.
#include <cerrno>

#include "ext/cuda/routes/lent_fd.h"
#include "ext/cuda/routes/route.h"

namespace gstzc::cuda {
namespace {

constexpr char kWhereItWorks[] = "CUDA documents this import for Jetson Thor and later only";

class DmabufFdImport : public DeviceImport {
public:
  DmabufFdImport(UniqueFd keep, LentFd lent, ExternalMemory memory, DeviceMemory mapped)
      : keep_(std::move(keep)), lent_(std::move(lent)), memory_(std::move(memory)), mapped_(std::move(mapped)) {
    pointer = mapped_.get();
  }
  ~DmabufFdImport() override {
    lent_.giveBack([this] {
      mapped_.reset(); // before what it is a mapping of
      memory_.reset();
    });
  }

private:
  const UniqueFd keep_; // the buffer's identity, whatever the driver keeps
  LentFd lent_;
  ExternalMemory memory_;
  DeviceMemory mapped_;
};

class DmabufFdRoute : public ImportRoute {
public:
  explicit DmabufFdRoute(ContextPtr context) : context_(std::move(context)) {}
  const char *name() const override { return "dmabuf-fd"; }

  // Whether the device takes dma-bufs is told by the import only: the attribute DMA_BUF_SUPPORTED is about exports.
  Status available() override {
    const Driver &driver = context_->driver;
    if (driver.cuImportExternalMemory && driver.cuExternalMemoryGetMappedBuffer && driver.cuDestroyExternalMemory)
      return Nothing{};
    return Error{"the driver has no external memory", ENOSYS, kWhereItWorks};
  }

  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    if (auto linear = linearOnly(source); !linear) return linear.error();
    UniqueFd keep = UniqueFd::duplicate(source.fd);
    if (!keep.isValid()) return Error{"second descriptor of dma-buf " + source.id.toString(), errno, ""};
    const Driver &driver = context_->driver;
    const ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current.error();

    ExternalMemory memory;
    auto lent = LentFd::lend(source.fd, [&](int fd) -> Status {
      CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {};
      handle.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
      handle.handle.fd = fd;
      handle.size = source.size;
      CUexternalMemory made = nullptr;
      const CUresult result = driver.cuImportExternalMemory(&made, &handle);
      if (result != CUDA_SUCCESS) {
        Error error = driver.error(result, "cuImportExternalMemory of " + describe(source));
        error.remedy = kWhereItWorks;
        return error;
      }
      memory = ExternalMemory(context_, made);
      return Nothing{};
    });
    if (!lent) return lent.error();

    // All of it at once: planes mapped one by one may be refused for their offsets.
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC whole = {};
    whole.size = source.size;
    CUdeviceptr pointer = 0;
    const CUresult result = driver.cuExternalMemoryGetMappedBuffer(&pointer, memory.get(), &whole);
    if (result != CUDA_SUCCESS) {
      lent->giveBack([&] { memory.reset(); });
      return driver.error(result, "cuExternalMemoryGetMappedBuffer of " + describe(source));
    }
    auto import = std::make_shared<DmabufFdImport>(std::move(keep), lent.take(), std::move(memory),
                                                   DeviceMemory(context_, pointer));
    import->size = source.size;
    import->n_planes = source.n_planes;
    import->planes = source.planes;
    return std::shared_ptr<DeviceImport>(std::move(import));
  }

private:
  const ContextPtr context_;
};

} // namespace

std::unique_ptr<ImportRoute> makeDmabufFdRoute(ContextPtr context) {
  return std::make_unique<DmabufFdRoute>(std::move(context));
}

} // namespace gstzc::cuda
