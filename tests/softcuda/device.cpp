// SPDX-License-Identifier: LGPL-2.1-or-later
// The library's start, and its devices.
#include "tests/softcuda/internal.h"

#include <cstdio>
#include <cstring>

using namespace softcuda;

namespace {

bool isDevice(CUdevice device) { return device >= 0 && device < deviceCount(); }

int attributeOf(CUdevice_attribute attribute, CUdevice device) {
  const Profile &p = profile();
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return p.major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return p.minor;
  case CU_DEVICE_ATTRIBUTE_INTEGRATED: return p.integrated;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: return 1024;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 8;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return 1;
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: return p.host_address_when_registered;
  case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: return p.read_only_registration;
  case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: return p.opaque_semaphores;
  case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: return p.export_device_dmabuf;
  case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED: return p.export_host_dmabuf;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return device + 1;
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
  case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: return 0;
  }
  return 0;
}

constexpr int kLastAttribute = 200;

} // namespace

SOFTCUDA_API cuInit(unsigned flags) {
  ENTER(kNoContext | kBeforeInit);
  NEED(flags == 0);
  if (deviceCount() == 0) return CUDA_ERROR_NO_DEVICE;
  Lock lock(state().lock);
  state().initialised = true;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDriverGetVersion(int *version) {
  ENTER(kNoContext | kBeforeInit);
  NEED(version);
  *version = environmentNumber("SOFTCUDA_DRIVER_VERSION", CUDA_VERSION);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetCount(int *count) {
  ENTER(kNoContext);
  NEED(count);
  *count = deviceCount();
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER(kNoContext);
  NEED(device);
  if (!isDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER(kNoContext);
  NEED(name && length > 0);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, size_t(length), "%s", profile().name);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ENTER(kNoContext);
  NEED(value && attribute > 0 && attribute < kLastAttribute);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attributeOf(attribute, device);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER(kNoContext);
  NEED(uuid);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  memcpy(uuid->bytes, "softcuda-device", sizeof uuid->bytes);
  uuid->bytes[sizeof uuid->bytes - 1] = char(device);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  ENTER(kNoContext);
  NEED(id && length > 0);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, size_t(length), "0000:%02X:00.0", unsigned(device) + 1);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
  ENTER(kNoContext);
  NEED(device && id);
  unsigned domain, bus, slot;
  if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3 || domain != 0 || slot != 0 || !isDevice(int(bus) - 1))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = int(bus) - 1;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  ENTER(kNoContext);
  NEED(can);
  if (!isDevice(device) || !isDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = peersCanAccess(device, peer);
  return CUDA_SUCCESS;
}
