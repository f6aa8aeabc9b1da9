// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_engine.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gstzc-config.h"

#if GSTZC_HAVE_ONNXRUNTIME
#include "gst/infer/engine/onnx_binding.h"
#include "gst/infer/engine/onnx_session.h"
#include "gst/infer/engine/onnx_tensors.h"
#endif

namespace gstzc::infer {
namespace {

// What the library would say of these is "File doesn't exist" or "Protobuf parsing failed".
LoadResult checkFile(const std::string &path) {
  const auto failure = [](LoadFailure kind, Error error) { return LoadResult{nullptr, {kind, std::move(error)}}; };
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a FIFO must not block here
  if (!fd.isValid()) {
    const int code = errno;
    return failure(code == ENOENT || code == ENOTDIR ? LoadFailure::NotFound : LoadFailure::NoAccess,
                   {"model file " + path, code, "Set model-file to a readable ONNX file"});
  }
  struct stat st = {};
  if (fstat(fd.get(), &st) != 0)
    return failure(LoadFailure::NoAccess, {"model file " + path, errno, "Set model-file to a readable ONNX file"});
  if (S_ISDIR(st.st_mode))
    return failure(LoadFailure::NotFound, {"model file " + path + " is a directory", 0, "Name the .onnx file in it"});
  if (!S_ISREG(st.st_mode))
    return failure(LoadFailure::NotFound, {"model file " + path + " is no regular file", 0, "Name an ONNX file"});
  if (st.st_size == 0)
    return failure(LoadFailure::BadModel,
                   {"model file " + path + " is empty", 0, "It may be an interrupted download: fetch it again"});
  return {};
}

#if GSTZC_HAVE_ONNXRUNTIME

class OnnxEngine : public Engine {
public:
  OnnxEngine(const OnnxRuntime &runtime, std::string path, SessionResult made, const EngineOptions &options,
             const DeviceStream &stream)
      : rt_(runtime), path_(std::move(path)), stream_owner_(made.stream != nullptr ? stream.owner : nullptr),
        session_(std::move(made.session)), stream_(made.stream), provider_(std::move(made.provider)),
        cuda_device_(cudaDeviceOf(provider_, options.provider_options)) {}

  // What the session tells of the model.
  Status read() {
    OrtMemoryInfo *host = nullptr;
    if (auto *s = rt_.api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &host))
      return rt_.error(s, "describing host memory");
    host_ = own(host, rt_.api->ReleaseMemoryInfo);
    if (cuda_device_) {
      OrtMemoryInfo *cuda = nullptr;
      if (auto *s = rt_.api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, *cuda_device_, OrtMemTypeDefault, &cuda))
        return rt_.error(s, "describing memory of CUDA device " + std::to_string(*cuda_device_));
      cuda_ = own(cuda, rt_.api->ReleaseMemoryInfo);
    }
    auto inputs = readTensors(rt_, session_.get(), true);
    if (!inputs) return inputs.error();
    auto outputs = readTensors(rt_, session_.get(), false);
    if (!outputs) return outputs.error();
    auto metadata = readMetadata(rt_, session_.get());
    if (!metadata) return metadata.error();
    inputs_ = inputs.take();
    outputs_ = outputs.take();
    metadata_ = metadata.take();
    for (const TensorInfo &info : inputs_) input_names_.push_back(info.name.c_str());
    for (const TensorInfo &info : outputs_) output_names_.push_back(info.name.c_str());
    return Nothing{};
  }

  std::string name() const override { return "ONNX Runtime " + rt_.version; }
  std::string provider() const override { return provider_; }
  std::optional<int> cudaDevice() const override { return cuda_device_; }
  std::map<std::string, std::string> metadata() const override { return metadata_; }
  const std::vector<TensorInfo> &inputs() const override { return inputs_; }
  const std::vector<TensorInfo> &outputs() const override { return outputs_; }

