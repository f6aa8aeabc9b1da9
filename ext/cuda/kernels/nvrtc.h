// SPDX-License-Identifier: LGPL-2.1-or-later
// NVIDIA's compiler as a library, looked up at run time: for devices that the build did not compile for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// Thread-safe.
class Nvrtc {
public:
  // The process's: the library that GST_CUDA_NVRTC_LIBNAME names, which gst-cuda obeys, too, else the newest one that
  // is known. Never unloaded. Error, which stays: none can be loaded (ENOENT), or it lacks a function, which it names.
  static Result<const Nvrtc *> get();
  static Result<std::unique_ptr<const Nvrtc>> open(const std::string &library);

  struct Image {
    std::string data;   // for cuModuleLoadData
    std::string target; // "sm_87", or "compute_90" where the library does not know the device yet
  };
  // `source`, zero-terminated, for devices of compute capability `capability` (major * 10 + minor). Error: the
  // compiler's own words.
  Result<Image> compile(std::string_view source, const char *name, int capability) const;

  std::string version() const; // "NVRTC 13.0"
  ~Nvrtc();

private:
  struct Functions;
  explicit Nvrtc(std::unique_ptr<Functions> functions);
  std::string targetFor(int capability) const;
  Error error(int result, const std::string &what) const;
  const std::unique_ptr<Functions> f_;
};

} // namespace gstzc::cuda
