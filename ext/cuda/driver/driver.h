// SPDX-License-Identifier: LGPL-2.1-or-later
// The CUDA driver, looked up at run time: nothing of ours links libcuda.
#pragma once

#include <cstddef>
#include <string>

#include <cuda.h>
#include <cudaEGL.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// F(member, symbol): as the driver's documentation names the function, and under which name libcuda exports it. What is
// needed by everything:
#define GSTZC_CUDA_REQUIRED(F)                               \
  F(cuInit, cuInit)                                          \
  F(cuDriverGetVersion, cuDriverGetVersion)                  \
  F(cuGetErrorName, cuGetErrorName)                          \
  F(cuGetErrorString, cuGetErrorString)                      \
  F(cuDeviceGet, cuDeviceGet)                                \
  F(cuDeviceGetCount, cuDeviceGetCount)                      \
  F(cuDeviceGetName, cuDeviceGetName)                        \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute)              \
  F(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId)                \
  F(cuCtxCreate, cuCtxCreate_v2)                             \
  F(cuCtxDestroy, cuCtxDestroy_v2)                           \
  F(cuCtxPushCurrent, cuCtxPushCurrent_v2)                   \
  F(cuCtxPopCurrent, cuCtxPopCurrent_v2)                     \
  F(cuCtxGetCurrent, cuCtxGetCurrent)                        \
  F(cuCtxGetDevice, cuCtxGetDevice)                          \
  F(cuCtxSynchronize, cuCtxSynchronize)                      \
  F(cuMemAlloc, cuMemAlloc_v2)                               \
  F(cuMemAllocPitch, cuMemAllocPitch_v2)                     \
  F(cuMemFree, cuMemFree_v2)                                 \
  F(cuMemHostAlloc, cuMemHostAlloc)                          \
  F(cuMemFreeHost, cuMemFreeHost)                            \
  F(cuMemHostRegister, cuMemHostRegister_v2)                 \
  F(cuMemHostUnregister, cuMemHostUnregister)                \
  F(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2) \
  F(cuMemcpy2DAsync, cuMemcpy2DAsync_v2)                     \
  F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                 \
  F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                 \
  F(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                 \
  F(cuStreamCreate, cuStreamCreate)                          \
  F(cuStreamDestroy, cuStreamDestroy_v2)                     \
  F(cuStreamQuery, cuStreamQuery)                            \
  F(cuStreamSynchronize, cuStreamSynchronize)                \
  F(cuStreamWaitEvent, cuStreamWaitEvent)                    \
  F(cuLaunchHostFunc, cuLaunchHostFunc)                      \
  F(cuEventCreate, cuEventCreate)                            \
  F(cuEventDestroy, cuEventDestroy_v2)                       \
  F(cuEventRecord, cuEventRecord)                            \
  F(cuEventQuery, cuEventQuery)                              \
  F(cuEventSynchronize, cuEventSynchronize)                  \
  F(cuModuleLoadData, cuModuleLoadData)                      \
  F(cuModuleUnload, cuModuleUnload)                          \
  F(cuModuleGetFunction, cuModuleGetFunction)                \
  F(cuLaunchKernel, cuLaunchKernel)

// What single routes need; null where the library is too old or not made for it:
#define GSTZC_CUDA_OPTIONAL(F)                                                \
  F(cuDeviceGetUuid, cuDeviceGetUuid_v2)                                      \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                       \
  F(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                  \
  F(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)                   \
  F(cuStreamWaitValue32, cuStreamWaitValue32_v2)                              \
  F(cuImportExternalMemory, cuImportExternalMemory)                           \
  F(cuExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer)         \
  F(cuDestroyExternalMemory, cuDestroyExternalMemory)                         \
  F(cuImportExternalSemaphore, cuImportExternalSemaphore)                     \
  F(cuDestroyExternalSemaphore, cuDestroyExternalSemaphore)                   \
  F(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync)         \
  F(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync)             \
  F(cuMemGetAddressRange, cuMemGetAddressRange_v2)                            \
  F(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange)             \
  F(cuGraphicsEGLRegisterImage, cuGraphicsEGLRegisterImage)                   \
  F(cuGraphicsResourceGetMappedEglFrame, cuGraphicsResourceGetMappedEglFrame) \
  F(cuGraphicsUnregisterResource, cuGraphicsUnregisterResource)

struct Driver {
#define GSTZC_CUDA_MEMBER(name, symbol) decltype(&::symbol) name = nullptr;
  GSTZC_CUDA_REQUIRED(GSTZC_CUDA_MEMBER)
  GSTZC_CUDA_OPTIONAL(GSTZC_CUDA_MEMBER)
#undef GSTZC_CUDA_MEMBER

  // The process's, loaded and initialised by the first caller; never unloaded. Errors, which stay: the library is not
  // there (ENOENT), it lacks a required function (which it names), cuInit refuses.
  static Result<const Driver *> get();
  // What get() does, with any library: for tests.
  static Result<Driver> load(const char *library);

  // Success, or an Error "cuMemAlloc of 3110400 bytes: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"; its code is the errno
  // that is nearest: ENOMEM, EINVAL, ENODEV, ENOSYS (not supported), EIO for the rest.
  Status check(CUresult result, const std::string &what) const;
  Error error(CUresult result, const std::string &what) const;
  // After such an answer a context, or the process, is good for nothing: all that was on the device is lost, host
  // functions are not called any more, and every further call says the same.
  static bool isFatal(CUresult result);

  int attribute(CUdevice device, CUdevice_attribute attribute) const; // 0 where the driver does not know it
};

} // namespace gstzc::cuda
