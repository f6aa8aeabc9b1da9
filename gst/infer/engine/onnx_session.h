// SPDX-License-Identifier: LGPL-2.1-or-later
// From a model's file and options to a session: threads, dimensions, which execution provider runs it. Only onnx_*.cpp
// include this.
#pragma once

#include <string>

#include "gst/infer/engine/engine.h"
#include "gst/infer/engine/onnx_engine.h"
#include "gst/infer/engine/onnx_runtime.h"

namespace gstzc::infer {

// Either a session with the name of its provider, or why there is none.
struct SessionResult {
  OrtPtr<OrtSession> session;
  std::string provider;   // "cpu"
  void *stream = nullptr; // that it runs on, of those that were given; null: one of its own, or none
  LoadError failure;
};

// auto: CUDA or MIGraphX where the library has them and they take the model, else the CPU. A named provider or none,
// unless a fallback to the CPU is allowed; then a warning is logged. A named accelerator that leaves parts of the model
// to the CPU is an error too, unless that is allowed.
//
// CUDA and TensorRT on the device of `stream` run on that stream, unless the provider's options name another.
SessionResult createSession(const OnnxRuntime &runtime, const std::string &path, const EngineOptions &options,
                            const DeviceStream &stream = {});

} // namespace gstzc::infer
