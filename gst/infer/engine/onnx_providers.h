// SPDX-License-Identifier: LGPL-2.1-or-later
// Asks a library for its execution providers and adds them to a session to be. Only onnx_*.cpp include this.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gst/infer/engine/onnx_runtime.h"
#include "gst/infer/engine/provider_names.h"

namespace gstzc::infer {

using ProviderOptions = std::vector<std::pair<std::string, std::string>>;

// The names of the providers that the library was built with, the best first. They need not load.
Result<std::vector<std::string>> availableProviders(const OnnxRuntime &runtime);

// Adds the provider to the session's; it comes before the CPU's, which is always there. "library" among the options
// names the file that has the provider (plugin execution providers, ONNX Runtime 1.22 and newer); without it, the
// library's own and those of files registered before are looked through. CUDA's search for convolutions is HEURISTIC
// unless the options say otherwise: the library's default tries all at the first run, for seconds. Behind TensorRT
// comes CUDA, if it loads, for the operators that TensorRT does not have. `stream`: a CUDA stream that CUDA and
// TensorRT run on; null: theirs. Errors say what was asked, what there is, and what to do.
Status appendProvider(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderName &provider,
                      const ProviderOptions &options, void *stream = nullptr);

} // namespace gstzc::infer
