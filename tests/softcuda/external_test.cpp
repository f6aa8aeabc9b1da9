// SPDX-License-Identifier: LGPL-2.1-or-later
// External memory of the stand-in: which descriptors which device takes, and what it refuses.
#include <fcntl.h>
#include <sys/eventfd.h>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop_test.h"

namespace gstzc::test {
namespace {

constexpr unsigned kDedicated = 1;

class ExternalMemoryTest : public InteropTest {
protected:
  static CUresult import(CUexternalMemory *memory, CUexternalMemoryHandleType type, int fd, uint64_t size,
                         unsigned flags = 0) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
    description.type = type;
    description.handle.fd = fd;
    description.size = size;
    description.flags = flags;
    return CU(cuImportExternalMemory)(memory, &description);
  }
  static CUresult importDmabuf(CUexternalMemory *memory, int fd, uint64_t size, unsigned flags = 0) {
    return import(memory, CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, fd, size, flags);
  }
  static CUresult importOpaque(CUexternalMemory *memory, int fd, uint64_t size, unsigned flags = 0) {
    return import(memory, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, fd, size, flags);
  }
  static CUresult map(CUdeviceptr *pointer, CUexternalMemory memory, uint64_t offset, uint64_t size) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC description{};
    description.offset = offset;
    description.size = size;
    return CU(cuExternalMemoryGetMappedBuffer)(pointer, memory, &description);
  }
  static int opaque(size_t bytes, softcuda::Opaque kind = softcuda::Opaque::Memory) {
    const int fd = softcuda::createOpaque(kind, bytes);
    EXPECT_GE(fd, 0);
    for (size_t i = 0; i < bytes; i++) {
      const unsigned char byte = patternAt(i);
      EXPECT_EQ(pwrite(fd, &byte, 1, static_cast<off_t>(i)), 1);
    }
    return fd;
  }
};

TEST_F(ExternalMemoryTest, OnlyThorImportsDmabufs) {
  const SharedBytes frame(8192);
  CUexternalMemory memory;
  for (const char *profile : {"dgpu", "orin"}) {
    SOFT(set_profile)(profile);
    EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8192), CUDA_ERROR_NOT_SUPPORTED) << profile;
  }
  SOFT(set_profile)("thor");
  CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

