// SPDX-License-Identifier: LGPL-2.1-or-later
// Modules, launches and textures. On a real device the one kernel that is written in PTX below runs; the others are
// functions of the host (test_kernels.cpp).
#include <cstdlib>
#include <numeric>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

constexpr char kAddOne[] = R"(// one is added to each byte
.version 6.4
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 bytes, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b16 %h<3>;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [bytes];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra done;
  cvta.to.global.u64 %d2, %d1;
  cvt.u64.u32 %d3, %r5;
  add.s64 %d2, %d2, %d3;
  ld.global.u8 %h1, [%d2];
  add.s16 %h2, %h1, 1;
  st.global.u8 [%d2], %h2;
done:
  ret;
}
)";

struct Row { // as test_kernels.cpp has it
  CUdeviceptr to;
  CUtexObject from;
  int width;
};

class Kernels : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!context_) return;
    if (onStandIn()) {
      library_ = dlopen(SOFTCUDA_TEST_KERNELS, RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(library_, nullptr) << dlerror();
    }
    CU_OK(CU(cuModuleLoadData)(&module_, kAddOne));
  }
  void TearDown() override {
    if (module_) {
      EXPECT_EQ(CU(cuModuleUnload)(module_), CUDA_SUCCESS);
    }
    DriverTest::TearDown();
    if (library_) dlclose(library_);
  }
  CUfunction function(const char *name) {
    CUfunction found = nullptr;
    EXPECT_EQ(CU(cuModuleGetFunction)(&found, module_, name), CUDA_SUCCESS) << name;
    return found;
  }
  static CUresult launch(CUfunction kernel, unsigned blocks, unsigned threads, std::vector<void *> arguments,
                         CUstream stream = nullptr) {
    return CU(cuLaunchKernel)(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments.data(), nullptr);
  }

  void *library_ = nullptr;
  CUmodule module_ = nullptr;
};

TEST_F(Kernels, RunOnAStream) {
  constexpr unsigned kCount = 1000;
  CUdeviceptr bytes = newMemory(kCount + 24);
  CU_OK(CU(cuMemsetD8Async)(bytes, 40, kCount + 24, nullptr));
  unsigned count = kCount;
  CU_OK(launch(function("add_one"), 8, 128, {&bytes, &count}));
  const std::vector<unsigned char> back = read(bytes, kCount + 24);
  for (unsigned i = 0; i < back.size(); ++i) ASSERT_EQ(back[i], i < kCount ? 41 : 40) << i;
  CU_OK(CU(cuMemFree_v2)(bytes));
}

TEST_F(Kernels, TakeTheirArgumentsAtTheLaunch) {
  PinnedWord gate;
  CUstream stream = newStream();
  CUdeviceptr bytes = newMemory(64);
  CU_OK(CU(cuMemsetD8Async)(bytes, 0, 64, nullptr));
  CU_OK(CU(cuCtxSynchronize)());
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CUdeviceptr argument = bytes;
  unsigned count = 64;
  CU_OK(launch(function("add_one"), 1, 64, {&argument, &count}, stream));
  argument = 0;
  count = 0;
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(read(bytes, 64), std::vector<unsigned char>(64, 1));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuMemFree_v2)(bytes));
}

