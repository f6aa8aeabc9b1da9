// SPDX-License-Identifier: LGPL-2.1-or-later
// The ONNX Runtime engine.
#pragma once

#include <memory>
#include <string>

#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

enum class LoadFailure {
  NoLibrary,
  NotFound,
  NoAccess,
  BadModel,
  NoProvider,   // the execution provider asked for cannot be had
  OtherOptions, // it is loaded already, with options other than these
};

struct LoadError {
  LoadFailure kind = LoadFailure::BadModel;
  Error error;
};

// Either an engine, or why there is none.
struct LoadResult {
  std::unique_ptr<Engine> engine;
  LoadError failure;
};

// Opens the library at its first call (see onnx_runtime.h) and creates a session with `path`, an ONNX file, on the
// provider of the options (see onnx_session.h), which uses `stream` if it is CUDA's or TensorRT's on the stream's
// device. Failures name the file and what to do. Safe in any thread.
LoadResult loadOnnxEngine(const std::string &path, const EngineOptions &options, const DeviceStream &stream = {});

} // namespace gstzc::infer
