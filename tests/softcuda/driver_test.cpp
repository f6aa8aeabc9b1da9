// SPDX-License-Identifier: LGPL-2.1-or-later
// Devices, contexts, errors and how functions are found.
#include <cstdlib>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

using Driver = DriverTest;

const int g_two_devices = setenv("SOFTCUDA_DEVICES", "2", 0); // before the stand-in is loaded

TEST_F(Driver, TellsItsVersionAndDevice) {
  int version = 0, count = 0, major = 0;
  CU_OK(CU(cuDriverGetVersion)(&version));
  EXPECT_GE(version, 11000);
  CU_OK(CU(cuDeviceGetCount)(&count));
  EXPECT_GE(count, 1);
  char name[100] = "", bus[32] = "";
  CU_OK(CU(cuDeviceGetName)(name, sizeof name, device_));
  EXPECT_STRNE(name, "");
  CU_OK(CU(cuDeviceGetPCIBusId)(bus, sizeof bus, device_));
  EXPECT_EQ(std::string(bus).size(), strlen("0000:00:00.0")) << bus;
  CU_OK(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
  EXPECT_GE(major, 5);
  CUdevice none;
  EXPECT_EQ(CU(cuDeviceGet)(&none, count), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Driver, NamesErrors) {
  const char *text = nullptr;
  CU_OK(CU(cuGetErrorName)(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  CU_OK(CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(CU(cuGetErrorName)(CUresult(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, KeepsAStackOfContextsPerThread) {
  CUcontext current = nullptr, second = nullptr, popped = nullptr;
  CU_OK(CU(cuCtxGetCurrent)(&current));
  EXPECT_EQ(current, context_);
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  CU_OK(CU(cuCtxGetCurrent)(&current));
  EXPECT_EQ(current, second);
  std::thread([] {
    CUcontext other = reinterpret_cast<CUcontext>(1);
    EXPECT_EQ(CU(cuCtxGetCurrent)(&other), CUDA_SUCCESS);
    EXPECT_EQ(other, nullptr);
    CUdeviceptr pointer;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, 16), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  CU_OK(CU(cuCtxPopCurrent_v2)(&popped));
  EXPECT_EQ(popped, second);
  CU_OK(CU(cuCtxSetCurrent)(second)); // in the place of the first
  CU_OK(CU(cuCtxPopCurrent_v2)(&popped));
  EXPECT_EQ(popped, second);
  EXPECT_EQ(CU(cuCtxPopCurrent_v2)(&popped), CUDA_ERROR_INVALID_CONTEXT);
  CU_OK(CU(cuCtxPushCurrent_v2)(context_));
  CU_OK(CU(cuCtxDestroy_v2)(second));
}

TEST_F(Driver, FindsFunctionsByTheirPlainNames) {
  const auto look_up = driverFunction<decltype(&cuGetProcAddress_v2)>("cuGetProcAddress_v2");
  if (!look_up) GTEST_SKIP() << "a driver before CUDA 12";
  void *function = nullptr;
  int status = -1;
  CU_OK(look_up("cuMemAlloc", &function, 12000, 0, &status));
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(status, 0);
  if (onStandIn()) {
    EXPECT_EQ(function, dlsym(libcuda(), "cuMemAlloc_v2"));
  }
  look_up("cuNoSuchFunction", &function, 12000, 0, &status); // what it returns is not documented
  EXPECT_EQ(function, nullptr);
  EXPECT_NE(status, 0);
}

// NVIDIA's own libraries ask for it, and call what they get without looking.
TEST_F(Driver, HasNoTablesOfFunctionsWithoutNames) {
  STAND_IN_ONLY("a driver has some, which no document names");
  const void *table = this;
  const CUuuid unknown = {{1, 2, 3}};
  EXPECT_EQ(CU(cuGetExportTable)(&table, &unknown), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
  EXPECT_EQ(CU(cuGetExportTable)(nullptr, &unknown), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, SharesOnePrimaryContextPerDevice) {
  CUcontext first = nullptr, second = nullptr;
  CU_OK(CU(cuDevicePrimaryCtxRetain)(&first, device_));
  CU_OK(CU(cuDevicePrimaryCtxRetain)(&second, device_));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, context_);
  CU_OK(CU(cuDevicePrimaryCtxRelease_v2)(device_));
  CU_OK(CU(cuDevicePrimaryCtxRelease_v2)(device_));
}

TEST_F(Driver, RefusesHandlesThatWereDestroyed) {
  STAND_IN_ONLY("undefined on a device");
  CUstream stream = newStream();
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  EXPECT_EQ(CU(cuStreamDestroy_v2)(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(CU(cuStreamQuery)(stream), CUDA_ERROR_INVALID_HANDLE);
  CUevent event = newEvent();
  CU_OK(CU(cuEventDestroy_v2)(event));
  EXPECT_EQ(CU(cuEventRecord)(event, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(takeMisuses(), 3u);
  EXPECT_EQ(CU(cuStreamSynchronize)(reinterpret_cast<CUstream>(this)), CUDA_ERROR_INVALID_HANDLE) << "never was one";
  EXPECT_EQ(SOFT(misuses)(), 0u);
}

TEST_F(Driver, TellsAContextThatIsDestroyedWithSomethingInIt) {
  STAND_IN_ONLY("the driver frees it");
  CUcontext second = nullptr;
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  newStream();
  newMemory(100);
  CU_OK(CU(cuCtxDestroy_v2)(second));
  EXPECT_EQ(takeMisuses(), 2u);
  EXPECT_EQ(SOFT(live)(nullptr), 0u);
}

TEST_F(Driver, RefusesADestroyedContext) {
  STAND_IN_ONLY("undefined on a device");
  CUcontext second = nullptr, popped;
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  std::atomic<int> step{0};
  std::thread other([&] {
    EXPECT_EQ(CU(cuCtxPushCurrent_v2)(second), CUDA_SUCCESS);
    step = 1;
    EXPECT_TRUE(eventually([&] { return step == 2; }));
    CUstream stream;
    EXPECT_EQ(CU(cuStreamCreate)(&stream, 0), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(CU(cuCtxPopCurrent_v2)(&popped), CUDA_SUCCESS);
  });
  EXPECT_TRUE(eventually([&] { return step == 1; }));
  CU_OK(CU(cuCtxDestroy_v2)(second));
  step = 2;
  other.join();
  EXPECT_EQ(CU(cuCtxPushCurrent_v2)(second), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(Driver, KeepsTheMemoryOfDevicesApart) {
  ASSERT_EQ(g_two_devices, 0);
  int count = 0, can = 0;
  CU_OK(CU(cuDeviceGetCount)(&count));
  if (count < 2) GTEST_SKIP() << "one device only";
  const CUdeviceptr first = newMemory(64);
  CUdevice second_device;
  CUcontext second = nullptr;
  CU_OK(CU(cuDeviceGet)(&second_device, 1));
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, second_device));
  CU_OK(CU(cuDeviceCanAccessPeer)(&can, second_device, device_));
  if (onStandIn()) {
    const CUdeviceptr other = newMemory(64);
    EXPECT_EQ(CU(cuMemcpyDtoDAsync_v2)(other, first, 64, nullptr), CUDA_ERROR_INVALID_VALUE);
    if (can) {
      CU_OK(CU(cuCtxEnablePeerAccess)(context_, 0));
      EXPECT_EQ(CU(cuCtxEnablePeerAccess)(context_, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
      EXPECT_EQ(CU(cuMemcpyDtoDAsync_v2)(other, first, 64, nullptr), CUDA_SUCCESS);
    }
    CU_OK(CU(cuCtxSynchronize)());
    CU_OK(CU(cuMemFree_v2)(other));
  }
  CU_OK(CU(cuCtxDestroy_v2)(second));
  CU_OK(CU(cuMemFree_v2)(first));
}

} // namespace
} // namespace gstzc::test
