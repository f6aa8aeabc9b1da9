// SPDX-License-Identifier: LGPL-2.1-or-later
// Names and texts of errors.
#include "tests/softcuda/internal.h"

#include <cstdlib>

using namespace softcuda;

namespace {

struct Text {
  CUresult error;
  const char *name, *text;
};
#define SOFTCUDA_TEXT(error, text) {error, #error, text}
const Text kTexts[] = {
    SOFTCUDA_TEXT(CUDA_SUCCESS, "no error"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    SOFTCUDA_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    SOFTCUDA_TEXT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    SOFTCUDA_TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    SOFTCUDA_TEXT(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    SOFTCUDA_TEXT(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    SOFTCUDA_TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_SOURCE, "device kernel source is invalid"),
    SOFTCUDA_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    SOFTCUDA_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    SOFTCUDA_TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    SOFTCUDA_TEXT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    SOFTCUDA_TEXT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    SOFTCUDA_TEXT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    SOFTCUDA_TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                  "part or all of the requested memory range is already mapped"),
    SOFTCUDA_TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    SOFTCUDA_TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    SOFTCUDA_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    SOFTCUDA_TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const Text *textOf(CUresult error) {
  for (const Text &text : kTexts)
    if (text.error == error) return &text;
  return nullptr;
}

} // namespace

CUresult softcuda::errorByName(const std::string &name) {
  for (const Text &text : kTexts)
    if (name == text.name) return text.error;
  const int number = atoi(name.c_str());
  return number > 0 ? CUresult(number) : CUDA_ERROR_UNKNOWN;
}

// Both are no calls of the device: they are neither counted nor made to fail.
SOFTCUDA_API cuGetErrorName(CUresult error, const char **name) {
  NEED(name);
  const Text *text = textOf(error);
  *name = text ? text->name : nullptr;
  return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_API cuGetErrorString(CUresult error, const char **string) {
  NEED(string);
  const Text *text = textOf(error);
  *string = text ? text->text : nullptr;
  return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
