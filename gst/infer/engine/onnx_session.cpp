// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_session.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include "gst/infer/engine/onnx_binding.h"
#include "gst/infer/engine/onnx_providers.h"
#include "gst/infer/engine/onnx_tensors.h"

namespace gstzc::infer {
namespace {

SessionResult failed(LoadFailure kind, Error error) { return {nullptr, "", nullptr, {kind, std::move(error)}}; }

std::string remedyForModel(const OnnxRuntime &runtime) {
  return "It has to be an ONNX model that ONNX Runtime " + runtime.version + " can run";
}

Result<OrtPtr<OrtSessionOptions>> sessionOptions(const OnnxRuntime &runtime, int threads) {
  const OrtApi &api = *runtime.api;
  OrtSessionOptions *raw = nullptr;
  if (auto *s = api.CreateSessionOptions(&raw)) return runtime.error(s, "creating session options");
  auto options = own(raw, api.ReleaseSessionOptions);
  // Spinning threads burn a core between frames of a paced stream and starve the other elements; a model file's own
  // parallelism is a matter of several runs at once.
  for (const char *const key : {"session.intra_op.allow_spinning", "session.inter_op.allow_spinning"})
    if (auto *s = api.AddSessionConfigEntry(raw, key, "0")) return runtime.error(s, std::string("option ") + key);
  if (auto *s = api.SetIntraOpNumThreads(raw, threads))
    return runtime.error(s, "setting " + std::to_string(threads) + " threads");
  if (auto *s = api.SetInterOpNumThreads(raw, 1)) return runtime.error(s, "setting threads");
  return options;
}

// The status of the creation is kept by the caller; null: `session` is there.
OrtStatus *create(const OnnxRuntime &runtime, const std::string &path, const OrtSessionOptions *options,
                  OrtPtr<OrtSession> &session) {
  OrtSession *raw = nullptr;
  quietFirstSession(runtime);
  OrtStatus *const status = runtime.api->CreateSession(runtime.env, path.c_str(), options, &raw);
  session = own(raw, runtime.api->ReleaseSession);
  return status;
}

// "loading the model /a/b.onnx: Protobuf parsing failed"; the library repeats the path
Error modelError(const OnnxRuntime &runtime, OrtStatus *status, const std::string &path, const std::string &provider) {
  Error error = runtime.error(status, "");
  std::string said = error.what.substr(std::string(": ").size());
  for (const std::string &repeated : {"Load model from " + path + " failed:", "Load model from " + path + " "})
    if (said.starts_with(repeated)) said.erase(0, repeated.size());
  const std::string with = provider == "cpu" ? "" : " for execution provider " + provider;
  if (said.find("bad_alloc") != std::string::npos)
    return {"loading the model " + path + with + ": there is not enough memory for its constants (" + said + ")",
            ENOMEM, "Export it with smaller tensors, or give the process more memory"};
  return {"loading the model " + path + with + ": " + said, 0, remedyForModel(runtime)};
}

// Whether the file is to blame, whatever runs it.
bool blamesModel(OrtErrorCode code) {
  return code == ORT_NO_SUCHFILE || code == ORT_NO_MODEL || code == ORT_INVALID_PROTOBUF || code == ORT_INVALID_GRAPH;
}

// Null where the provider does not run on it.
void *streamFor(const ProviderName &provider, const EngineOptions &options, const DeviceStream &stream) {
  const auto device = cudaDeviceOf(provider.name, options.provider_options);
  const bool own = std::any_of(options.provider_options.begin(), options.provider_options.end(),
                               [](const auto &option) { return option.first == "user_compute_stream"; });
  return device && *device == stream.device && !own ? stream.handle : nullptr;
}

// With one provider.
SessionResult attempt(const OnnxRuntime &runtime, const std::string &path, const EngineOptions &options,
                      const DeviceStream &stream, const ProviderName &provider, bool whole) {
  auto prepared = sessionOptions(runtime, options.intra_threads);
  if (!prepared) return failed(LoadFailure::BadModel, prepared.error());
  OrtSessionOptions *const raw = prepared->get();
  for (const auto &[name, size] : options.dimensions)
    if (auto *s = runtime.api->AddFreeDimensionOverrideByName(raw, name.c_str(), size))
      return failed(LoadFailure::BadModel, runtime.error(s, "fixing the dimension " + name));

  const bool cpu = provider.name == "cpu";
  void *const used = streamFor(provider, options, stream);
  if (!cpu)
    if (auto appended = appendProvider(runtime, raw, provider, options.provider_options, used); !appended)
      return failed(LoadFailure::NoProvider, appended.error());
  if (whole)
    if (auto *s = runtime.api->AddSessionConfigEntry(raw, "session.disable_cpu_ep_fallback", "1"))
      return failed(LoadFailure::NoProvider, runtime.error(s, "asking for no part on the CPU"));

  SessionResult result;
  OrtStatus *const status = create(runtime, path, raw, result.session);
  if (status == nullptr) {
    result.provider = provider.name;
    result.stream = used;
    return result;
  }
  const bool model = cpu || blamesModel(runtime.api->GetErrorCode(status));
  const bool partly =
      std::string(runtime.api->GetErrorMessage(status)).find("fallback to CPU EP has been") != std::string::npos;
  Error error = modelError(runtime, status, path, provider.name);
  if (!model && partly)
    error.what = "parts of the model " + path + " cannot run on execution provider " + provider.name;
  if (!model) error.remedy = "Set execution-provider=cpu or allow-cpu-fallback=true";
  return failed(model ? LoadFailure::BadModel : LoadFailure::NoProvider, std::move(error));
}

// The library would pass over names that the model does not have. They are in the file only: a dimension that was fixed
// has lost its name. So the file is loaded a first time, without the work of optimising it.
std::optional<LoadError> checkDimensions(const OnnxRuntime &runtime, const std::string &path,
                                         const std::map<std::string, int64_t> &dimensions) {
  for (const auto &[name, size] : dimensions)
    if (size <= 0)
      return LoadError{LoadFailure::BadModel,
                       {"dimension " + name + " of the model " + path + " cannot be fixed to " + std::to_string(size),
                        0, "Give a size from 1 on"}};
  auto prepared = sessionOptions(runtime, 1);
  if (!prepared) return LoadError{LoadFailure::BadModel, prepared.error()};
  if (auto *s = runtime.api->SetSessionGraphOptimizationLevel(prepared->get(), ORT_DISABLE_ALL))
    return LoadError{LoadFailure::BadModel, runtime.error(s, "preparing to read the model " + path)};
  OrtPtr<OrtSession> session;
  if (auto *s = create(runtime, path, prepared->get(), session))
    return LoadError{LoadFailure::BadModel, modelError(runtime, s, path, "cpu")};
  auto inputs = readTensors(runtime, session.get(), true);
  if (!inputs) return LoadError{LoadFailure::BadModel, inputs.error()};

  std::set<std::string> names;
  for (const TensorInfo &input : *inputs) names.insert(input.dim_names.begin(), input.dim_names.end());
  names.erase("");
  for (const auto &[name, size] : dimensions) {
    if (names.contains(name)) continue;
    std::string has;
    for (const std::string &known : names) has += (has.empty() ? "" : ", ") + known;
    return LoadError{LoadFailure::BadModel,
                     {"the model " + path + " has no open dimension " + name +
                          (has.empty() ? "; none of its inputs' dimensions has a name" : "; it has " + has),
                      0, "Name one of the model's, or fix none"}};
  }
  return {};
}

} // namespace

SessionResult createSession(const OnnxRuntime &runtime, const std::string &path, const EngineOptions &options,
                            const DeviceStream &stream) {
  if (!options.dimensions.empty())
    if (auto wrong = checkDimensions(runtime, path, options.dimensions))
      return {nullptr, "", nullptr, std::move(*wrong)};

  const ProviderName cpu = providerNamed("cpu"), asked = providerNamed(options.provider);
  const bool automatic = asked.name == "auto";
  if ((automatic || asked.name == "cpu") && !options.provider_options.empty())
    return failed(LoadFailure::NoProvider,
                  {"execution provider " + asked.name + " takes no options, " + options.provider_options.front().first +
                       "=" + options.provider_options.front().second + " was given",
                   0, "Set execution-provider to the one that the options are for"});
  const auto log = [](GstDebugLevel level, const LoadError &failure) {
    GST_CAT_LEVEL_LOG(onnxDebugCategory(), level, nullptr, "the model runs on the CPU: %s", failure.error.what.c_str());
  };

  if (automatic) {
    auto available = availableProviders(runtime);
    if (!available) return failed(LoadFailure::NoProvider, available.error());
    // TensorRT is not among them: it takes minutes for a model at first
    for (const char *const name : {"cuda", "migraphx"}) {
      if (std::none_of(available->begin(), available->end(), [&](const auto &has) { return sameProvider(has, name); }))
        continue;
      SessionResult tried = attempt(runtime, path, options, stream, providerNamed(name), false);
      if (tried.session != nullptr || tried.failure.kind == LoadFailure::BadModel) return tried;
      log(GST_LEVEL_INFO, tried.failure);
    }
    return attempt(runtime, path, options, {}, cpu, false);
  }

  SessionResult named =
      attempt(runtime, path, options, stream, asked, asked.accelerator && !options.allow_cpu_fallback);
  if (named.session != nullptr || named.failure.kind != LoadFailure::NoProvider || !options.allow_cpu_fallback)
    return named;
  log(GST_LEVEL_WARNING, named.failure);
  return attempt(runtime, path, options, {}, cpu, false);
}

} // namespace gstzc::infer