TEST_F(Kernels, AreFoundByName) {
  CUfunction none = nullptr;
  EXPECT_EQ(CU(cuModuleGetFunction)(&none, module_, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(Kernels, RefuseWhatCannotBeLaunched) {
  CUdeviceptr bytes = newMemory(16);
  unsigned count = 16;
  EXPECT_EQ(launch(function("add_one"), 0, 16, {&bytes, &count}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function("add_one"), 1, 2048, {&bytes, &count}), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemFree_v2)(bytes));
}

TEST_F(Kernels, AreNoModulesOfNonsense) {
  STAND_IN_ONLY("a driver looks closer");
  CUmodule module = nullptr;
  EXPECT_EQ(CU(cuModuleLoadData)(&module, "nonsense"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(CU(cuModuleLoadData)(&module, "softcuda kernels in /nowhere.so\n"), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(Kernels, ComeFromTheLibrariesOfTheEnvironment) {
  STAND_IN_ONLY("its variable");
  dlclose(library_);
  library_ = nullptr;
  setenv("SOFTCUDA_KERNELS", "/nowhere.so:" SOFTCUDA_TEST_KERNELS, 1);
  function("add_one");
  unsetenv("SOFTCUDA_KERNELS");
}

TEST_F(Kernels, AreThreadsOfAllThreeDimensions) {
  STAND_IN_ONLY("a kernel of the host");
  constexpr unsigned kThreads = 3 * 2 * 4 * 5 * 2 * 3;
  CUdeviceptr out = newMemory(kThreads * sizeof(unsigned));
  void *arguments[] = {&out};
  CU_OK(CU(cuLaunchKernel)(function("number_threads"), 3, 2, 4, 5, 2, 3, 0, nullptr, arguments, nullptr));
  std::vector<unsigned> numbers(kThreads), expected(kThreads);
  std::iota(expected.begin(), expected.end(), 0u);
  CU_OK(CU(cuMemcpyDtoH_v2)(numbers.data(), out, kThreads * sizeof(unsigned)));
  EXPECT_EQ(numbers, expected);
  CU_OK(CU(cuMemFree_v2)(out));
}

TEST_F(Kernels, OnFreedMemorySpoilTheContext) {
  STAND_IN_ONLY("undefined on a device");
  CUdeviceptr bytes = newMemory(16);
  unsigned count = 16;
  CU_OK(CU(cuMemFree_v2)(bytes));
  CU_OK(launch(function("add_one"), 1, 16, {&bytes, &count}));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuModuleUnload)(module_), CUDA_ERROR_ILLEGAL_ADDRESS);
  module_ = nullptr;
}

TEST_F(Kernels, KeepTheirMemoryInUse) {
  STAND_IN_ONLY("undefined on a device");
  void *word = nullptr;
  CU_OK(CU(cuMemHostAlloc)(&word, sizeof(uint32_t), 0));
  memset(word, 0, sizeof(uint32_t));
  CUstream stream = newStream();
  CUdeviceptr bytes = newMemory(16), gate = reinterpret_cast<CUdeviceptr>(word);
  unsigned count = 16;
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(launch(function("add_one"), 1, 16, {&bytes, &count}, stream));
  CU_OK(CU(cuMemFree_v2)(bytes));
  CU_OK(CU(cuModuleUnload)(module_));
  module_ = nullptr;
  EXPECT_EQ(takeMisuses(), 2u);
  __atomic_store_n(static_cast<uint32_t *>(word), 1, __ATOMIC_RELEASE);
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CU(cuStreamDestroy_v2)(stream);
  CU(cuMemFreeHost)(word);
}

CUDA_RESOURCE_DESC plane(CUdeviceptr at, size_t width, size_t height, size_t pitch) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = at;
  resource.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
  resource.res.pitch2D.numChannels = 1;
  resource.res.pitch2D.width = width;
  resource.res.pitch2D.height = height;
  resource.res.pitch2D.pitchInBytes = pitch;
  return resource;
}

TEST_F(Kernels, ReadTextures) {
  STAND_IN_ONLY("a kernel of the host");
  CUdeviceptr picture = newMemory(512 * 2), out = newMemory(4 * sizeof(float));
  const unsigned char texels[] = {0, 51, 102, 255};
  CU_OK(CU(cuMemcpyHtoD_v2)(picture, texels, sizeof texels));
  const CUDA_RESOURCE_DESC resource = plane(picture, 4, 2, 512);
  CUDA_TEXTURE_DESC sampling = {};
  sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;
  sampling.addressMode[0] = sampling.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  Row row = {out, 0, 4};
  CU_OK(CU(cuTexObjectCreate)(&row.from, &resource, &sampling, nullptr));
  CU_OK(launch(function("read_row"), 1, 4, {&row}));
  std::vector<float> values(4);
  CU_OK(CU(cuMemcpyDtoH_v2)(values.data(), out, 4 * sizeof(float)));
  EXPECT_EQ(values, (std::vector<float>{0, 0.2f, 0.4f, 1}));
  CU_OK(CU(cuTexObjectDestroy)(row.from));
  CU_OK(launch(function("read_row"), 1, 4, {&row}));
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS) << "the texture is gone";
  for (CUdeviceptr memory : {picture, out}) CU(cuMemFree_v2)(memory);
  CU(cuModuleUnload)(module_);
  module_ = nullptr;
}

TEST_F(Kernels, TexturesAreAligned) {
  CUdeviceptr picture = newMemory(512 * 4);
  CUDA_TEXTURE_DESC sampling = {};
  CUtexObject texture = 0;
  CUDA_RESOURCE_DESC resource = plane(picture + 16, 64, 2, 512);
  EXPECT_EQ(CU(cuTexObjectCreate)(&texture, &resource, &sampling, nullptr), CUDA_ERROR_INVALID_VALUE);
  resource = plane(picture, 64, 2, 65);
  EXPECT_EQ(CU(cuTexObjectCreate)(&texture, &resource, &sampling, nullptr), CUDA_ERROR_INVALID_VALUE);
  resource = plane(picture, 64, 4, 512);
  EXPECT_EQ(CU(cuTexObjectCreate)(&texture, &resource, &sampling, nullptr), CUDA_SUCCESS);
  CU_OK(CU(cuTexObjectDestroy)(texture));
  CU_OK(CU(cuMemFree_v2)(picture));
}

} // namespace
} // namespace gstzc::test
