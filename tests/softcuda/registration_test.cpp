// SPDX-License-Identifier: LGPL-2.1-or-later
// Registration of memory of the host on the stand-in: refuses what Linux refuses.
#include <fstream>
#include <sstream>

#include "tests/softcuda/host_range.h"
#include "tests/softcuda/interop_test.h"

namespace gstzc::test {
namespace {

using softcuda::hostRange;

constexpr char kSmaps[] = "10000-12000 rw-s 00000000 00:01 5 /memfd:frame\n"
                          "Size: 8 kB\n"
                          "VmFlags: rd wr sh mr mw me ms \n"
                          "12000-13000 r--s 00000000 00:01 6 /memfd:other\n"
                          "VmFlags: rd sh mr mw me \n"
                          "20000-22000 rw-s 00000000 00:0c 7 /dmabuf:\n"
                          "VmFlags: rd wr sh mr mw me ms pf dd \n"
                          "22000-24000 rw-s 00000000 00:0c 8 /dmabuf:\n"
                          "VmFlags: rd wr sh mr mw me ms pf io dd\n"
                          "7fff00000000-7fff00001000 ---p 00000000 00:00 0\n"
                          "VmFlags: mr mw me \n";

TEST(HostRange, IsWhatTheKernelSays) {
  EXPECT_TRUE(hostRange(kSmaps, 0x10000, 0x2000).mapped);
  EXPECT_TRUE(hostRange(kSmaps, 0x10800, 1).writable);
  EXPECT_FALSE(hostRange(kSmaps, 0x10800, 1).page_frames);
  EXPECT_FALSE(hostRange(kSmaps, 0x11fff, 2).writable); // its last byte is of the next area
  EXPECT_FALSE(hostRange(kSmaps, 0x11fff, 2).one_area);
  EXPECT_FALSE(hostRange(kSmaps, 0x12fff, 2).mapped); // a gap behind it
  EXPECT_FALSE(hostRange(kSmaps, 0xf000, 0x1001).mapped);
  EXPECT_FALSE(hostRange(kSmaps, 0x30000, 1).mapped);
  EXPECT_TRUE(hostRange(kSmaps, 0x20000, 0x2000).page_frames);
  EXPECT_FALSE(hostRange(kSmaps, 0x20000, 0x2000).io);
  EXPECT_TRUE(hostRange(kSmaps, 0x22000, 0x2000).io);
  EXPECT_TRUE(hostRange(kSmaps, 0x21000, 0x2000).io); // in part
  EXPECT_FALSE(hostRange(kSmaps, 0x7fff00000000, 0x1000).readable);
}

class Registration : public InteropTest {
protected:
  static constexpr unsigned kMapped = CU_MEMHOSTREGISTER_DEVICEMAP;
  static CUdeviceptr deviceAddress(void *host) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(CU(cuMemHostGetDevicePointer_v2)(&pointer, host, 0), CUDA_SUCCESS);
    return pointer;
  }
};

TEST_F(Registration, TheDeviceSeesTheSharedPages) {
  for (const char *profile : {"dgpu", "orin", "thor"}) {
    SCOPED_TRACE(profile);
    SOFT(set_profile)(profile);
    const SharedBytes frame(3 * kMegabyte);
    CU_OK(CU(cuMemHostRegister_v2)(frame.data, 3 * kMegabyte, kMapped));
    const CUdeviceptr pointer = deviceAddress(frame.data);
    int same = 0;
    CU_OK(CU(cuDeviceGetAttribute)(&same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, device_));
    EXPECT_EQ(pointer == reinterpret_cast<uintptr_t>(frame.data), same == 1);
    EXPECT_EQ(deviceAddress(frame.data + 5), pointer + 5);
    EXPECT_EQ(firstDifference(read(pointer, 3 * kMegabyte)), 3 * kMegabyte);
    const unsigned char byte = 0xbb; // through another descriptor, as a producer writes
    EXPECT_EQ(pwrite(frame.fd.get(), &byte, 1, kMegabyte), 1);
    EXPECT_EQ(read(pointer + kMegabyte, 1)[0], 0xbb);
    CU_OK(CU(cuMemHostUnregister)(frame.data));
    CUdeviceptr gone;
    EXPECT_EQ(CU(cuMemHostGetDevicePointer_v2)(&gone, frame.data, 0), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(Registration, NeedNotBeOfWholePages) {
  const SharedBytes frame(8192);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data + 100, 5000, kMapped));
  EXPECT_EQ(firstDifference(read(deviceAddress(frame.data + 100), 5000), 100), 5000u);
  CU_OK(CU(cuMemHostUnregister)(frame.data + 100));
}

TEST_F(Registration, RefusesOverlapAndWhatIsNotMapped) {
  const SharedBytes frame(5 * 4096);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data + 4096, 8192, kMapped));
  constexpr CUresult kAlready = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data + 4096, 8192, kMapped), kAlready);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 4097, kMapped), kAlready);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data + 3 * 4096 - 1, 10, kMapped), kAlready);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data, 4096, kMapped));
  EXPECT_EQ(CU(cuMemHostUnregister)(frame.data + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED); // not where it starts
  CU_OK(CU(cuMemHostUnregister)(frame.data));
  CU_OK(CU(cuMemHostUnregister)(frame.data + 4096));
  EXPECT_EQ(CU(cuMemHostUnregister)(frame.data), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);

  munmap(frame.data + 4096, 4096); // a hole
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 3 * 4096, kMapped), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(nullptr, 4096, kMapped), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 0, kMapped), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 4096, 0x10), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Registration, MemoryThatTheHostCannotWriteNeedsTheFlag) {
  const SharedBytes frame(4096);
  mprotect(frame.data, 4096, PROT_READ);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 4096, kMapped), CUDA_ERROR_INVALID_VALUE);
  constexpr unsigned kReadOnly = kMapped | CU_MEMHOSTREGISTER_READ_ONLY;
  int supported = 0;
  for (const char *profile : {"dgpu", "orin"}) {
    SOFT(set_profile)(profile);
    CU_OK(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, device_));
    EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 4096, kReadOnly),
              supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    if (!supported) continue;
    const CUdeviceptr pointer = deviceAddress(frame.data);
    EXPECT_EQ(firstDifference(read(pointer, 4096)), 4096u);
    const unsigned char byte = 1;
    EXPECT_EQ(CU(cuMemcpyHtoD_v2)(pointer, &byte, 1), CUDA_ERROR_INVALID_VALUE);
    CU_OK(CU(cuMemHostUnregister)(frame.data));
  }
  EXPECT_EQ(supported, 0); // one of each
}