TEST_F(ExternalMemoryTest, ShowsTheBytesThatOthersWrite) {
  SOFT(set_profile)("thor");
  const SharedBytes frame(3 * kMegabyte);
  CUexternalMemory memory;
  CUdeviceptr whole, part;
  CU_OK(importDmabuf(&memory, frame.fd.get(), 3 * kMegabyte));
  CU_OK(map(&whole, memory, 0, 3 * kMegabyte));
  CU_OK(map(&part, memory, 5000, 1000)); // not of whole pages
  EXPECT_EQ(firstDifference(read(whole, 3 * kMegabyte)), 3 * kMegabyte);
  EXPECT_EQ(firstDifference(read(part, 1000), 5000), 1000u);
  frame.data[5001] = 0xaa;
  EXPECT_EQ(read(part + 1, 1)[0], 0xaa);
  const unsigned char byte = 0xbb; // and the device writes to them
  CU_OK(CU(cuMemcpyHtoD_v2)(whole + 5002, &byte, 1));
  EXPECT_EQ(frame.data[5002], 0xbb);
  CU_OK(CU(cuMemFree_v2)(whole));
  CU_OK(CU(cuMemFree_v2)(part));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

TEST_F(ExternalMemoryTest, ADmabufsDescriptorStaysTheCallers) {
  SOFT(set_profile)("thor");
  CUexternalMemory memory;
  CUdeviceptr pointer;
  {
    SharedBytes frame(8192);
    CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
    EXPECT_TRUE(softcuda::isOpen(frame.fd.get()));
  }
  CU_OK(map(&pointer, memory, 0, 8192)); // it is closed now
  EXPECT_EQ(firstDifference(read(pointer, 8192)), 8192u);
  CU_OK(CU(cuMemFree_v2)(pointer));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

TEST_F(ExternalMemoryTest, RefusesWrongDescriptions) {
  SOFT(set_profile)("thor");
  const SharedBytes frame(8192);
  const UniqueFd other(eventfd(0, EFD_CLOEXEC));
  CUexternalMemory memory;
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8193), CUDA_ERROR_INVALID_VALUE); // longer than the file
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(importDmabuf(&memory, frame.fd.get(), 8192, 1), CUDA_ERROR_INVALID_VALUE); // flags
  EXPECT_EQ(importDmabuf(&memory, other.get(), 8), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(importDmabuf(&memory, 1 << 20, 8), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(import(&memory, static_cast<CUexternalMemoryHandleType>(8), frame.fd.get(), 8192),
            CUDA_ERROR_NOT_SUPPORTED);
  CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
  CUdeviceptr pointer;
  EXPECT_EQ(map(&pointer, memory, 4096, 4097), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(&pointer, memory, ~uint64_t{0} - 10, 100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(&pointer, memory, 0, 0), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

// As the 595 driver refuses them: so nobody takes an opaque descriptor for any descriptor.
TEST_F(ExternalMemoryTest, ADmabufIsNoOpaqueDescriptor) {
  const SharedBytes frame(8192);
  CUexternalMemory memory;
  for (const char *profile : {"dgpu", "orin", "thor"}) {
    SOFT(set_profile)(profile);
    EXPECT_EQ(importOpaque(&memory, frame.fd.get(), 8192), CUDA_ERROR_UNKNOWN) << profile;
  }
  EXPECT_TRUE(softcuda::isOpen(frame.fd.get())); // and does not take it
  SOFT(set_profile)("thor");
  const UniqueFd exported(opaque(8192));
  EXPECT_EQ(importDmabuf(&memory, exported.get(), 8192), CUDA_ERROR_INVALID_HANDLE); // nor the other way round
}

TEST_F(ExternalMemoryTest, TakesAnOpaqueDescriptor) {
  const int fd = opaque(8192);
  const UniqueFd watch = UniqueFd::duplicate(fd);
  CUexternalMemory memory;
  CUdeviceptr pointer;
  CU_OK(importOpaque(&memory, fd, 8192));
  CU_OK(map(&pointer, memory, 0, 8192));
  EXPECT_EQ(firstDifference(read(pointer, 8192)), 8192u);
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_TRUE(softcuda::isOpen(fd));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
  EXPECT_FALSE(softcuda::isOpen(fd) && softcuda::sameFile(fd, watch.get()));
}

TEST_F(ExternalMemoryTest, CatchesWhoClosesATakenDescriptor) {
  const int fd = opaque(4096);
  CUexternalMemory memory;
  CU_OK(importOpaque(&memory, fd, 4096));
  close(fd);
  CU_OK(CU(cuDestroyExternalMemory)(memory));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(ExternalMemoryTest, AnOpaqueDescriptorIsDescribedExactly) {
  CUexternalMemory memory;
  UniqueFd plain(opaque(8192)), dedicated(opaque(8192, softcuda::Opaque::DedicatedMemory));
  EXPECT_EQ(importOpaque(&memory, plain.get(), 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(importOpaque(&memory, plain.get(), 8192, kDedicated), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(importOpaque(&memory, dedicated.get(), 8192), CUDA_ERROR_INVALID_VALUE);
  CU_OK(importOpaque(&memory, dedicated.release(), 8192, kDedicated));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

// What lavapipe exports is not the start of the file.
TEST_F(ExternalMemoryTest, TakesWhatLavapipeExports) {
  const int fd = opaque(12288, softcuda::Opaque::MesaMemory);
  const softcuda::MesaMemory header = {.end = 12288, .start = 4096};
  EXPECT_EQ(pwrite(fd, &header, sizeof header, 0), ssize_t{sizeof header});
  CUexternalMemory memory;
  CUdeviceptr pointer;
  EXPECT_EQ(importOpaque(&memory, fd, 8193), CUDA_ERROR_INVALID_VALUE);
  SOFT(set_import_fault)("opaque:4K");
  CU_OK(importOpaque(&memory, fd, 8192));
  CU_OK(map(&pointer, memory, 100, 8092));
  EXPECT_EQ(firstDifference(read(pointer, 8092), 4196), 3996u); // and wrong 4 KiB after its start
  CU_OK(CU(cuMemFree_v2)(pointer));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

TEST_F(ExternalMemoryTest, ItsBuffersAreOfNoUseAfterItIsDestroyed) {
  SOFT(set_profile)("thor");
  const SharedBytes frame(8192);
  CUexternalMemory memory;
  CUdeviceptr pointer;
  CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
  CU_OK(map(&pointer, memory, 0, 8192));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
  unsigned char byte;
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&byte, pointer, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuDestroyExternalMemory)(memory), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(map(&pointer, memory, 0, 8192), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(takeMisuses(), 2u);                 // of a handle that was destroyed
  EXPECT_EQ(SOFT(live)("external buffer"), 1u); // and it still has to be freed
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(ExternalMemoryTest, CatchesWhoDestroysWhatIsStillUsed) {
  SOFT(set_profile)("thor");
  const SharedBytes frame(8192);
  CUexternalMemory memory;
  CUdeviceptr pointer;
  CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
  CU_OK(map(&pointer, memory, 0, 8192));
  const CUstream stream = newStream();
  PinnedWord gate;
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  std::vector<unsigned char> bytes(8192);
  CU_OK(CU(cuMemcpyDtoHAsync_v2)(bytes.data(), pointer, bytes.size(), stream));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
  EXPECT_EQ(SOFT(misuses)(), 1u);
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_EQ(SOFT(misuses)(), 2u);
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(firstDifference(bytes), bytes.size()); // the stand-in keeps it meanwhile
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  takeMisuses();
}

TEST_F(ExternalMemoryTest, WhatIsLeftIsListed) {
  SOFT(set_profile)("thor");
  const SharedBytes frame(8192);
  CUexternalMemory memory;
  CU_OK(importDmabuf(&memory, frame.fd.get(), 8192));
  EXPECT_EQ(SOFT(live)("external memory"), 1u);
  EXPECT_NE(std::string(SOFT(live_list)()).find("cuImportExternalMemory"), std::string::npos);
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

// Both types of import can be told to succeed and to show other pages past a byte.
TEST_F(ExternalMemoryTest, CanBeRightOnlyInPart) {
  SOFT(set_profile)("thor");
  SOFT(set_import_fault)("dmabuf:2M,opaque:4K");
  const SharedBytes frame(3 * kMegabyte);
  CUexternalMemory memory;
  CUdeviceptr pointer, behind;
  CU_OK(importDmabuf(&memory, frame.fd.get(), 3 * kMegabyte));
  CU_OK(map(&pointer, memory, 0, 3 * kMegabyte));
  CU_OK(map(&behind, memory, 2 * kMegabyte + 8192, 4096));
  EXPECT_EQ(firstDifference(read(pointer, 3 * kMegabyte)), 2 * kMegabyte);
  EXPECT_EQ(firstDifference(read(behind, 4096), 2 * kMegabyte + 8192), 0u);
  CU_OK(CU(cuMemFree_v2)(pointer));
  CU_OK(CU(cuMemFree_v2)(behind));
  CU_OK(CU(cuDestroyExternalMemory)(memory));

  CU_OK(importOpaque(&memory, opaque(8192), 8192));
  CU_OK(map(&pointer, memory, 0, 8192));
  EXPECT_EQ(firstDifference(read(pointer, 8192)), 4096u);
  CU_OK(CU(cuMemFree_v2)(pointer));
  CU_OK(CU(cuDestroyExternalMemory)(memory));
}

} // namespace
} // namespace gstzc::test
