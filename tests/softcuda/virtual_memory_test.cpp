// SPDX-License-Identifier: LGPL-2.1-or-later
// Virtual memory of the stand-in, its export, and memory of the device as dma-bufs.
#include <fcntl.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "tests/softcuda/interop_test.h"

extern "C" {
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemExportToShareableHandle(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                                      unsigned long long);
CUresult cuMemGetAccess(unsigned long long *, const CUmemLocation *, CUdeviceptr);
CUresult cuMemGetAllocationGranularity(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *, CUmemGenericAllocationHandle);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *, void *);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
CUresult cuMemUnmap(CUdeviceptr, size_t);
}

namespace gstzc::test {
namespace {

constexpr CUmemAllocationHandleType kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr CUmemLocation kHere = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

class VirtualMemory : public InteropTest {
protected:
  static CUmemAllocationProp properties(CUmemAllocationHandleType exported = kFd) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = exported;
    properties.location = kHere;
    return properties;
  }
  void SetUp() override {
    InteropTest::SetUp();
    if (IsSkipped()) return;
    const CUmemAllocationProp wanted = properties();
    CU_OK(CU(cuMemGetAllocationGranularity)(&grain_, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  CUmemGenericAllocationHandle create(size_t bytes, CUmemAllocationHandleType exported = kFd) {
    CUmemGenericAllocationHandle memory = 0;
    const CUmemAllocationProp wanted = properties(exported);
    EXPECT_EQ(CU(cuMemCreate)(&memory, bytes, &wanted, 0), CUDA_SUCCESS);
    return memory;
  }
  static CUresult allow(CUdeviceptr address, size_t bytes,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    const CUmemAccessDesc access = {kHere, flags};
    return CU(cuMemSetAccess)(address, bytes, &access, 1);
  }
  CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(CU(cuMemAddressReserve)(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  static CUresult exportRange(int *fd, CUdeviceptr pointer, size_t bytes) {
    return CU(cuMemGetHandleForAddressRange)(fd, pointer, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  }
  size_t grain_ = 0;
};

TEST_F(VirtualMemory, IsUsableOnceMappedAndAllowed) {
  const CUmemGenericAllocationHandle memory = create(2 * grain_);
  const CUdeviceptr address = reserve(4 * grain_);
  EXPECT_EQ(address % grain_, 0u);
  unsigned char byte;
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, address, 1), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemMap)(address + grain_, 2 * grain_, 0, memory, 0));
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, address + grain_, 1), CUDA_ERROR_INVALID_VALUE); // mapped, but not allowed
  CU_OK(allow(address + grain_, 2 * grain_));
  CU_OK(CU(cuMemsetD8_v2)(address + grain_, 7, 2 * grain_));
  EXPECT_EQ(read(address + 3 * grain_ - 1, 1)[0], 7);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, address, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, address + 3 * grain_, 1), CUDA_ERROR_INVALID_VALUE);
  CU_OK(allow(address + grain_, 2 * grain_, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_EQ(CU(cuMemsetD8_v2)(address + grain_, 8, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(read(address + grain_, 1)[0], 7);
  unsigned long long access = 0;
  CU_OK(CU(cuMemGetAccess)(&access, &kHere, address + 2 * grain_));
  EXPECT_EQ(access, static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READ));
  CU_OK(CU(cuMemRelease)(memory)); // the mapping keeps it
  EXPECT_EQ(read(address + grain_, 1)[0], 7);
  CU_OK(CU(cuMemUnmap)(address + grain_, 2 * grain_));
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, address + grain_, 1), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemAddressFree)(address, 4 * grain_));
}

