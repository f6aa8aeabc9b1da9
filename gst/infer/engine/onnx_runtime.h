// SPDX-License-Identifier: LGPL-2.1-or-later
// The ONNX Runtime libraries of this process: each opened once at run time, with one environment for the life of the
// process. Several versions work side by side. Only onnx_*.cpp include this.
#pragma once

#include <memory>
#include <string>

#include <gst/gst.h>
#include <onnxruntime_c_api.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

struct OnnxRuntime {
  const OrtApi *api = nullptr;
  OrtEnv *env = nullptr; // logs into onnxDebugCategory()
  std::string version;   // "1.21.0"
  std::string library;   // the name it was opened by
  uint32_t api_version = 0;

  // The one of `library`, a file's path or a name for the loader, and no other. If empty, the process's own. Order of
  // its search: the file named by the environment variable GSTZC_ONNXRUNTIME and no other; libonnxruntime.so.1;
  // libonnxruntime.so; libonnxruntime.so.1.<n>, newest first. A failure is not remembered: the library may be installed
  // and tried again. Safe in any thread.
  static Result<const OnnxRuntime *> get(const std::string &library = {});

  std::string describe() const { return "ONNX Runtime " + version + " (" + library + ")"; }

  // Takes the status, which must not be null; the library's words are shortened (onnx_text.h).
  Error error(OrtStatus *status, const std::string &what) const;
};

// fenceinfer-onnx: what the libraries log and what is said of them
GstDebugCategory *onnxDebugCategory();

// While it lives: the last error that a library logs in this thread. What the loader said of a provider's library is
// there, not in the status of the call.
class LoggedError {
public:
  LoggedError();
  ~LoggedError();
  LoggedError(const LoggedError &) = delete;
  LoggedError &operator=(const LoggedError &) = delete;
  const std::string &text() const { return text_; } // shortened; empty if there was none

private:
  std::string text_;
  std::string *const before_;
};

// Before a session is created. Debian's 1.21 writes over a thousand lines "Schema error" to the standard error stream
// of C++ when the first model with operators is loaded (its onnx library registers them twice). So one is loaded here,
// the first time; those lines go to the debug log instead. All else that is written there meanwhile, by any thread,
// comes through.
void quietFirstSession(const OnnxRuntime &runtime);

// An object of the library that goes with its owner.
template <typename T> struct OrtReleaser {
  void (*release)(T *) = nullptr;
  void operator()(T *item) const { release(item); }
};
template <typename T> using OrtPtr = std::unique_ptr<T, OrtReleaser<T>>;
template <typename T> OrtPtr<T> own(T *item, void (*release)(T *)) { return OrtPtr<T>(item, {release}); }

} // namespace gstzc::infer
