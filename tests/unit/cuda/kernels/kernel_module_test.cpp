// SPDX-License-Identifier: LGPL-2.1-or-later
// Our kernels as a driver runs them.
#include "ext/cuda/kernels/kernel_module.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ext/cuda/kernels/kernel_images.h"
#include "ext/cuda/kernels/nvrtc.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/infer/preprocess/preprocess.h"
#include "tests/unit/infer/preprocess/cases.h"

namespace gstzc::cuda {
namespace {

using namespace gstzc::infer;
using namespace gstzc::test;

// The stand-in for the driver finds its kernels among the libraries that are loaded.
void *const kKernels = dlopen(GSTZC_SOFT_KERNELS, RTLD_NOW);

// A switch of the stand-in; null on a real driver.
template <typename F> F *softcuda(const char *name) {
  void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library != nullptr ? reinterpret_cast<F *>(dlsym(library, name)) : nullptr;
}
auto *failSwitch() { return softcuda<void(const char *name, unsigned nth, int error)>("softcuda_fail"); }

class Kernels : public testing::Test {
protected:
  void SetUp() override {
    const auto driver = Driver::get();
    if (!driver) GTEST_SKIP() << "no CUDA driver, and no stand-in for it: " << driver.error().message();
    int devices = 0;
    if ((*driver)->cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices == 0) GTEST_SKIP() << "no CUDA device";
    auto context = CudaContext::create(0);
    ASSERT_TRUE(context.ok()) << context.error().message();
    context_ = context.take();
    // in place of NVIDIA's library, before anybody asks for that: the stand-in runs no code of it
    if (failSwitch() != nullptr) setenv("GST_CUDA_NVRTC_LIBNAME", GSTZC_SOFT_NVRTC, 1);
    auto stream = newStream(context_);
    ASSERT_TRUE(stream.ok()) << stream.error().message();
    stream_ = stream.take();
  }

  // On the device, of exactly the size of `bytes`.
  DeviceMemory upload(const std::vector<uint8_t> &bytes) {
    auto memory = allocDevice(context_, bytes.size());
    EXPECT_TRUE(memory.ok());
    const ContextScope scope(*context_);
    const Driver &driver = context_->driver;
    EXPECT_EQ(driver.cuMemcpyHtoDAsync(memory->get(), bytes.data(), bytes.size(), stream_.get()), CUDA_SUCCESS);
    EXPECT_EQ(driver.cuStreamSynchronize(stream_.get()), CUDA_SUCCESS);
    return memory.take();
  }

  CUresult download(CUdeviceptr from, std::vector<uint8_t> &bytes) {
    const ContextScope scope(*context_);
    const Driver &driver = context_->driver;
    const CUresult result = driver.cuMemcpyDtoHAsync(bytes.data(), from, bytes.size(), stream_.get());
    return result != CUDA_SUCCESS ? result : driver.cuStreamSynchronize(stream_.get());
  }

