// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/driver/driver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <dlfcn.h>

namespace gstzc::cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

// Answers that the header leaves out because nothing of ours branches on them one by one.
enum : int {
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kLaunchTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kDriverMismatch = 803,
  kCompatNotSupported = 804,
};

int nearestErrno(CUresult result) {
  switch (static_cast<int>(result)) {
  case CUDA_ERROR_OUT_OF_MEMORY: return ENOMEM;
  case CUDA_ERROR_INVALID_VALUE:
  case CUDA_ERROR_INVALID_HANDLE:
  case CUDA_ERROR_INVALID_CONTEXT: return EINVAL;
  case CUDA_ERROR_NO_DEVICE:
  case CUDA_ERROR_INVALID_DEVICE: return ENODEV;
  case CUDA_ERROR_NOT_SUPPORTED: return ENOSYS;
  default: return EIO;
  }
}

std::string initRemedy(CUresult result) {
  switch (static_cast<int>(result)) {
  case CUDA_ERROR_NO_DEVICE:
    return "No NVIDIA GPU is visible to this process: see what nvidia-smi lists, and CUDA_VISIBLE_DEVICES";
  case kStubLibrary: return "The library is the toolkit's stub for linkers: take its folder out of LD_LIBRARY_PATH";
  case kDriverMismatch:
  case kCompatNotSupported:
    return "Library and kernel module are of different versions: restart the machine after a driver update";
  case CUDA_ERROR_UNKNOWN:
    return "The kernel module nvidia-uvm may not be loaded, or /dev/nvidia* may not be accessible";
  default: return "See whether nvidia-smi works";
  }
}

// dlopen() has one text for everything; that the library itself is not there is the usual case.
bool isAbsent(std::string_view text, const char *library) {
  return text.starts_with(library) && text.find("No such file or directory") != std::string_view::npos;
}

} // namespace

Result<Driver> Driver::load(const char *library) {
  // never closed: the driver has threads and handlers at exit of its own
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char *said = dlerror();
    const std::string text = said != nullptr ? said : "";
    const std::string remedy = "Install NVIDIA's driver; a container has to be started with the GPU (for example "
                               "--gpus all)";
    if (isAbsent(text, library)) return Error{"open the CUDA driver " + std::string(library), ENOENT, remedy};
    return Error{"open the CUDA driver " + text, ELIBACC, "Install NVIDIA's driver anew"};
  }
  Driver driver;
#define GSTZC_CUDA_LOOK_UP(name, symbol) driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, #symbol));
  GSTZC_CUDA_REQUIRED(GSTZC_CUDA_LOOK_UP)
  GSTZC_CUDA_OPTIONAL(GSTZC_CUDA_LOOK_UP)
#undef GSTZC_CUDA_LOOK_UP
  const char *missing = nullptr;
#define GSTZC_CUDA_DEMAND(name, symbol) \
  if (driver.name == nullptr && missing == nullptr) missing = #symbol;
  GSTZC_CUDA_REQUIRED(GSTZC_CUDA_DEMAND)
#undef GSTZC_CUDA_DEMAND
  if (missing != nullptr)
    return Error{"the CUDA driver " + std::string(library) + " has no function " + missing, ENOSYS,
                 "It is too old, or no driver at all: install a current one"};
  if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    Error error = driver.error(result, "cuInit of " + std::string(library));
    error.remedy = initRemedy(result);
    return error;
  }
  return driver;
}

Result<const Driver *> Driver::get() {
  static const Result<Driver> loaded = load(kLibrary);
  if (!loaded) return loaded.error();
  return &loaded.value();
}

Error Driver::error(CUresult result, const std::string &what) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
  Error error{what + ": ", nearestErrno(result), ""};
  if (text != nullptr) error.what += text;
  const std::string code = name != nullptr ? name : "CUDA error " + std::to_string(static_cast<int>(result));
  error.what += text != nullptr ? " (" + code + ")" : code;
  if (isFatal(result))
    error.remedy = "The device's work is lost; the pipeline, or the process, has to be started again";
  return error;
}

Status Driver::check(CUresult result, const std::string &what) const {
  if (result == CUDA_SUCCESS) return Nothing{};
  return error(result, what);
}

bool Driver::isFatal(CUresult result) {
  constexpr std::array<int, 14> fatal = {
      CUDA_ERROR_DEINITIALIZED,
      kDeviceUnavailable,
      kEccUncorrectable,
      kNvlinkUncorrectable,
      CUDA_ERROR_ILLEGAL_ADDRESS,
      kLaunchTimeout,
      CUDA_ERROR_CONTEXT_IS_DESTROYED,
      kAssert,
      kHardwareStackError,
      kIllegalInstruction,
      kMisalignedAddress,
      kInvalidAddressSpace,
      kInvalidPc,
      CUDA_ERROR_LAUNCH_FAILED,
  };
  return std::find(fatal.begin(), fatal.end(), static_cast<int>(result)) != fatal.end();
}

int Driver::attribute(CUdevice device, CUdevice_attribute attribute) const {
  int value = 0;
  return cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

} // namespace gstzc::cuda
