// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory of the device and of the host: what may be touched by whom, and copies between them.
#include <numeric>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

using Memory = DriverTest;
using Bytes = std::vector<unsigned char>;

Bytes counting(size_t size) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

// Whether a fork dies when it reads there.
bool faults(const void *address) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); // not a sanitizer's
    [[maybe_unused]] const volatile char byte = *static_cast<const volatile char *>(address);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST_F(Memory, CopiesThereAndBack) {
  const Bytes sent = counting(100000);
  const CUdeviceptr a = newMemory(sent.size()), b = newMemory(sent.size());
  CU_OK(CU(cuMemcpyHtoD_v2)(a, sent.data(), sent.size()));
  CU_OK(CU(cuMemcpyDtoDAsync_v2)(b, a, sent.size(), nullptr));
  EXPECT_EQ(read(b, sent.size()), sent);
  EXPECT_EQ(read(b + 777, 3), Bytes(sent.begin() + 777, sent.begin() + 780));
  CU_OK(CU(cuMemFree_v2)(a));
  CU_OK(CU(cuMemFree_v2)(b));
}

TEST_F(Memory, IsNotTheHosts) {
  STAND_IN_ONLY("devices that share memory exist");
  const CUdeviceptr pointer = newMemory(1000);
  EXPECT_TRUE(faults(reinterpret_cast<const void *>(pointer)));
  EXPECT_FALSE(faults(SOFT(ptr)(pointer, 1000)));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, IsNotZeroed) {
  STAND_IN_ONLY("a device has anything in it");
  const CUdeviceptr pointer = newMemory(1000);
  EXPECT_EQ(read(pointer, 1000), Bytes(1000, 0xcd));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, EndsWhereItEnds) {
  STAND_IN_ONLY("a device rounds up");
  Bytes bytes(64);
  const CUdeviceptr pointer = newMemory(1000);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(bytes.data(), pointer + 936, 64), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(bytes.data(), pointer + 937, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemsetD8Async)(pointer + 999, 0, 2, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SOFT(ptr)(pointer, 1001), nullptr);
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, KnowsItsRange) {
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUdeviceptr pointer = newMemory(4096);
  CU_OK(CU(cuMemGetAddressRange_v2)(&base, &size, pointer + 100));
  EXPECT_EQ(base, pointer);
  EXPECT_EQ(size, 4096u);
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, NoticesUseAfterFree) {
  STAND_IN_ONLY("undefined on a device");
  unsigned char byte;
  const CUdeviceptr pointer = newMemory(64);
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_EQ(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr next = newMemory(64);
  EXPECT_NE(next, pointer) << "the address must not come back";
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, pointer, 1), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemFree_v2)(next));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(Memory, NoticesAFreeWhileItIsUsed) {
  STAND_IN_ONLY("undefined on a device");
  PinnedWord gate;
  CUstream stream = newStream();
  const CUdeviceptr pointer = newMemory(64);
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(CU(cuMemsetD8Async)(pointer, 0, 64, stream));
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_EQ(takeMisuses(), 1u);
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_F(Memory, NoticesWhatIsWrittenBehindTheEnd) {
  STAND_IN_ONLY("a device says nothing");
  const CUdeviceptr pointer = newMemory(1000);
  static_cast<unsigned char *>(SOFT(ptr)(pointer, 1000))[1000] = 1;
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(Memory, NoticesADeviceAddressWhereTheHostsIsWanted) {
  STAND_IN_ONLY("a device may find out by itself");
  const CUdeviceptr a = newMemory(64), b = newMemory(64);
  EXPECT_EQ(CU(cuMemcpyHtoDAsync_v2)(a, reinterpret_cast<void *>(b), 64, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(takeMisuses(), 1u);
  CU_OK(CU(cuMemFree_v2)(a));
  CU_OK(CU(cuMemFree_v2)(b));
}

TEST_F(Memory, OfAnotherContextIsNotOurs) {
  STAND_IN_ONLY("a device shares it between contexts for copies");
  CUcontext second = nullptr;
  const CUdeviceptr pointer = newMemory(64);
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  EXPECT_EQ(CU(cuMemsetD8Async)(pointer, 0, 64, nullptr), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuCtxDestroy_v2)(second));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, PitchesRows) {
  CUdeviceptr pointer = 0;
  size_t pitch = 0;
  CU_OK(CU(cuMemAllocPitch_v2)(&pointer, &pitch, 333, 10, 16));
  EXPECT_GE(pitch, 333u);
  EXPECT_EQ(pitch % 256, 0u);
  const Bytes rows = counting(333 * 10);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = rows.data();
  copy.srcPitch = 333;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = pointer;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 333;
  copy.Height = 10;
  CU_OK(CU(cuMemcpy2D_v2)(&copy));
  EXPECT_EQ(read(pointer + 3 * pitch + 5, 9), Bytes(rows.begin() + 3 * 333 + 5, rows.begin() + 3 * 333 + 14));

  // a part of it, from (x, y) to the start of something denser
  Bytes part(7 * 4);
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  back.srcDevice = pointer;
  back.srcPitch = pitch;
  back.srcXInBytes = 11;
  back.srcY = 6;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = part.data();
  back.dstPitch = 7;
  back.WidthInBytes = 7;
  back.Height = 4;
  CU_OK(CU(cuMemcpy2DAsync_v2)(&back, nullptr));
  CU_OK(CU(cuCtxSynchronize)());
  for (size_t y = 0; y < 4; ++y)
    EXPECT_EQ(Bytes(part.begin() + long(y * 7), part.begin() + long(y * 7 + 7)),
              Bytes(rows.begin() + long((y + 6) * 333 + 11), rows.begin() + long((y + 6) * 333 + 18)));
  back.dstPitch = 6;
  EXPECT_EQ(CU(cuMemcpy2D_v2)(&back), CUDA_ERROR_INVALID_VALUE) << "rows overlap";
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, CopiesRowsOnlyWithinBounds) {
  STAND_IN_ONLY("a device rounds up");
  const CUdeviceptr pointer = newMemory(100 * 10);
  Bytes host(10000);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = pointer;
  copy.srcPitch = 100;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host.data();
  copy.dstPitch = 100;
  copy.WidthInBytes = 90;
  copy.Height = 10;
  EXPECT_EQ(CU(cuMemcpy2D_v2)(&copy), CUDA_SUCCESS);
  copy.srcXInBytes = 10;
  EXPECT_EQ(CU(cuMemcpy2D_v2)(&copy), CUDA_SUCCESS);
  copy.srcY = 1;
  EXPECT_EQ(CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, FillsRowsOfWideElements) {
  CUdeviceptr pointer = newMemory(64 * 4);
  CU_OK(CU(cuMemsetD8Async)(pointer, 0, 64 * 4, nullptr));
  CU_OK(CU(cuMemsetD2D8Async)(pointer + 8, 64, 9, 16, 4, nullptr));
  const Bytes all = read(pointer, 64 * 4);
  for (size_t y = 0; y < 4; ++y)
    for (size_t x = 0; x < 64; ++x) EXPECT_EQ(all[y * 64 + x], x >= 8 && x < 24 ? 9 : 0) << x << "," << y;
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Memory, OfTheHostIsSeenByBoth) {
  void *host = nullptr;
  CUdeviceptr device = 0;
  CU_OK(CU(cuMemHostAlloc)(&host, 1000, CU_MEMHOSTALLOC_DEVICEMAP));
  memset(host, 3, 1000);
  CU_OK(CU(cuMemHostGetDevicePointer_v2)(&device, host, 0));
  EXPECT_EQ(read(device, 1000), Bytes(1000, 3));
  CU_OK(CU(cuMemsetD8Async)(device + 500, 4, 500, nullptr));
  CU_OK(CU(cuCtxSynchronize)());
  EXPECT_EQ(static_cast<unsigned char *>(host)[499], 3);
  EXPECT_EQ(static_cast<unsigned char *>(host)[500], 4);
  CU_OK(CU(cuMemFreeHost)(host));
}

TEST_F(Memory, InTheOrderOfAStream) {
  int supported = 0;
  CU_OK(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device_));
  if (!supported) GTEST_SKIP() << "the device has no memory pools";
  CUstream stream = newStream();
  CUdeviceptr pointer = 0;
  Bytes back(256);
  CU_OK(CU(cuMemAllocAsync)(&pointer, back.size(), stream));
  CU_OK(CU(cuMemsetD8Async)(pointer, 0x11, back.size(), stream));
  CU_OK(CU(cuMemcpyDtoHAsync_v2)(back.data(), pointer, back.size(), stream));
  CU_OK(CU(cuMemFreeAsync)(pointer, stream));
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(back, Bytes(256, 0x11));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_F(Memory, FreedInTheOrderOfAStreamIsGoneAtOnce) {
  STAND_IN_ONLY("undefined on a device");
  PinnedWord gate;
  CUstream stream = newStream(), other = newStream();
  CUdeviceptr pointer = 0;
  CU_OK(CU(cuMemAllocAsync)(&pointer, 64, stream));
  CU_OK(CU(cuStreamWaitValue32_v2)(other, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(CU(cuMemsetD8Async)(pointer, 0, 64, other)); // nothing orders it with the free
  CU_OK(CU(cuMemFreeAsync)(pointer, stream));
  EXPECT_EQ(CU(cuMemsetD8Async)(pointer, 0, 64, stream), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuStreamSynchronize)(stream));
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(takeMisuses(), 1u);
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(other));
}

TEST_F(Memory, RunsOut) {
  size_t free_bytes = 0, total = 0;
  CU_OK(CU(cuMemGetInfo_v2)(&free_bytes, &total));
  EXPECT_LE(free_bytes, total);
  CUdeviceptr pointer = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
}

} // namespace
} // namespace gstzc::test
