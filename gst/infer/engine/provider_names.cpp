// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/provider_names.h"

#include <algorithm>
#include <string_view>

namespace gstzc::infer {
namespace {

constexpr std::string_view kSuffix = "executionprovider";

// ASCII only, whatever the locale
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::string withoutSuffix(const std::string &name) {
  return lower(name).ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
}

// Providers whose three names are not the same but for capitals, or that are devices
// (onnxruntime/core/graph/constants.h and the message of SessionOptionsAppendExecutionProvider() in 1.23).
const std::vector<ProviderName> &knownProviders() {
  static const std::vector<ProviderName> known = {
      {"cpu", "CPUExecutionProvider", "CPU", false},
      {"cuda", "CUDAExecutionProvider", "CUDA", true},
      {"tensorrt", "TensorrtExecutionProvider", "TensorRT", true},
      {"nvtensorrtrtx", "NvTensorRTRTXExecutionProvider", "NvTensorRtRtx", true},
      {"migraphx", "MIGraphXExecutionProvider", "MIGraphX", true},
      {"webgpu", "WebGpuExecutionProvider", "WebGPU", true},
      {"qnn", "QNNExecutionProvider", "QNN", true},
      {"openvino", "OpenVINOExecutionProvider", "OpenVINO", false}, // runs on CPUs too: its device_type decides
      {"dnnl", "DnnlExecutionProvider", "Dnnl", false},
      {"xnnpack", "XnnpackExecutionProvider", "XNNPACK", false},
  };
  return known;
}

} // namespace

ProviderName providerNamed(const std::string &name) {
  const std::string base = withoutSuffix(name);
  for (const ProviderName &known : knownProviders())
    if (known.name == lower(base)) return known;
  return {lower(base), base + "ExecutionProvider", base, true};
}

bool sameProvider(const std::string &a, const std::string &b) { return providerNamed(a).name == providerNamed(b).name; }

std::string listProviders(const std::vector<std::string> &registered) {
  std::string text;
  for (const std::string &name : registered) text += (text.empty() ? "" : ", ") + providerNamed(name).name;
  return text;
}

} // namespace gstzc::infer