  ContextPtr context_;
  Stream stream_;
};

TEST_F(Kernels, PreprocessAsTheCpuDoes) {
  auto module = KernelModule::load(context_);
  ASSERT_TRUE(module.ok()) << module.error().message();
  for (const GstVideoFormat format : readableFormats())
    for (unsigned seed = 0; seed < 4; ++seed) {
      const Case c = drawCase(gst_video_format_to_string(format), seed * 31 + static_cast<unsigned>(format));
      SCOPED_TRACE(testing::Message() << c);
      const reference::Picture picture = randomPicture(c.caps, c.padding, seed);
      auto plan = makePixelPlan(infoOf(c.caps), c.plan, c.options, c.region);
      ASSERT_TRUE(plan.ok()) << plan.error().message();
      PixelPlanes planes;
      std::vector<DeviceMemory> memories;
      for (size_t p = 0; p < picture.planes.size(); ++p) {
        memories.push_back(upload(picture.planes[p]));
        planes.address[p] = memories.back().get();
        planes.stride[p] = picture.strides[p];
      }
      std::vector<uint8_t> found(tensorBytes(*plan), 0xff), expected(found.size());
      const DeviceMemory tensor = upload(found);
      const Status launched = (*module)->launchPreprocess(stream_.get(), *plan, planes, tensor.get());
      ASSERT_TRUE(launched.ok()) << launched.error().message();
      ASSERT_EQ(download(tensor.get(), found), CUDA_SUCCESS);

      auto preprocessor = Preprocessor::create(infoOf(c.caps), c.plan, c.options, c.region);
      ASSERT_TRUE(preprocessor.ok());
      const GuardedPicture guarded(picture, c.against);
      preprocessor->run(guarded.planes(), expected.data());
      const size_t numbers = found.size() / numberBytes(plan->number);
      for (size_t i = 0; i < numbers; ++i) {
        const double number = numberAt(found.data(), i, c.plan.type),
                     wanted = numberAt(expected.data(), i, c.plan.type);
        const double range = 255 * std::abs(scaleOf(c, i));
        const bool whole = c.plan.type == TensorType::UInt8 || c.plan.type == TensorType::Int8;
        const double digit = c.plan.type == TensorType::Float16 ? std::abs(wanted) / 1024 + 1e-7 : 0;
        ASSERT_LE(std::abs(number - wanted), whole ? 1 : digit + 4e-6 * range) << "number " << i;
      }
    }
}

TEST_F(Kernels, AreLoadedOncePerContext) {
  auto first = KernelModule::load(context_), again = KernelModule::load(context_);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(*first, *again);
  auto other_context = CudaContext::create(0);
  ASSERT_TRUE(other_context.ok());
  auto other = KernelModule::load(*other_context);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(*first, *other);
  const std::weak_ptr<const KernelModule> gone = *first;
  first = again = Error{};
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(KernelModule::load(context_).ok());
}

TEST_F(Kernels, AreCompiledWhereThereIsNothingPrebuilt) {
  auto *const fail = failSwitch();
  if (fail == nullptr) GTEST_SKIP() << "a real driver takes what is prebuilt";
  auto compiled = KernelModule::load(context_, KernelModule::Origin::Compiled);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message();
  EXPECT_TRUE((*compiled)->description().starts_with("NVRTC 99.1 for ")) << (*compiled)->description();
  // and where the device does not take it
  if (!prebuiltKernels().empty()) {
    fail("cuModuleLoadData", 1, CUDA_ERROR_NO_BINARY_FOR_GPU);
    auto any = KernelModule::load(context_);
    ASSERT_TRUE(any.ok()) << any.error().message();
    EXPECT_TRUE((*any)->description().starts_with("NVRTC 99.1 for ")) << (*any)->description();
  }
}

TEST_F(Kernels, SayBothReasonsWhereNeitherWayWorks) {
  auto *const fail = failSwitch();
  if (fail == nullptr) GTEST_SKIP() << "only the stand-in can be told to fail";
  fail("cuModuleLoadData", 0, CUDA_ERROR_INVALID_IMAGE);
  auto module = KernelModule::load(context_);
  softcuda<void()>("softcuda_reset")();
  ASSERT_FALSE(module.ok());
  const std::string message = module.error().message();
  EXPECT_NE(message.find(prebuiltKernels().empty() ? "no prebuilt" : "prebuilt"), std::string::npos) << message;
  EXPECT_NE(message.find("NVRTC 99.1"), std::string::npos) << message;
}

TEST(SoftNvrtc, IsAskedForWhatItKnows) {
  auto nvrtc = Nvrtc::open(GSTZC_SOFT_NVRTC);
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message();
  EXPECT_EQ((*nvrtc)->version(), "NVRTC 99.1");
  struct {
    int capability;
    const char *target;
  } const rows[] = {{75, "sm_75"}, {87, "sm_87"}, {88, "compute_87"}, {120, "compute_90"}, {61, "sm_61"}};
  for (const auto &row : rows) {
    auto image = (*nvrtc)->compile("source", "f.cu", row.capability);
    ASSERT_TRUE(image.ok()) << image.error().message();
    EXPECT_EQ(image->target, row.target);
    EXPECT_NE(image->data.find(std::string(".target ") + row.target), std::string::npos) << image->data;
  }
  auto failed = (*nvrtc)->compile("#error", "f.cu", 87);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().what.find("f.cu for sm_87"), std::string::npos) << failed.error().what;
  EXPECT_NE(failed.error().what.find("preprocess.cu(1): error"), std::string::npos) << failed.error().what;
}

// The one that has GStreamer's kernels compiled is what the programs find that run whole pipelines.
TEST(SoftNvrtc, OfGStreamersKernelsGivesOursWithoutCompiling) {
  auto nvrtc = Nvrtc::open(GSTZC_SOFT_NVRTC_OF_GSTREAMER);
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message();
  EXPECT_EQ((*nvrtc)->version(), "NVRTC 13.0");
  setenv("SOFTCUDA_KERNELS", GSTZC_SOFT_KERNELS, 1);
  for (const auto &[capability, target] :
       {std::pair(87, "sm_87"), std::pair(110, "sm_110"), std::pair(99, "compute_90")}) {
    auto image = (*nvrtc)->compile(kernelSource(), "preprocess.cu", capability);
    ASSERT_TRUE(image.ok()) << image.error().message();
    EXPECT_EQ(image->target, target);
    EXPECT_TRUE(std::string_view(image->data).starts_with(".version")) << image->data;
  }
}

TEST_F(Kernels, AreNotLaunchedOnWhatCannotBe) {
  auto module = KernelModule::load(context_);
  ASSERT_TRUE(module.ok()) << module.error().message();
  auto plan = makePixelPlan(infoOf({"NV12", 8, 8}), {4, 4, TensorLayout::Nchw, TensorType::Float32}, {});
  ASSERT_TRUE(plan.ok());
  const DeviceMemory frame = upload(std::vector<uint8_t>(96)), tensor = upload(std::vector<uint8_t>(4 * 4 * 3 * 4));
  const PixelPlanes right = {{frame.get(), frame.get() + 64}, {8, 8}};
  const auto launch = [&](const PixelPlanes &planes, CUdeviceptr to) {
    const Status status = (*module)->launchPreprocess(stream_.get(), *plan, planes, to);
    return status.ok() ? 0 : status.error().code;
  };
  EXPECT_EQ(launch(right, tensor.get()), 0);
  EXPECT_EQ(launch({{frame.get()}, {8, 8}}, tensor.get()), EINVAL);                // no chroma
  EXPECT_EQ(launch({{frame.get(), frame.get() + 64}, {8}}, tensor.get()), EINVAL); // no stride
  EXPECT_EQ(launch(right, 0), EINVAL);
  EXPECT_EQ(launch(right, tensor.get() + 2), EINVAL);
  std::vector<uint8_t> bytes(4 * 4 * 3 * 4);
  EXPECT_EQ(download(tensor.get(), bytes), CUDA_SUCCESS);
}

// A plane or a tensor that is a byte too small: the stand-in sees what a device might not.
TEST_F(Kernels, TouchNothingBeyondFrameAndTensor) {
  if (failSwitch() == nullptr) GTEST_SKIP() << "a device does not check this";
  for (const bool short_frame : {true, false}) {
    auto context = CudaContext::create(0); // unusable afterwards
    ASSERT_TRUE(context.ok());
    context_ = context.take();
    auto stream = newStream(context_);
    ASSERT_TRUE(stream.ok());
    stream_ = stream.take();
    auto module = KernelModule::load(context_);
    ASSERT_TRUE(module.ok()) << module.error().message();
    auto plan = makePixelPlan(infoOf({"GRAY8", 100, 100}), {4, 4, TensorLayout::Nchw, TensorType::UInt8, 1}, {});
    ASSERT_TRUE(plan.ok());
    const DeviceMemory frame = upload(std::vector<uint8_t>(short_frame ? 9999 : 10000));
    const DeviceMemory tensor = upload(std::vector<uint8_t>(short_frame ? 16 : 15));
    ASSERT_TRUE((*module)->launchPreprocess(stream_.get(), *plan, {{frame.get()}, {100}}, tensor.get()).ok());
    const ContextScope scope(*context_);
    EXPECT_NE(context_->driver.cuStreamSynchronize(stream_.get()), CUDA_SUCCESS) << short_frame;
  }
}

} // namespace
} // namespace gstzc::cuda
