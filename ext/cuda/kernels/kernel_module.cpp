// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/kernels/kernel_module.h"

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "ext/cuda/kernels/kernel_images.h"
#include "ext/cuda/kernels/nvrtc.h"

namespace gstzc::cuda {
namespace {

// Of threads: a row of a warp's length, whose reads and writes lie beside each other.
constexpr unsigned kBlockWidth = 32, kBlockHeight = 8;

constexpr unsigned blocks(int32_t pixels, unsigned block) {
  return (static_cast<unsigned>(pixels) + block - 1) / block;
}

// What was compiled for devices of a compute capability. An error is not kept: somebody may install the compiler.
struct Compiled {
  std::string image, description;
};

Result<const Compiled *> compiledFor(int capability) {
  static std::mutex lock;
  static auto *const images = new std::map<int, Compiled>;
  const std::lock_guard guard(lock);
  if (const auto found = images->find(capability); found != images->end()) return &found->second;
  auto nvrtc = Nvrtc::get();
  if (!nvrtc) return nvrtc.error();
  auto image = (*nvrtc)->compile(kernelSource(), "preprocess.cu", capability);
  if (!image) return image.error();
  Compiled compiled{std::move(image->data), (*nvrtc)->version() + " for " + image->target};
  return &images->emplace(capability, std::move(compiled)).first->second;
}

int capabilityOf(const CudaContext &context) {
  return 10 * context.driver.attribute(context.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
         context.driver.attribute(context.device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

using Loaded = Result<std::shared_ptr<const KernelModule>>;

} // namespace

Loaded KernelModule::make(const ContextPtr &context, const void *image, std::string description) {
  const ContextScope scope(*context);
  if (auto status = scope.status(); !status) return status.error();
  const Driver &driver = context->driver;
  CUmodule handle = nullptr;
  if (auto status =
          driver.check(driver.cuModuleLoadData(&handle, image), "cuModuleLoadData of kernels, " + description);
      !status)
    return status.error();
  std::shared_ptr<KernelModule> module(new KernelModule);
  module->context_ = context;
  module->module_ = Module(context, handle);
  module->description_ = std::move(description);
  if (auto status = driver.check(driver.cuModuleGetFunction(&module->preprocess_, handle, kPreprocessKernel),
                                 std::string("cuModuleGetFunction ") + kPreprocessKernel);
      !status)
    return status.error();
  return std::shared_ptr<const KernelModule>(std::move(module));
}

Loaded KernelModule::load(const ContextPtr &context, Origin origin) {
  static std::mutex lock;
  static auto *const modules = new std::map<std::pair<const CudaContext *, Origin>, std::weak_ptr<const KernelModule>>;
  const std::lock_guard guard(lock);
  std::erase_if(*modules, [](const auto &entry) { return entry.second.expired(); });
  if (const auto found = modules->find({context.get(), origin}); found != modules->end())
    if (auto module = found->second.lock()) return module;

  const auto prebuilt = [&]() -> Loaded {
    if (prebuiltKernels().empty())
      return Error{"this build has no prebuilt CUDA kernels", ENOENT, "Build it with cuda-kernels=prebuilt"};
    return make(context, prebuiltKernels().data(), "prebuilt");
  };
  const auto compiled = [&]() -> Loaded {
    auto image = compiledFor(capabilityOf(*context));
    if (!image) return image.error();
    return make(context, (*image)->image.data(), (*image)->description);
  };
  Loaded module = origin == Origin::Compiled ? compiled() : prebuilt();
  if (!module && origin == Origin::Any) {
    const std::string refused = module.error().message();
    module = compiled();
    if (!module) return Error{refused + " And: " + module.error().what, module.error().code, module.error().remedy};
  }
  if (module) modules->insert_or_assign({context.get(), origin}, *module);
  return module;
}

Status KernelModule::launchPreprocess(CUstream stream, const infer::PixelPlan &plan, const infer::PixelPlanes &planes,
                                      CUdeviceptr tensor) const {
  const auto wrong = [](const std::string &what) { return Error{"preprocessing kernel: " + what, EINVAL, {}}; };
  if (plan.width <= 0 || plan.height <= 0) return wrong("a tensor without pixels");
  if (tensor == 0 || tensor % infer::numberBytes(plan.number) != 0) return wrong("no tensor at such an address");
  for (int p = 0; p < plan.planes; ++p) {
    if (infer::planeBytes(plan, p, 0) == 0) continue; // nothing of this one is read
    if (planes.address[p] == 0) return wrong("plane " + std::to_string(p) + " has no address");
    if (planes.stride[p] <= 0 && plan.rows.count() > 0 && plan.frame_height > 1)
      return wrong("plane " + std::to_string(p) + " has stride " + std::to_string(planes.stride[p]));
  }
  const ContextScope scope(*context_);
  if (auto status = scope.status(); !status) return status.error();
  void *parameters[] = {const_cast<infer::PixelPlan *>(&plan), const_cast<infer::PixelPlanes *>(&planes), &tensor};
  const Driver &driver = context_->driver;
  return driver.check(driver.cuLaunchKernel(preprocess_, blocks(plan.width, kBlockWidth),
                                            blocks(plan.height, kBlockHeight), 1, kBlockWidth, kBlockHeight, 1, 0,
                                            stream, parameters, nullptr),
                      std::string("cuLaunchKernel ") + kPreprocessKernel);
}

} // namespace gstzc::cuda
