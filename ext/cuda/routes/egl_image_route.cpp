// SPDX-License-Identifier: LGPL-2.1-or-later
// Route egl-image: the dma-buf becomes an EGL image, which is registered with CUDA. Where CUDA shows it as linear
// memory that is used as it is; where it shows arrays, or planes apart from each other, the device copies each frame.
#include "ext/cuda/routes/route.h"
#include "gstzc-config.h"

#include <cerrno>

#if GSTZC_HAVE_EGL
#include <vector>

#include "ext/cuda/routes/egl_api.h"
#include "ext/cuda/routes/egl_frame.h"
#endif

namespace gstzc::cuda {

#if GSTZC_HAVE_EGL
namespace {

class EglImport : public DeviceImport {
public:
  EglImport(ContextPtr context, UniqueFd fd, EglImage image)
      : context_(std::move(context)), fd_(std::move(fd)), image_(std::move(image)) {}

  Status map(const ImportSource &source) {
    const ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current.error();
    const Driver &driver = context_->driver;
    CUgraphicsResource handle = nullptr;
    if (auto registered =
            driver.check(driver.cuGraphicsEGLRegisterImage(&handle, image_.get(), CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY),
                         "cuGraphicsEGLRegisterImage");
        !registered)
      return registered.error();
    resource_ = GraphicsResource(context_, handle);
    CUeglFrame frame = {};
    if (auto mapped = driver.check(driver.cuGraphicsResourceGetMappedEglFrame(&frame, handle, 0, 0),
                                   "cuGraphicsResourceGetMappedEglFrame");
        !mapped)
      return mapped.error();
    auto plan = planEglFrame(frame, source, rangeOf(frame));
    if (!plan) return plan.error();
    pointer = plan->pointer;
    size = plan->size;
    n_planes = source.n_planes;
    planes = plan->planes;
    if (plan->in_place) return Nothing{};

    auto memory = allocDevice(context_, plan->size);
    if (!memory) return memory.error();
    copy_ = memory.take();
    pointer = copy_.get();
    for (unsigned i = 0; i < n_planes; ++i) {
      CUDA_MEMCPY2D plane = {};
      if (frame.frameType == CU_EGL_FRAME_TYPE_ARRAY) {
        plane.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        plane.srcArray = frame.frame.pArray[i];
      } else {
        plane.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        plane.srcDevice = plan->from[i];
        plane.srcPitch = plan->from_pitch[i];
      }
      plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      plane.dstDevice = pointer + planes[i].offset;
      plane.dstPitch = planes[i].pitch;
      plane.WidthInBytes = planes[i].row_bytes;
      plane.Height = planes[i].rows;
      copied_ += uint64_t{planes[i].row_bytes} * planes[i].rows;
      copies_.push_back(plane);
    }
    return Nothing{};
  }

  uint64_t copyBytes() const override { return copied_; }

  Status refresh(CUstream stream) override {
    const Driver &driver = context_->driver;
    for (const CUDA_MEMCPY2D &plane : copies_)
      if (auto copied = driver.check(driver.cuMemcpy2DAsync(&plane, stream), "cuMemcpy2DAsync of an EGL image");
          !copied)
        return copied;
    return Nothing{};
  }

private:
  // Bytes of the first plane's allocation that lie behind its start; 0 where the driver does not tell.
  uint64_t rangeOf(const CUeglFrame &frame) const {
    const Driver &driver = context_->driver;
    if (frame.frameType != CU_EGL_FRAME_TYPE_PITCH || driver.cuMemGetAddressRange == nullptr) return 0;
    const auto first = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(frame.frame.pPitch[0]));
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (driver.cuMemGetAddressRange(&base, &bytes, first) != CUDA_SUCCESS) return 0;
    return first - base < bytes ? bytes - (first - base) : 0;
  }

  // CUDA's view goes before the image, the image before the memory
  const ContextPtr context_;
  const UniqueFd fd_;
  const EglImage image_;
  GraphicsResource resource_;
  DeviceMemory copy_; // where the frame cannot be used in place
  std::vector<CUDA_MEMCPY2D> copies_;
  uint64_t copied_ = 0;
};

class EglImageRoute : public ImportRoute {
public:
  explicit EglImageRoute(ContextPtr context) : context_(std::move(context)) {}
  const char *name() const override { return "egl-image"; }

  Status available() override {
    const Driver &driver = context_->driver;
    if (driver.cuGraphicsEGLRegisterImage == nullptr || driver.cuGraphicsResourceGetMappedEglFrame == nullptr ||
        driver.cuGraphicsUnregisterResource == nullptr)
      return Error{"the CUDA driver has no cuGraphicsEGLRegisterImage", ENOSYS, ""};
    if (!displays_.empty()) return Nothing{};
    auto egl = EglApi::get();
    if (!egl) return egl.error();
    auto displays = findEglDisplays(**egl, context_->device);
    if (!displays) return displays.error();
    egl_ = *egl;
    displays_ = displays.take();
    return Nothing{};
  }

  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source) override {
    if (auto able = available(); !able) return able.error();
    Error refused;
    for (size_t i = 0; i < displays_.size(); ++i) {
      auto import = importBy(displays_[i], source);
      if (import) {
        if (displays_.size() > 1) displays_ = {displays_[i]}; // it is this one
        return import;
      }
      if (i == 0)
        refused = import.error();
      else
        refused.what += "; on the display " + displays_[i].name + ": " + import.error().what;
    }
    return refused;
  }

private:
  Result<std::shared_ptr<DeviceImport>> importBy(const EglDisplayChoice &display, const ImportSource &source) {
    UniqueFd fd = UniqueFd::duplicate(source.fd);
    if (!fd.isValid()) return Error{"duplicating the dma-buf's descriptor", errno, ""};
    auto image = EglImage::create(*egl_, display, source);
    if (!image) return image.error();
    auto import = std::make_shared<EglImport>(context_, std::move(fd), image.take());
    if (auto mapped = import->map(source); !mapped) return mapped.error();
    return std::shared_ptr<DeviceImport>(std::move(import));
  }

  const ContextPtr context_;
  const EglApi *egl_ = nullptr;
  std::vector<EglDisplayChoice> displays_; // that may be the device's; one once an import has worked
};

} // namespace

#else
namespace {

class EglImageRoute : public ImportRoute {
public:
  explicit EglImageRoute(const ContextPtr &) {}
  const char *name() const override { return "egl-image"; }
  Status available() override { return Error{"built without EGL", ENOSYS, "Build with libegl-dev installed"}; }
  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &) override { return available().error(); }
};

} // namespace
#endif

std::unique_ptr<ImportRoute> makeEglImageRoute(ContextPtr context) {
  return std::make_unique<EglImageRoute>(std::move(context));
}

} // namespace gstzc::cuda
