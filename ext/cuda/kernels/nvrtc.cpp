// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/kernels/nvrtc.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include <dlfcn.h>

namespace gstzc::cuda {
namespace {

// The library's binary interface, as far as it is used: results are an enumeration of which 0 is success, a program is
// an opaque pointer.
using Program = struct OpaqueProgram *;
constexpr int kSuccess = 0;

// The newest first; the last one is a link of development packages.
constexpr const char *kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

constexpr const char *kRemedy =
    "Install NVIDIA's NVRTC library (libnvrtc), name it in GST_CUDA_NVRTC_LIBNAME, or use a "
    "build that has kernels for this device";

} // namespace

struct Nvrtc::Functions {
  void *library = nullptr, *builtins = nullptr;
  int (*version)(int *major, int *minor) = nullptr;
  const char *(*errorText)(int result) = nullptr;
  int (*create)(Program *program, const char *source, const char *name, int headers, const char *const *header_texts,
                const char *const *header_names) = nullptr;
  int (*destroy)(Program *program) = nullptr;
  int (*compile)(Program program, int options, const char *const *option_texts) = nullptr;
  int (*logSize)(Program program, size_t *size) = nullptr;
  int (*log)(Program program, char *log) = nullptr;
  int (*ptxSize)(Program program, size_t *size) = nullptr;
  int (*ptx)(Program program, char *ptx) = nullptr;
  int (*cubinSize)(Program program, size_t *size) = nullptr;
  int (*cubin)(Program program, char *cubin) = nullptr;
  int (*architectureCount)(int *count) = nullptr;
  int (*architectures)(int *list) = nullptr;

  ~Functions() {
    if (library != nullptr) dlclose(library);
    if (builtins != nullptr) dlclose(builtins);
  }
  // Empty, or the function that is missing.
  std::string find() {
    std::string missing;
    const auto look = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && missing.empty()) missing = name;
    };
    look(version, "nvrtcVersion");
    look(errorText, "nvrtcGetErrorString");
    look(create, "nvrtcCreateProgram");
    look(destroy, "nvrtcDestroyProgram");
    look(compile, "nvrtcCompileProgram");
    look(logSize, "nvrtcGetProgramLogSize");
    look(log, "nvrtcGetProgramLog");
    look(ptxSize, "nvrtcGetPTXSize");
    look(ptx, "nvrtcGetPTX");
    look(cubinSize, "nvrtcGetCUBINSize");
    look(cubin, "nvrtcGetCUBIN");
    look(architectureCount, "nvrtcGetNumSupportedArchs");
    look(architectures, "nvrtcGetSupportedArchs");
    return missing;
  }
};

Nvrtc::Nvrtc(std::unique_ptr<Functions> functions) : f_(std::move(functions)) {
  // It opens a second library by its bare name, which lies beside it but need not be on the loader's path. Of one that
  // is loaded already the loader knows the name.
  Dl_info info;
  int major = 0, minor = 0;
  if (f_->version(&major, &minor) != kSuccess || dladdr(reinterpret_cast<void *>(f_->version), &info) == 0) return;
  const std::string path = info.dli_fname, folder = path.substr(0, path.rfind('/') + 1);
  const std::string beside = folder + "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
  if (!folder.empty()) f_->builtins = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
}
Nvrtc::~Nvrtc() = default;

Result<std::unique_ptr<const Nvrtc>> Nvrtc::open(const std::string &library) {
  auto functions = std::make_unique<Functions>();
  functions->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) {
    const char *const why = dlerror();
    return Error{why != nullptr ? why : library, ENOENT, kRemedy};
  }
  if (const std::string missing = functions->find(); !missing.empty())
    return Error{library + " has no " + missing, ENOSYS, kRemedy};
  return std::unique_ptr<const Nvrtc>(new Nvrtc(std::move(functions)));
}

Result<const Nvrtc *> Nvrtc::get() {
  using Opened = Result<std::unique_ptr<const Nvrtc>>;
  static const Opened *const opened = new Opened([]() -> Opened {
    if (const char *const named = std::getenv("GST_CUDA_NVRTC_LIBNAME"); named != nullptr && *named != '\0')
      return open(named);
    std::string refused;
    for (const char *const name : kLibraries) {
      auto library = open(name);
      if (library) return library;
      refused += (refused.empty() ? "" : "; ") + library.error().what;
    }
    return Error{"no NVRTC: " + refused, ENOENT, kRemedy};
  }());
  if (!opened->ok()) return opened->error();
  return opened->value().get();
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  f_->version(&major, &minor);
  return "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
}

Error Nvrtc::error(int result, const std::string &what) const {
  const char *const text = f_->errorText(result);
  return Error{version() + ": " + what + ": " + (text != nullptr ? text : std::to_string(result)), EIO, kRemedy};
}

// Machine code where the library knows the device, else PTX of the highest below it, which the driver translates.
std::string Nvrtc::targetFor(int capability) const {
  int count = 0;
  if (f_->architectureCount(&count) != kSuccess || count <= 0) return "sm_" + std::to_string(capability);
  std::vector<int> known(static_cast<size_t>(count));
  if (f_->architectures(known.data()) != kSuccess) return "sm_" + std::to_string(capability);
  int below = 0;
  for (const int k : known)
    if (k <= capability) below = std::max(below, k);
  return (below == capability || below == 0 ? "sm_" + std::to_string(capability) : "compute_" + std::to_string(below));
}

Result<Nvrtc::Image> Nvrtc::compile(std::string_view source, const char *name, int capability) const {
  Image image;
  image.target = targetFor(capability);
  Program program = nullptr;
  if (const int result = f_->create(&program, source.data(), name, 0, nullptr, nullptr); result != kSuccess)
    return error(result, name);
  const auto destroy = [this](Program p) { f_->destroy(&p); };
  const std::unique_ptr<OpaqueProgram, decltype(destroy)> owner(program, destroy);

  const std::string architecture = "--gpu-architecture=" + image.target;
  // functions of the host are not allowed, and what has no mark is one unless it is told otherwise
  const std::array options = {architecture.c_str(), "--std=c++17", "--fmad=false",
                              "--device-as-default-execution-space"};
  if (const int result = f_->compile(program, static_cast<int>(options.size()), options.data()); result != kSuccess) {
    Error failed = error(result, std::string(name) + " for " + image.target);
    size_t size = 0;
    std::string log;
    if (f_->logSize(program, &size) == kSuccess) log.resize(size);
    if (size > 1 && f_->log(program, log.data()) == kSuccess) failed.what += ":\n" + std::string(log.c_str());
    return failed;
  }
  const bool machine_code = image.target.starts_with("sm_");
  size_t size = 0;
  if (const int result = (machine_code ? f_->cubinSize : f_->ptxSize)(program, &size); result != kSuccess)
    return error(result, "size of " + image.target);
  image.data.resize(size);
  if (const int result = (machine_code ? f_->cubin : f_->ptx)(program, image.data.data()); result != kSuccess)
    return error(result, "code for " + image.target);
  return image;
}

} // namespace gstzc::cuda
