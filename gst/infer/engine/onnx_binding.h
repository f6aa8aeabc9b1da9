// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs whose inputs lie in the memory of a CUDA device. Only onnx_*.cpp include this.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gst/infer/engine/onnx_runtime.h"

namespace gstzc::infer {

// The ordinal of the CUDA device whose memory a session on this provider takes as its inputs; nothing: only the host's.
std::optional<int> cudaDeviceOf(const std::string &provider,
                                const std::vector<std::pair<std::string, std::string>> &options);

// Tensors by name; the names are the model's.
struct NamedValues {
  std::span<const char *const> names;
  std::span<OrtValue *const> values;
};

enum class Returns { WhenDone, WhenEnqueued };

// As OrtApi::Run(), with inputs in whatever memory their values say, and outputs in `outputs_in`; they are the caller's
// then. What has failed is the caller's, too. WhenEnqueued is for sessions on a stream that is known, and for options
// with kDontWait: the work is on that stream.
OrtStatus *runBound(const OrtApi &api, OrtSession *session, const OrtRunOptions *options, const NamedValues &inputs,
                    std::span<const char *const> output_names, const OrtMemoryInfo *outputs_in,
                    std::span<OrtValue *> outputs, Returns when = Returns::WhenDone);
constexpr char kDontWait[] = "disable_synchronize_execution_providers"; // of run options, "1"

} // namespace gstzc::infer
