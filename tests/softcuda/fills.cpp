// SPDX-License-Identifier: LGPL-2.1-or-later
// The memset family. None of them waits, also those without a stream: so it is with memory of a device.
#include "tests/softcuda/internal.h"

#include <algorithm>

using namespace softcuda;

namespace {

template <typename T>
CUresult fill(const char *function, CUdeviceptr pointer, size_t pitch, T value, size_t width, size_t height,
              CUstream stream) {
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  NEED(pointer % sizeof(T) == 0 && (height == 1 || (pitch >= width * sizeof(T) && pitch % sizeof(T) == 0)));
  AllocationPtr memory;
  char *host;
  TRY(resolve(context.get(), pointer, (height - 1) * pitch + width * sizeof(T), &memory, &host, true));
  const auto run = [=] {
    for (size_t y = 0; y < height; ++y) std::fill_n(reinterpret_cast<T *>(host + y * pitch), width, value);
    return CUDA_SUCCESS;
  };
  return submit(stream, {function, run, {memory}, {}});
}

} // namespace

#define SOFTCUDA_FILLS(bits, T)                                                                             \
  SOFTCUDA_API cuMemsetD##bits##_v2(CUdeviceptr to, T value, size_t count) {                                \
    ENTER();                                                                                                \
    return fill<T>(__func__, to, 0, value, count, 1, nullptr);                                              \
  }                                                                                                         \
  SOFTCUDA_API cuMemsetD##bits##Async(CUdeviceptr to, T value, size_t count, CUstream stream) {             \
    ENTER();                                                                                                \
    return fill<T>(__func__, to, 0, value, count, 1, stream);                                               \
  }                                                                                                         \
  SOFTCUDA_API cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height) { \
    ENTER();                                                                                                \
    return fill<T>(__func__, to, pitch, value, width, height, nullptr);                                     \
  }                                                                                                         \
  SOFTCUDA_API cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, T value, size_t width, size_t height, \
                                        CUstream stream) {                                                  \
    ENTER();                                                                                                \
    return fill<T>(__func__, to, pitch, value, width, height, stream);                                      \
  }
SOFTCUDA_FILLS(8, unsigned char)
SOFTCUDA_FILLS(16, unsigned short)
SOFTCUDA_FILLS(32, unsigned int)