  Result<Outputs> run(std::span<const TensorView> inputs, Cancellation &cancel) override {
    auto fed = wrap(inputs);
    if (!fed) return fed.error();
    auto values = std::make_shared<Values>(rt_.api, outputs_.size());
    const bool on_device = std::any_of(inputs.begin(), inputs.end(),
                                       [](const TensorView &view) { return view.space == MemorySpace::Device; });
    if (auto ran = runOn(**fed, on_device, *values, cancel); !ran) {
      Error error = withInputs(ran.error(), inputs);
      if (cancel.cancelled()) error.code = ECANCELED;
      return error;
    }
    return outputsOf(std::move(values));
  }

  void *stream() const override { return stream_; }

  Result<Outputs> enqueue(std::span<const TensorView> inputs) override {
    if (stream_ == nullptr) return Engine::enqueue(inputs);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].space != MemorySpace::Device)
        return Error{"input " + std::to_string(i) + " of a run on the device's stream of the model " + path_ +
                         " is in host memory",
                     EINVAL, ""};
    auto fed = wrap(inputs);
    if (!fed) return fed.error();
    auto values = std::make_shared<Values>(rt_.api, outputs_.size());
    if (auto enqueued = enqueueOn(**fed, *values); !enqueued) return withInputs(enqueued.error(), inputs);
    auto outputs = outputsOf(std::move(values));
    if (!outputs) return outputs;
    outputs->on_stream = true;
    for (TensorView &view : outputs->tensors) view.space = MemorySpace::Device; // as they were bound
    return outputs;
  }

