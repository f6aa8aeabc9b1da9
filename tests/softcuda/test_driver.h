// SPDX-License-Identifier: LGPL-2.1-or-later
// For tests of what a driver does, whichever libcuda.so.1 is there: the stand-in, or a real one (suite `cuda`).
// Functions are looked up, so nothing is linked; what only the stand-in has is null on a real driver.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

#include <cuda.h>
#include <gtest/gtest.h>

#include "tests/softcuda/softcuda.h"

extern "C" { // those of the library that no header of ours declares
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to);
CUresult cuGetExportTable(const void **table, const CUuuid *id);
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, int *status);
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuTexObjectCreate(CUtexObject *texture, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampling,
                           const CUDA_RESOURCE_VIEW_DESC *view);
CUresult cuTexObjectDestroy(CUtexObject texture);
}

namespace gstzc::test {

inline void *libcuda() {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}

// cu<&cuMemAlloc_v2>("cuMemAlloc_v2") without writing it twice: CU(cuMemAlloc_v2)(…)
template <typename F> F driverFunction(const char *name) {
  return reinterpret_cast<F>(libcuda() ? dlsym(libcuda(), name) : nullptr);
}
#define CU(name)                                                                        \
  (*[] {                                                                                \
    static const auto function = gstzc::test::driverFunction<decltype(&::name)>(#name); \
    return function;                                                                    \
  }())
#define SOFT(name) CU(softcuda_##name)

inline bool onStandIn() { return driverFunction<decltype(&softcuda_ptr)>("softcuda_ptr") != nullptr; }

#define CU_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define STAND_IN_ONLY(why) \
  if (!gstzc::test::onStandIn()) GTEST_SKIP() << "only on the stand-in: " << why

constexpr std::chrono::seconds kPatience(20);

// Waits for a condition; false: it did not come true in a generous time.
template <typename F> bool eventually(F &&condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Whether a condition stays false for as long as what should not happen would need.
template <typename F> bool never(F &&condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}
inline bool isHeld(CUstream stream) {
  return never([stream] { return CU(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY; });
}

// A context on device 0 that is current, for each test; skipped where there is no driver or no device.
class DriverTest : public testing::Test {
protected:
  void SetUp() override {
    if (!libcuda()) GTEST_SKIP() << "no libcuda.so.1";
    const CUresult started = CU(cuInit)(0);
    if (started != CUDA_SUCCESS) GTEST_SKIP() << "cuInit: error " << started << " (no device?)";
    if (onStandIn()) SOFT(reset)();
    CU_OK(CU(cuDeviceGet)(&device_, 0));
    CU_OK(CU(cuCtxCreate_v2)(&context_, 0, device_));
  }
  void TearDown() override {
    if (onStandIn()) {
      SOFT(set_delay_us)(0);
      EXPECT_EQ(SOFT(misuses)(), 0u) << SOFT(misuse_list)();
    }
    if (context_) {
      EXPECT_EQ(CU(cuCtxDestroy_v2)(context_), CUDA_SUCCESS);
    }
    if (onStandIn()) {
      EXPECT_EQ(SOFT(live)(nullptr), 0u) << SOFT(live_list)();
      SOFT(reset)();
    }
  }

  CUstream newStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_EQ(CU(cuStreamCreate)(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  CUevent newEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent event = nullptr;
    EXPECT_EQ(CU(cuEventCreate)(&event, flags), CUDA_SUCCESS);
    return event;
  }
  CUdeviceptr newMemory(size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
  }
  static std::vector<unsigned char> read(CUdeviceptr from, size_t bytes) {
    std::vector<unsigned char> data(bytes);
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(data.data(), from, bytes), CUDA_SUCCESS);
    return data;
  }
  // The misuses since the last time, which were meant.
  static uint64_t takeMisuses() {
    const uint64_t count = SOFT(misuses)();
    SOFT(reset)();
    return count;
  }

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// A pinned word that the device can wait for; 0 at first.
class PinnedWord {
public:
  PinnedWord() {
    EXPECT_EQ(CU(cuMemHostAlloc)(&host_, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
    set(0);
    EXPECT_EQ(CU(cuMemHostGetDevicePointer_v2)(&device_, host_, 0), CUDA_SUCCESS);
  }
  ~PinnedWord() { EXPECT_EQ(CU(cuMemFreeHost)(host_), CUDA_SUCCESS); }
  PinnedWord(const PinnedWord &) = delete;
  PinnedWord &operator=(const PinnedWord &) = delete;

  void set(uint32_t value) { __atomic_store_n(static_cast<uint32_t *>(host_), value, __ATOMIC_RELEASE); }
  uint32_t get() const { return __atomic_load_n(static_cast<uint32_t *>(host_), __ATOMIC_ACQUIRE); }
  CUdeviceptr device() const { return device_; }

private:
  void *host_ = nullptr;
  CUdeviceptr device_ = 0;
};

} // namespace gstzc::test
