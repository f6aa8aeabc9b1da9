// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_providers.h"

#include <algorithm>
#include <cstdint>

#if ORT_API_VERSION >= 22
#include <mutex>
#include <set>
#endif

namespace gstzc::infer {
namespace {

constexpr const char *kRemedy =
    "Name a library that has it (property onnxruntime-library or environment variable GSTZC_ONNXRUNTIME), or set "
    "execution-provider=cpu or allow-cpu-fallback=true";
constexpr uint32_t kPluginApi = 22; // the first with provider libraries

// Keys and values as the calls take them; valid for as long as the options are.
struct Pairs {
  explicit Pairs(const ProviderOptions &options) {
    for (const auto &[key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
  std::vector<const char *> keys, values;
};

bool has(const ProviderOptions &options, const std::string &wanted) {
  return std::any_of(options.begin(), options.end(), [&](const auto &option) { return option.first == wanted; });
}

std::string written(const ProviderOptions &options) {
  std::string text;
  for (const auto &[key, value] : options) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

// The providers that have calls of their own: four of one form.
template <typename T> struct OwnCalls {
  OrtStatus *(ORT_API_CALL *create)(T **);
  OrtStatus *(ORT_API_CALL *update)(T *, const char *const *, const char *const *, size_t);
  OrtStatus *(ORT_API_CALL *update_pointer)(T *, const char *, void *);
  OrtStatus *(ORT_API_CALL *append)(OrtSessionOptions *, const T *);
  void(ORT_API_CALL *release)(T *);
};

// `status` says why a provider was not added, `logged` what else was said meanwhile. Its own library is loaded for it
// late, even as late as for its options; else it is these that it does not take.
Error refusal(const OnnxRuntime &runtime, OrtStatus *status, const ProviderName &provider, const std::string &logged,
              const ProviderOptions &options) {
  Error error = runtime.error(status, "execution provider " + provider.name + " of " + runtime.describe());
  if (!logged.empty() && error.what.find(logged) == std::string::npos) error.what += ": " + logged;
  if (!options.empty() && error.what.find("Failed to load") == std::string::npos) {
    error.what += " (with the options " + written(options) + ")";
    error.remedy = "Correct provider-options";
  }
  return error;
}

template <typename T>
Status appendByOwnCalls(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderName &provider,
                        const ProviderOptions &options, void *stream, const OwnCalls<T> &calls) {
  const LoggedError logged;
  T *raw = nullptr;
  if (auto *s = calls.create(&raw)) return refusal(runtime, s, provider, logged.text(), {});
  const OrtPtr<T> made = own(raw, calls.release);
  const Pairs pairs(options);
  if (!options.empty())
    if (auto *s = calls.update(raw, pairs.keys.data(), pairs.values.data(), pairs.keys.size()))
      return refusal(runtime, s, provider, logged.text(), options);
  if (stream != nullptr)
    if (auto *s = calls.update_pointer(raw, "user_compute_stream", stream))
      return refusal(runtime, s, provider, logged.text(), {});
  if (auto *s = calls.append(session, raw)) return refusal(runtime, s, provider, logged.text(), {});
  return Nothing{};
}

Status appendCuda(const OnnxRuntime &runtime, OrtSessionOptions *session, ProviderOptions options, void *stream) {
  if (!has(options, "cudnn_conv_algo_search")) options.emplace_back("cudnn_conv_algo_search", "HEURISTIC");
  const OrtApi &api = *runtime.api;
  return appendByOwnCalls<OrtCUDAProviderOptionsV2>(
      runtime, session, providerNamed("cuda"), options, stream,
      {api.CreateCUDAProviderOptions, api.UpdateCUDAProviderOptions, api.UpdateCUDAProviderOptionsWithValue,
       api.SessionOptionsAppendExecutionProvider_CUDA_V2, api.ReleaseCUDAProviderOptions});
}

Status appendTensorRt(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderOptions &options,
                      void *stream) {
  const OrtApi &api = *runtime.api;
  auto appended = appendByOwnCalls<OrtTensorRTProviderOptionsV2>(
      runtime, session, providerNamed("tensorrt"), options, stream,
      {api.CreateTensorRTProviderOptions, api.UpdateTensorRTProviderOptions, api.UpdateTensorRTProviderOptionsWithValue,
       api.SessionOptionsAppendExecutionProvider_TensorRT_V2, api.ReleaseTensorRTProviderOptions});
  if (!appended) return appended;
  ProviderOptions same_device;
  for (const auto &option : options)
    if (option.first == "device_id") same_device.push_back(option);
  if (auto behind = appendCuda(runtime, session, same_device, stream); !behind)
    GST_CAT_LEVEL_LOG(onnxDebugCategory(), GST_LEVEL_INFO, nullptr, "no CUDA behind TensorRT: %s",
                      behind.error().what.c_str());
  return Nothing{};
}

// A provider that is part of the library, or that the library finds beside itself.
Status appendBuiltIn(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderName &provider,
                     const ProviderOptions &options, void *stream) {
  const OrtApi &api = *runtime.api;
  if (provider.name == "cuda") return appendCuda(runtime, session, options, stream);
  if (provider.name == "tensorrt") return appendTensorRt(runtime, session, options, stream);
  // run in another thread than the one that made the session it ends the process (seen with 1.21, by itself too)
  if (provider.name == "dnnl")
    return Error{"execution provider dnnl crashes in any thread but the one that loaded the model", 0,
                 "Use execution-provider=cpu, or allow-cpu-fallback=true"};
  const LoggedError logged;
  const Pairs pairs(options);
  if (auto *s = api.SessionOptionsAppendExecutionProvider(session, provider.appended.c_str(), pairs.keys.data(),
                                                          pairs.values.data(), pairs.keys.size()))
    return refusal(runtime, s, provider, logged.text(), options);
  return Nothing{};
}

#if ORT_API_VERSION >= 22

// Once for each library and file: a second registration is an error, and taking one back needs all sessions gone.
Status registerLibrary(const OnnxRuntime &runtime, const std::string &file) {
  static std::mutex mutex;
  static auto &registered = *new std::set<std::pair<const OnnxRuntime *, std::string>>;
  std::lock_guard lock(mutex);
  if (registered.contains({&runtime, file})) return Nothing{};
  const LoggedError logged;
  if (auto *s = runtime.api->RegisterExecutionProviderLibrary(runtime.env, file.c_str(), file.c_str())) {
    Error error = runtime.error(s, "loading the execution provider library " + file + " into " + runtime.describe());
    error.remedy = "Correct the option library of provider-options, or install what that library needs";
    return error;
  }
  registered.emplace(&runtime, file);
  return Nothing{};
}

// The devices of registered provider libraries (and of the library's own providers that list theirs). The first that
// the provider has is taken.
Status appendPlugin(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderName &provider,
                    const ProviderOptions &options, bool &found, std::vector<std::string> &offered) {
  const OrtEpDevice *const *devices = nullptr; // the environment's
  size_t count = 0;
  if (auto *s = runtime.api->GetEpDevices(runtime.env, &devices, &count))
    return runtime.error(s, "listing the devices of " + runtime.describe());
  const OrtEpDevice *chosen = nullptr;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = runtime.api->EpDevice_EpName(devices[i]);
    if (std::find(offered.begin(), offered.end(), name) == offered.end()) offered.push_back(name);
    if (chosen == nullptr && sameProvider(name, provider.name)) chosen = devices[i];
  }
  found = chosen != nullptr;
  if (!found) return Nothing{};
  const LoggedError logged;
  const Pairs pairs(options);
  if (auto *s = runtime.api->SessionOptionsAppendExecutionProvider_V2(
          session, runtime.env, &chosen, 1, pairs.keys.data(), pairs.values.data(), pairs.keys.size()))
    return refusal(runtime, s, provider, logged.text(), options);
  return Nothing{};
}

#endif

Status withRemedy(Status status) {
  if (status.ok() || !status.error().remedy.empty()) return status;
  Error error = status.error();
  error.remedy = "Install what it needs. " + std::string(kRemedy);
  return error;
}

} // namespace

Result<std::vector<std::string>> availableProviders(const OnnxRuntime &runtime) {
  char **names = nullptr;
  int count = 0;
  if (auto *s = runtime.api->GetAvailableProviders(&names, &count))
    return runtime.error(s, "listing the execution providers of " + runtime.describe());
  std::vector<std::string> providers(names, names + count);
  if (auto *s = runtime.api->ReleaseAvailableProviders(names, count)) runtime.api->ReleaseStatus(s);
  return providers;
}

Status appendProvider(const OnnxRuntime &runtime, OrtSessionOptions *session, const ProviderName &provider,
                      const ProviderOptions &options, void *stream) {
  ProviderOptions others;
  std::string file;
  for (const auto &option : options)
    if (option.first == "library")
      file = option.second;
    else
      others.push_back(option);

  auto available = availableProviders(runtime);
  if (!available) return available.error();
  const bool listed = std::any_of(available->begin(), available->end(),
                                  [&](const std::string &name) { return sameProvider(name, provider.name); });
  if (listed && file.empty()) return withRemedy(appendBuiltIn(runtime, session, provider, others, stream));

  std::vector<std::string> offered = available.take();
#if ORT_API_VERSION >= 22
  if (runtime.api_version >= kPluginApi) {
    if (!file.empty())
      if (auto registered = registerLibrary(runtime, file); !registered) return registered;
    bool found = false;
    std::vector<std::string> with_devices;
    ProviderOptions with_stream = others; // these take options as text only
    if (stream != nullptr)
      with_stream.emplace_back("user_compute_stream", std::to_string(reinterpret_cast<uintptr_t>(stream)));
    auto appended = appendPlugin(runtime, session, provider, with_stream, found, with_devices);
    if (!appended || found) return withRemedy(appended);
    if (!file.empty())
      return Error{"execution provider " + provider.name + " has no device with " + file + " and " +
                       runtime.describe() + ", but " + listProviders(with_devices),
                   0, "Name one of these, or a library that has it"};
    for (const std::string &name : with_devices)
      if (std::find(offered.begin(), offered.end(), name) == offered.end()) offered.push_back(name);
  }
#endif
  if (!file.empty())
    return Error{"execution provider " + provider.name + " cannot be loaded from " + file + ": " + runtime.describe() +
                     " is used by its API " + std::to_string(runtime.api_version) + ", provider libraries need " +
                     std::to_string(kPluginApi),
                 0, "Use ONNX Runtime 1.22 or newer, and build this plugin with its headers"};
  return Error{"execution provider " + provider.name + " is not in " + runtime.describe() + ", which has " +
                   listProviders(offered),
               0, kRemedy};
}

} // namespace gstzc::infer