private:
  // OrtValues of one run, released together
  struct Values {
    Values(const OrtApi *a, size_t n) : api(a), items(n, nullptr) {}
    ~Values() {
      for (OrtValue *item : items)
        if (item != nullptr) api->ReleaseValue(item);
    }
    Values(const Values &) = delete;
    Values &operator=(const Values &) = delete;
    const OrtApi *api;
    std::vector<OrtValue *> items;
  };

  static std::string given(const TensorView &view) { return describeTensor(view.type, view.dims); }

  // The library says no file, and of a type that does not fit not which input.
  Status check(const TensorInfo &info, const TensorView &view) const {
    const auto refused = [&](const std::string &why) {
      return Error{"input " + info.describe() + " of the model " + path_ + " was given " + why, 0, ""};
    };
    if (view.space != MemorySpace::Host && !cuda_device_)
      return refused(given(view) + " in device memory, which " + provider_ + " does not read here");
    bool fits = view.type == info.type && view.type != TensorType::Other && view.dims.size() == info.dims.size();
    for (size_t i = 0; fits && i < info.dims.size(); ++i) fits = info.dims[i] < 0 || info.dims[i] == view.dims[i];
    const auto bytes = tensorBytes(view.type, view.dims);
    if (!fits || !bytes) return refused(given(view));
    if (view.bytes < *bytes || (view.data == nullptr && *bytes > 0))
      return refused(given(view) + " with " + std::to_string(view.data == nullptr ? 0 : view.bytes) +
                     " bytes instead of " + std::to_string(*bytes));
    return Nothing{};
  }

  Result<std::unique_ptr<Values>> wrap(std::span<const TensorView> inputs) const {
    if (inputs.size() != inputs_.size())
      return Error{"the model " + path_ + " has " + std::to_string(inputs_.size()) + " inputs, " +
                       std::to_string(inputs.size()) + " were given",
                   0, ""};
    auto fed = std::make_unique<Values>(rt_.api, inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (auto fits = check(inputs_[i], inputs[i]); !fits) return fits.error();
      const TensorView &view = inputs[i];
      const OrtMemoryInfo *place = view.space == MemorySpace::Device ? cuda_.get() : host_.get();
      if (auto *s = rt_.api->CreateTensorWithDataAsOrtValue(place, view.data, view.bytes, view.dims.data(),
                                                            view.dims.size(), onnxType(view.type), &fed->items[i]))
        return rt_.error(s, "wrapping input " + inputs_[i].describe() + " of the model " + path_);
    }
    return fed;
  }

  Error withInputs(Error error, std::span<const TensorView> inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      error.what += (i == 0 ? " (given " : ", ") + inputs_[i].name + ": " + given(inputs[i]);
    if (!inputs.empty()) error.what += ")";
    return error;
  }

  Result<Outputs> outputsOf(std::shared_ptr<Values> values) const {
    Outputs outputs;
    outputs.tensors.reserve(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      auto view = viewOf(rt_, values->items[i], outputs_[i]);
      if (!view) return view.error();
      outputs.tensors.push_back(view.take());
    }
    outputs.owner = std::move(values);
    return outputs;
  }

  // No hook ends it: what is on the stream stays there.
  Status enqueueOn(const Values &fed, Values &values) {
    OrtRunOptions *raw = nullptr;
    if (auto *s = rt_.api->CreateRunOptions(&raw)) return rt_.error(s, "creating run options");
    const auto options = own(raw, rt_.api->ReleaseRunOptions);
    if (auto *s = rt_.api->AddRunConfigEntry(raw, kDontWait, "1"))
      return rt_.error(s, "asking not to wait for the device");
    const std::lock_guard lock(one_at_a_time_);
    if (auto *s = runBound(*rt_.api, session_.get(), raw, {input_names_, fed.items}, output_names_, cuda_.get(),
                           values.items, Returns::WhenEnqueued))
      return rt_.error(s, "running the model " + path_);
    return Nothing{};
  }

  Status runOn(const Values &fed, bool on_device, Values &values, Cancellation &cancel) {
    OrtRunOptions *raw = nullptr;
    if (auto *s = rt_.api->CreateRunOptions(&raw)) return rt_.error(s, "creating run options");
    const auto options = own(raw, rt_.api->ReleaseRunOptions); // outlives the hook, which is called in another thread
    OrtStatus *status = nullptr;
    {
      const Cancellation::Hook hook(cancel, [this, raw] {
        if (auto *s = rt_.api->RunOptionsSetTerminate(raw)) rt_.api->ReleaseStatus(s);
      });
      std::unique_lock lock(one_at_a_time_, std::defer_lock);
      if (stream_ != nullptr) lock.lock();
      status = on_device ? runBound(*rt_.api, session_.get(), raw, {input_names_, fed.items}, output_names_,
                                    host_.get(), values.items)
                         : rt_.api->Run(session_.get(), raw, input_names_.data(), fed.items.data(), fed.items.size(),
                                        output_names_.data(), output_names_.size(), values.items.data());
    }
    if (status != nullptr) return rt_.error(status, "running the model " + path_);
    return Nothing{};
  }

  const OnnxRuntime &rt_;
  const std::string path_;
  const std::shared_ptr<void> stream_owner_; // outlives the session
  const OrtPtr<OrtSession> session_;
  void *const stream_; // of the user's; null: none
  // With a stream of the user's all runs of a session share it, and the handles of NVIDIA's libraries with it.
  std::mutex one_at_a_time_;
  const std::string provider_;
  const std::optional<int> cuda_device_;
  OrtPtr<OrtMemoryInfo> host_, cuda_;
  std::vector<TensorInfo> inputs_;
  std::vector<TensorInfo> outputs_;
  std::vector<const char *> input_names_, output_names_; // those of the infos
  std::map<std::string, std::string> metadata_;
};

#endif

} // namespace

LoadResult loadOnnxEngine(const std::string &path, const EngineOptions &options, const DeviceStream &stream) {
  if (LoadResult bad = checkFile(path); !bad.failure.error.what.empty()) return bad;
#if GSTZC_HAVE_ONNXRUNTIME
  auto runtime = OnnxRuntime::get(options.library);
  if (!runtime) return {nullptr, {LoadFailure::NoLibrary, runtime.error()}};
  SessionResult made = createSession(**runtime, path, options, stream);
  if (made.session == nullptr) return {nullptr, std::move(made.failure)};
  auto engine = std::make_unique<OnnxEngine>(**runtime, path, std::move(made), options, stream);
  if (auto read = engine->read(); !read) {
    Error error = read.error();
    error.what = "the model " + path + ": " + error.what;
    return {nullptr, {LoadFailure::BadModel, error}};
  }
  return {std::move(engine), {}};
#else
  (void)options;
  (void)stream;
  return {nullptr,
          {LoadFailure::NoLibrary,
           {"this plugin was built without ONNX Runtime", 0,
            "Build it with the package libonnxruntime-dev and meson option onnxruntime=enabled"}}};
#endif
}

} // namespace gstzc::infer
