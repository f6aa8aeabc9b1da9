// SPDX-License-Identifier: LGPL-2.1-or-later
// The ONNX Runtime library of this process: opened once at run time, with one environment for the life of the process.
// Only onnx_*.cpp include this.
#pragma once

#include <functional>
#include <string>

#include <onnxruntime_c_api.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

struct OnnxRuntime {
  const OrtApi *api = nullptr;
  OrtEnv *env = nullptr; // logs into GStreamer's debug category fenceinfer-onnx
  std::string version;   // "1.21.0"
  std::string library;   // the name it was opened by
  uint32_t api_version = 0;

  // The process's one. Order of the search: the file named by the environment variable GSTZC_ONNXRUNTIME and no other;
  // libonnxruntime.so.1; libonnxruntime.so; libonnxruntime.so.1.<n>, newest first. A failure is not remembered: the
  // library may be installed and tried again.
  static Result<const OnnxRuntime *> get();

  Error error(OrtStatus *status, const std::string &what) const; // takes the status; it must not be null
};

// Calls `create`, which creates a session and says whether it did. Debian's 1.21 writes over a thousand lines "Schema
// error" to the standard error stream of C++ when the first session of a process is created (its onnx library registers
// its operators twice); they go to the debug log instead. All else that is written there meanwhile, by any thread,
// comes through.
void quietFirstSession(const std::function<bool()> &create);

} // namespace gstzc::infer
