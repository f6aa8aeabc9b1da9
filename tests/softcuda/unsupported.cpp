// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions that libgstcuda insists on or that complete one of its groups, and that no test needs. Weak: one that is
// written elsewhere takes the place of its line here. <cuda.h> is left out for the sake of their parameters.
#include <cstdio>

#define SOFTCUDA_UNSUPPORTED(name)                                     \
  extern "C" __attribute__((visibility("default"), weak)) int name() { \
    fprintf(stderr, "softcuda: %s is not supported\n", #name);         \
    return 801; /* CUDA_ERROR_NOT_SUPPORTED */                         \
  }

SOFTCUDA_UNSUPPORTED(cuGLGetDevices_v2)
SOFTCUDA_UNSUPPORTED(cuGraphicsGLRegisterBuffer)
SOFTCUDA_UNSUPPORTED(cuGraphicsGLRegisterImage)
SOFTCUDA_UNSUPPORTED(cuGraphicsMapResources)
SOFTCUDA_UNSUPPORTED(cuGraphicsResourceGetMappedPointer_v2)
SOFTCUDA_UNSUPPORTED(cuGraphicsResourceSetMapFlags_v2)
SOFTCUDA_UNSUPPORTED(cuGraphicsSubResourceGetMappedArray)
SOFTCUDA_UNSUPPORTED(cuGraphicsUnmapResources)
SOFTCUDA_UNSUPPORTED(cuGraphicsUnregisterResource)

SOFTCUDA_UNSUPPORTED(cuIpcCloseMemHandle)
SOFTCUDA_UNSUPPORTED(cuIpcGetEventHandle)
SOFTCUDA_UNSUPPORTED(cuIpcGetMemHandle)
SOFTCUDA_UNSUPPORTED(cuIpcOpenEventHandle)
SOFTCUDA_UNSUPPORTED(cuIpcOpenMemHandle)
SOFTCUDA_UNSUPPORTED(cuIpcOpenMemHandle_v2)

SOFTCUDA_UNSUPPORTED(cuDestroyExternalMemory)
SOFTCUDA_UNSUPPORTED(cuDestroyExternalSemaphore)
SOFTCUDA_UNSUPPORTED(cuExternalMemoryGetMappedBuffer)
SOFTCUDA_UNSUPPORTED(cuExternalMemoryGetMappedMipmappedArray)
SOFTCUDA_UNSUPPORTED(cuImportExternalMemory)
SOFTCUDA_UNSUPPORTED(cuImportExternalSemaphore)
SOFTCUDA_UNSUPPORTED(cuSignalExternalSemaphoresAsync)
SOFTCUDA_UNSUPPORTED(cuWaitExternalSemaphoresAsync)

SOFTCUDA_UNSUPPORTED(cuMemHostRegister_v2)
SOFTCUDA_UNSUPPORTED(cuMemHostUnregister)

SOFTCUDA_UNSUPPORTED(cuMemAddressFree)
SOFTCUDA_UNSUPPORTED(cuMemAddressReserve)
SOFTCUDA_UNSUPPORTED(cuMemCreate)
SOFTCUDA_UNSUPPORTED(cuMemExportToShareableHandle)
SOFTCUDA_UNSUPPORTED(cuMemGetAccess)
SOFTCUDA_UNSUPPORTED(cuMemGetAllocationGranularity)
SOFTCUDA_UNSUPPORTED(cuMemGetAllocationPropertiesFromHandle)
SOFTCUDA_UNSUPPORTED(cuMemGetHandleForAddressRange)
SOFTCUDA_UNSUPPORTED(cuMemImportFromShareableHandle)
SOFTCUDA_UNSUPPORTED(cuMemMap)
SOFTCUDA_UNSUPPORTED(cuMemRelease)
SOFTCUDA_UNSUPPORTED(cuMemRetainAllocationHandle)
SOFTCUDA_UNSUPPORTED(cuMemSetAccess)
SOFTCUDA_UNSUPPORTED(cuMemUnmap)
