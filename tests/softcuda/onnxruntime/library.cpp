// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstring>
#include <string>

#include <dlfcn.h>

#include "tests/softcuda/onnxruntime/internal.h"
#include "tests/softcuda/onnxruntime/softonnxruntime.h"

namespace softort {
namespace {

constexpr char kCuda[] = "CUDAExecutionProvider";

const OrtApiBase *realBase() {
  static const OrtApiBase *const base = []() -> const OrtApiBase * {
    void *library = nullptr;
    for (int minor = ORT_API_VERSION; minor >= 17 && library == nullptr; --minor)
      library = dlopen(("libonnxruntime.so.1." + std::to_string(minor)).c_str(), RTLD_NOW);
    if (library == nullptr) library = dlopen("libonnxruntime.so.1", RTLD_NOW);
    if (library == nullptr) return nullptr;
    const auto get = reinterpret_cast<const OrtApiBase *(*)()>(dlsym(library, "OrtGetApiBase"));
    return get != nullptr ? get() : nullptr;
  }();
  return base;
}

OrtStatus *set(OrtCUDAProviderOptionsV2 *options, const char *key, const char *value) {
  if (std::strcmp(key, "device_id") == 0)
    options->device = std::stoi(value);
  else if (std::strcmp(key, "cudnn_conv_algo_search") != 0)
    return failed(std::string("no option ") + key);
  return nullptr;
}

void replaceProvider(OrtApi &api) {
  api.GetAvailableProviders = [](char ***out, int *count) NO_EXCEPTION -> OrtStatus * {
    *out = new char *[2]{strdup(kCuda), strdup("CPUExecutionProvider")};
    *count = 2;
    return nullptr;
  };
  api.ReleaseAvailableProviders = [](char **names, int count) NO_EXCEPTION -> OrtStatus * {
    for (int i = 0; i < count; ++i) std::free(names[i]);
    delete[] names;
    return nullptr;
  };
  api.CreateCUDAProviderOptions = [](OrtCUDAProviderOptionsV2 **out) NO_EXCEPTION -> OrtStatus * {
    *out = new OrtCUDAProviderOptionsV2;
    return nullptr;
  };
  api.ReleaseCUDAProviderOptions = [](OrtCUDAProviderOptionsV2 *options) NO_EXCEPTION { delete options; };
  api.UpdateCUDAProviderOptions = [](OrtCUDAProviderOptionsV2 *options, const char *const *keys,
                                     const char *const *values, size_t count) NO_EXCEPTION -> OrtStatus * {
    for (size_t i = 0; i < count; ++i)
      if (OrtStatus *s = set(options, keys[i], values[i])) return s;
    return nullptr;
  };
  api.UpdateCUDAProviderOptionsWithValue = [](OrtCUDAProviderOptionsV2 *options, const char *key, void *value)
                                               NO_EXCEPTION -> OrtStatus * {
    if (std::strcmp(key, "user_compute_stream") != 0) return failed(std::string("no option ") + key);
    options->stream = value;
    return nullptr;
  };
  api.SessionOptionsAppendExecutionProvider_CUDA_V2 =
      [](OrtSessionOptions *session, const OrtCUDAProviderOptionsV2 *options) NO_EXCEPTION -> OrtStatus * {
    const std::lock_guard lock(state().mutex);
    state().options[session] = *options;
    return nullptr;
  };
}

void replaceSessions(OrtApi &api) {
  api.ReleaseSessionOptions = [](OrtSessionOptions *options) NO_EXCEPTION {
    {
      const std::lock_guard lock(state().mutex);
      state().options.erase(options);
    }
    state().real->ReleaseSessionOptions(options);
  };
  api.AddSessionConfigEntry = [](OrtSessionOptions *options, const char *key, const char *value)
                                  NO_EXCEPTION -> OrtStatus * {
    if (std::strcmp(key, "session.disable_cpu_ep_fallback") == 0) return nullptr; // it all runs on the CPU
    return state().real->AddSessionConfigEntry(options, key, value);
  };
  api.CreateSession = [](const OrtEnv *env, const ORTCHAR_T *path, const OrtSessionOptions *options, OrtSession **out)
                          NO_EXCEPTION -> OrtStatus * {
    std::shared_ptr<Device> device;
    bool on_cuda = false;
    OrtCUDAProviderOptionsV2 cuda;
    {
      const std::lock_guard lock(state().mutex);
      if (const auto found = state().options.find(options); found != state().options.end()) {
        on_cuda = true;
        cuda = found->second;
      }
    }
    if (on_cuda) {
      device = Device::open(cuda.device, cuda.stream);
      if (device == nullptr) return failed("CUDA device " + std::to_string(cuda.device) + " cannot be used");
    }
    if (OrtStatus *s = state().real->CreateSession(env, path, options, out)) return s;
    if (device == nullptr) return nullptr;
    const std::lock_guard lock(state().mutex);
    state().sessions[*out] = std::move(device);
    return nullptr;
  };
  api.ReleaseSession = [](OrtSession *session) NO_EXCEPTION {
    std::shared_ptr<Device> device;
    {
      const std::lock_guard lock(state().mutex);
      if (const auto found = state().sessions.find(session); found != state().sessions.end()) {
        device = std::move(found->second);
        state().sessions.erase(found);
      }
    }
    if (device != nullptr && device->pending > 0) misuse("a session is released while its run is on the stream");
    state().real->ReleaseSession(session);
  };
}

void replaceRuns(OrtApi &api) {
  api.AddRunConfigEntry = [](OrtRunOptions *options, const char *key, const char *value) NO_EXCEPTION -> OrtStatus * {
    if (std::strcmp(key, "disable_synchronize_execution_providers") == 0 && std::strcmp(value, "1") == 0) {
      const std::lock_guard lock(state().mutex);
      state().dont_wait[options] = true;
    }
    return state().real->AddRunConfigEntry(options, key, value);
  };
  api.ReleaseRunOptions = [](OrtRunOptions *options) NO_EXCEPTION {
    {
      const std::lock_guard lock(state().mutex);
      state().dont_wait.erase(options);
    }
    state().real->ReleaseRunOptions(options);
  };
  api.ReleaseValue = [](OrtValue *value) NO_EXCEPTION {
    State::Output output{};
    {
      const std::lock_guard lock(state().mutex);
      if (const auto found = state().outputs.find(value); found != state().outputs.end()) {
        output = std::move(found->second);
        state().outputs.erase(found);
      }
    }
    if (output.device != nullptr) output.device->giveBack(output.pointer, output.bytes);
    state().real->ReleaseValue(value);
  };
}

const OrtApi *ORT_API_CALL getApi(uint32_t version) NO_EXCEPTION {
  static const OrtApi *const ours = []() -> const OrtApi * {
    const OrtApi *real = realBase()->GetApi(ORT_API_VERSION);
    if (real == nullptr) return nullptr;
    state().real = real;
    auto *api = new OrtApi(*real);
    replaceProvider(*api);
    replaceSessions(*api);
    replaceRuns(*api);
    replaceBindings(*api);
    return api;
  }();
  return version <= ORT_API_VERSION ? ours : nullptr;
}

} // namespace
} // namespace softort

#define SOFTORT_EXPORT extern "C" __attribute__((visibility("default")))

SOFTORT_EXPORT const OrtApiBase *OrtGetApiBase() NO_EXCEPTION {
  if (softort::realBase() == nullptr) return nullptr;
  static const OrtApiBase base = {softort::getApi, softort::realBase()->GetVersionString};
  return &base;
}

SOFTORT_EXPORT struct softort_counters softort_count() {
  auto &state = softort::state();
  const std::lock_guard lock(state.mutex);
  return {state.enqueued, state.waited, state.on_stream, state.misuses, state.outputs.size()};
}

SOFTORT_EXPORT void softort_reset() {
  auto &state = softort::state();
  state.enqueued = state.waited = state.on_stream = state.misuses = 0;
  state.fail_run = 0;
}

SOFTORT_EXPORT void softort_fail_run(unsigned nth) { softort::state().fail_run = nth; }