// An area of page frames of every process; dma-bufs are such areas.
std::pair<void *, size_t> pageFrameArea() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0, to = 0;
    if (line.find("[vvar]") != std::string::npos && sscanf(line.c_str(), "%zx-%zx", &from, &to) == 2)
      return {reinterpret_cast<void *>(from), to - from};
  }
  return {nullptr, 0};
}

TEST_F(Registration, RefusesPageFrames) {
  const auto [area, bytes] = pageFrameArea();
  if (!area) GTEST_SKIP() << "this kernel shows no area [vvar]";
  std::ostringstream smaps;
  smaps << std::ifstream("/proc/self/smaps").rdbuf();
  if (!hostRange(smaps.str(), reinterpret_cast<uintptr_t>(area), 4096).page_frames)
    GTEST_SKIP() << "the area [vvar] is none of page frames";
  constexpr unsigned kReadOnly = kMapped | CU_MEMHOSTREGISTER_READ_ONLY;
  constexpr unsigned kIo = kReadOnly | CU_MEMHOSTREGISTER_IOMEMORY;
  EXPECT_EQ(CU(cuMemHostRegister_v2)(area, 4096, kReadOnly), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(area, 4096, kIo), CUDA_ERROR_INVALID_VALUE); // nobody says that it is contiguous
  setenv("SOFTCUDA_IO_CONTIGUOUS", "1", 1);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(area, 4096, kReadOnly), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemHostRegister_v2)(area, 4096, kIo));
  CU_OK(CU(cuMemHostUnregister)(area));
  const SharedBytes frame(4096);
  EXPECT_EQ(CU(cuMemHostRegister_v2)(frame.data, 4096, kMapped | CU_MEMHOSTREGISTER_IOMEMORY),
            CUDA_ERROR_INVALID_VALUE); // and this is none of a device
  unsetenv("SOFTCUDA_IO_CONTIGUOUS");
}

TEST_F(Registration, CatchesWhoEndsItTooEarlyOrTooLate) {
  const SharedBytes frame(8192);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data, 8192, kMapped));
  const CUdeviceptr pointer = deviceAddress(frame.data);
  const CUstream stream = newStream();
  PinnedWord gate;
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(CU(cuMemsetD8Async)(pointer, 1, 4096, stream));
  CU_OK(CU(cuMemHostUnregister)(frame.data)); // while the device is to write it
  EXPECT_EQ(takeMisuses(), 1u);
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));

  CU_OK(CU(cuMemHostRegister_v2)(frame.data, 8192, kMapped));
  munmap(frame.data, 8192);
  CU_OK(CU(cuMemHostUnregister)(frame.data));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(Registration, CanBeRightOnlyInPart) {
  SOFT(set_import_fault)("register:2M");
  for (const char *profile : {"dgpu", "orin"}) {
    SOFT(set_profile)(profile);
    const SharedBytes frame(3 * kMegabyte);
    CU_OK(CU(cuMemHostRegister_v2)(frame.data, 3 * kMegabyte, kMapped));
    const CUdeviceptr pointer = deviceAddress(frame.data);
    EXPECT_EQ(firstDifference(read(pointer, 3 * kMegabyte)), 2 * kMegabyte) << profile;
    EXPECT_EQ(frame.data[2 * kMegabyte], patternAt(2 * kMegabyte)); // the host is not fooled
    frame.data[7] = 0xaa;
    EXPECT_EQ(read(pointer + 7, 1)[0], 0xaa); // what is right is shared
    CU_OK(CU(cuMemHostUnregister)(frame.data));
  }
}

TEST_F(Registration, WhatIsLeftIsListed) {
  const SharedBytes frame(4096);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data, 4096, kMapped));
  EXPECT_EQ(SOFT(live)("registered memory"), 1u);
  CU_OK(CU(cuMemHostUnregister)(frame.data));
}

} // namespace
} // namespace gstzc::test