TEST_F(VirtualMemory, RefusesWhatDoesNotFit) {
  CUmemGenericAllocationHandle memory = 0;
  CUmemAllocationProp wanted = properties();
  EXPECT_EQ(CU(cuMemCreate)(&memory, grain_ / 2, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
  wanted.location.id = 77;
  EXPECT_EQ(CU(cuMemCreate)(&memory, grain_, &wanted, 0), CUDA_ERROR_INVALID_DEVICE);
  memory = create(grain_);
  const CUdeviceptr address = reserve(2 * grain_);
  EXPECT_EQ(CU(cuMemMap)(address, 2 * grain_, 0, memory, 0), CUDA_ERROR_INVALID_VALUE); // longer than the memory
  EXPECT_EQ(CU(cuMemMap)(address + grain_ / 2, grain_, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemMap)(address + 2 * grain_, grain_, 0, memory, 0), CUDA_ERROR_INVALID_VALUE); // not reserved
  CU_OK(CU(cuMemMap)(address, grain_, 0, memory, 0));
  EXPECT_EQ(CU(cuMemMap)(address, grain_, 0, memory, 0), CUDA_ERROR_INVALID_VALUE); // mapped already
  EXPECT_EQ(allow(address, 2 * grain_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemUnmap)(address, grain_ / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuMemAddressFree)(address, 2 * grain_), CUDA_ERROR_INVALID_VALUE); // still mapped
  CU_OK(CU(cuMemUnmap)(address, grain_));
  CU_OK(CU(cuMemAddressFree)(address, 2 * grain_));
  CU_OK(CU(cuMemRelease)(memory));
  EXPECT_EQ(CU(cuMemRelease)(memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(takeMisuses(), 2u); // looked up and taken once it was gone
}

TEST_F(VirtualMemory, IsSharedByADescriptor) {
  const CUmemGenericAllocationHandle memory = create(grain_), plain = create(grain_, CU_MEM_HANDLE_TYPE_NONE);
  int fd = -1;
  EXPECT_EQ(CU(cuMemExportToShareableHandle)(&fd, plain, kFd, 0), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemExportToShareableHandle)(&fd, memory, kFd, 0));
  CUmemGenericAllocationHandle imported = 0;
  CU_OK(CU(cuMemImportFromShareableHandle)(&imported, reinterpret_cast<void *>(intptr_t{fd}), kFd));
  const SharedBytes frame(grain_);
  EXPECT_EQ(CU(cuMemImportFromShareableHandle)(&imported, reinterpret_cast<void *>(intptr_t{frame.fd.get()}), kFd),
            CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr address = reserve(2 * grain_);
  CU_OK(CU(cuMemMap)(address, grain_, 0, memory, 0));
  CU_OK(CU(cuMemMap)(address + grain_, grain_, 0, imported, 0));
  CU_OK(allow(address, 2 * grain_));
  CU_OK(CU(cuMemsetD8_v2)(address, 9, grain_));
  EXPECT_EQ(read(address + grain_ + 5, 1)[0], 9);

  // and CUDA takes it as external memory, too
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  description.size = grain_;
  CUexternalMemory external;
  CU_OK(CU(cuImportExternalMemory)(&external, &description));
  CU_OK(CU(cuDestroyExternalMemory)(external));

  CUmemGenericAllocationHandle again = 0;
  CU_OK(CU(cuMemRetainAllocationHandle)(&again, reinterpret_cast<void *>(address)));
  EXPECT_EQ(again, memory);
  CU_OK(CU(cuMemUnmap)(address, grain_));
  CU_OK(CU(cuMemUnmap)(address + grain_, grain_));
  CU_OK(CU(cuMemAddressFree)(address, 2 * grain_));
  for (const auto handle : {memory, memory, imported, plain}) CU_OK(CU(cuMemRelease)(handle)); // retained: twice
}

TEST_F(VirtualMemory, WhatIsLeftIsListed) {
  const CUmemGenericAllocationHandle memory = create(grain_);
  const CUdeviceptr address = reserve(grain_);
  EXPECT_EQ(SOFT(live)("allocation handle"), 1u);
  EXPECT_EQ(SOFT(live)("address range"), 1u);
  CU_OK(CU(cuMemAddressFree)(address, grain_));
  CU_OK(CU(cuMemRelease)(memory));
}

TEST_F(VirtualMemory, MemoryBecomesADmabufWhereTheDeviceCan) {
  for (const char *profile : {"dgpu", "orin", "thor"}) {
    SCOPED_TRACE(profile);
    SOFT(set_profile)(profile);
    int of_device = -1, of_host = -1, fd = -1;
    CU_OK(CU(cuDeviceGetAttribute)(&of_device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device_));
    CU_OK(CU(cuDeviceGetAttribute)(&of_host, CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, device_));
    const CUdeviceptr pointer = newMemory(8192);
    void *host = nullptr;
    CU_OK(CU(cuMemHostAlloc)(&host, 8192, 0));
    CU_OK(CU(cuMemsetD8_v2)(pointer, 5, 8192));
    CU_OK(CU(cuCtxSynchronize)()); // a memset does not wait
    ASSERT_EQ(exportRange(&fd, pointer, 8192), of_device ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    if (of_device) {
      UniqueFd exported(fd);
      EXPECT_EQ(*fileSize(fd), 8192u);
      void *view = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      ASSERT_NE(view, MAP_FAILED);
      EXPECT_EQ(static_cast<unsigned char *>(view)[8191], 5);
      CU_OK(CU(cuMemsetD8_v2)(pointer + 100, 6, 1)); // later writes, too
      CU_OK(CU(cuCtxSynchronize)());
      EXPECT_EQ(static_cast<unsigned char *>(view)[100], 6);
      static_cast<unsigned char *>(view)[101] = 7;
      EXPECT_EQ(read(pointer + 101, 1)[0], 7);
      munmap(view, 8192);
    }
    ASSERT_EQ(exportRange(&fd, reinterpret_cast<uintptr_t>(host), 8192),
              of_host ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
    if (of_host) close(fd);
    CU_OK(CU(cuMemFreeHost)(host));
    CU_OK(CU(cuMemFree_v2)(pointer));
  }
}

TEST_F(VirtualMemory, ADmabufIsOfWholePagesOfOneAllocation) {
  const CUdeviceptr pointer = newMemory(8192);
  int fd = -1;
  EXPECT_EQ(exportRange(&fd, pointer, 8191), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(exportRange(&fd, pointer + 1, 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(exportRange(&fd, pointer, 3 * 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(exportRange(&fd, 4096, 4096), CUDA_ERROR_INVALID_VALUE);
  const SharedBytes frame(8192);
  CU_OK(CU(cuMemHostRegister_v2)(frame.data, 8192, 0));
  CUdeviceptr registered;
  CU_OK(CU(cuMemHostGetDevicePointer_v2)(&registered, frame.data, 0));
  EXPECT_EQ(exportRange(&fd, registered, 8192), CUDA_ERROR_NOT_SUPPORTED);
  CU_OK(CU(cuMemHostUnregister)(frame.data));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(VirtualMemory, MappedMemoryBecomesADmabuf) {
  const CUmemGenericAllocationHandle memory = create(grain_);
  const CUdeviceptr address = reserve(grain_);
  CU_OK(CU(cuMemMap)(address, grain_, 0, memory, 0));
  CU_OK(allow(address, grain_));
  CU_OK(CU(cuMemsetD8_v2)(address, 3, grain_));
  CU_OK(CU(cuCtxSynchronize)());
  int fd = -1;
  CU_OK(exportRange(&fd, address, grain_));
  unsigned char byte = 0;
  void *view = mmap(nullptr, grain_, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  byte = static_cast<unsigned char *>(view)[grain_ - 1];
  EXPECT_EQ(byte, 3);
  munmap(view, grain_);
  close(fd);
  CU_OK(CU(cuMemUnmap)(address, grain_));
  CU_OK(CU(cuMemAddressFree)(address, grain_));
  CU_OK(CU(cuMemRelease)(memory));
}

} // namespace
} // namespace gstzc::test
