// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_binding.h"

#include <algorithm>
#include <charconv>

namespace gstzc::infer {

std::optional<int> cudaDeviceOf(const std::string &provider,
                                const std::vector<std::pair<std::string, std::string>> &options) {
  if (provider != "cuda" && provider != "tensorrt") return {};
  const auto given = std::find_if(options.begin(), options.end(), [](const auto &o) { return o.first == "device_id"; });
  if (given == options.end()) return 0;
  int ordinal = 0;
  const char *const begin = given->second.data(), *const end = begin + given->second.size();
  const auto read = std::from_chars(begin, end, ordinal);
  if (read.ec != std::errc() || read.ptr != end || ordinal < 0) return {};
  return ordinal;
}

OrtStatus *runBound(const OrtApi &api, OrtSession *session, const OrtRunOptions *options, const NamedValues &inputs,
                    std::span<const char *const> output_names, const OrtMemoryInfo *outputs_in,
                    std::span<OrtValue *> outputs, Returns when) {
  OrtIoBinding *raw = nullptr;
  if (auto *s = api.CreateIoBinding(session, &raw)) return s;
  const auto binding = own(raw, api.ReleaseIoBinding);
  for (size_t i = 0; i < inputs.names.size(); ++i)
    if (auto *s = api.BindInput(raw, inputs.names[i], inputs.values[i])) return s;
  for (const char *name : output_names)
    if (auto *s = api.BindOutputToDevice(raw, name, outputs_in)) return s;
  if (auto *s = api.RunWithBinding(session, options, raw)) return s;
  if (when == Returns::WhenDone)
    if (auto *s = api.SynchronizeBoundOutputs(raw)) return s;

  OrtAllocator *allocator = nullptr; // the library's own
  if (auto *s = api.GetAllocatorWithDefaultOptions(&allocator)) return s;
  OrtValue **values = nullptr;
  size_t count = 0;
  if (auto *s = api.GetBoundOutputValues(raw, allocator, &values, &count)) return s;
  for (size_t i = 0; i < count; ++i) { // as many as were bound
    if (i < outputs.size())
      outputs[i] = values[i];
    else
      api.ReleaseValue(values[i]);
  }
  return values != nullptr ? api.AllocatorFree(allocator, values) : nullptr;
}

} // namespace gstzc::infer
