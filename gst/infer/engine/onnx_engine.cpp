// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_engine.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gstzc-config.h"

#if GSTZC_HAVE_ONNXRUNTIME
#include "gst/infer/engine/onnx_runtime.h"
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

TensorType tensorType(ONNXTensorElementDataType type) {
  switch (type) {
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return TensorType::Float32;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return TensorType::Float16;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8: return TensorType::UInt8;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8: return TensorType::Int8;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32: return TensorType::Int32;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64: return TensorType::Int64;
  default: return TensorType::Other;
  }
}

ONNXTensorElementDataType onnxType(TensorType type) {
  switch (type) {
  case TensorType::Float32: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  case TensorType::Float16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
  case TensorType::UInt8: return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
  case TensorType::Int8: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8;
  case TensorType::Int32: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  case TensorType::Int64: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  case TensorType::Other: break;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

class OnnxEngine : public Engine {
public:
  explicit OnnxEngine(const OnnxRuntime &runtime) : rt_(runtime) {}
  ~OnnxEngine() override {
    if (session_ != nullptr) rt_.api->ReleaseSession(session_);
    if (host_ != nullptr) rt_.api->ReleaseMemoryInfo(host_);
  }

  Status load(const std::string &path, const EngineOptions &options) {
    OrtSessionOptions *raw = nullptr;
    if (auto *s = rt_.api->CreateSessionOptions(&raw)) return rt_.error(s, "creating session options");
    struct Release {
      const OrtApi *api;
      OrtSessionOptions *options;
      ~Release() { api->ReleaseSessionOptions(options); }
    } release{rt_.api, raw};

    // Spinning threads burn a core between frames of a paced stream and starve the other elements; a model file's own
    // parallelism is a matter of several sessions.
    for (const auto &[key, value] :
         {std::pair{"session.intra_op.allow_spinning", "0"}, std::pair{"session.inter_op.allow_spinning", "0"}})
      if (auto *s = rt_.api->AddSessionConfigEntry(raw, key, value)) return rt_.error(s, std::string("option ") + key);
    if (auto *s = rt_.api->SetIntraOpNumThreads(raw, options.intra_threads))
      return rt_.error(s, "setting " + std::to_string(options.intra_threads) + " threads");
    if (auto *s = rt_.api->SetInterOpNumThreads(raw, 1)) return rt_.error(s, "setting threads");

    OrtStatus *status = nullptr;
    quietFirstSession([&] {
      status = rt_.api->CreateSession(rt_.env, path.c_str(), raw, &session_);
      return status == nullptr;
    });
    if (status != nullptr) return rt_.error(status, "loading the model " + path);
    if (auto *s = rt_.api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &host_))
      return rt_.error(s, "describing host memory");
    if (auto ok = readInfos(true, inputs_); !ok) return ok.error();
    return readInfos(false, outputs_);
  }

  std::string name() const override { return "ONNX Runtime " + rt_.version; }
  const std::vector<TensorInfo> &inputs() const override { return inputs_; }
  const std::vector<TensorInfo> &outputs() const override { return outputs_; }

  Result<Outputs> run(std::span<const TensorView> inputs, Cancellation &cancel) override {
    if (inputs.size() != inputs_.size())
      return Error{"the model has " + std::to_string(inputs_.size()) + " inputs, " + std::to_string(inputs.size()) +
                       " were given",
                   0, ""};
    OrtRunOptions *options = nullptr;
    if (auto *s = rt_.api->CreateRunOptions(&options)) return rt_.error(s, "creating run options");
    auto values = std::make_shared<Values>(rt_.api, outputs_.size());
    Values fed(rt_.api, inputs.size());
    Result<Outputs> result = runWith(options, inputs, fed, values, cancel);
    rt_.api->ReleaseRunOptions(options);
    return result;
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

  Result<Outputs> runWith(OrtRunOptions *options, std::span<const TensorView> inputs, Values &fed,
                          const std::shared_ptr<Values> &values, Cancellation &cancel) {
    std::vector<const char *> input_names, output_names;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorView &view = inputs[i];
      if (view.space != MemorySpace::Host)
        return Error{"input " + inputs_[i].describe() + " was given in device memory to an engine on the CPU", 0, ""};
      if (auto *s = rt_.api->CreateTensorWithDataAsOrtValue(host_, view.data, view.bytes, view.dims.data(),
                                                            view.dims.size(), onnxType(view.type), &fed.items[i]))
        return rt_.error(s, "wrapping input " + inputs_[i].describe());
      input_names.push_back(inputs_[i].name.c_str());
    }
    for (const TensorInfo &info : outputs_) output_names.push_back(info.name.c_str());

    OrtStatus *status = nullptr;
    {
      Cancellation::Hook hook(cancel, [this, options] {
        if (auto *s = rt_.api->RunOptionsSetTerminate(options)) rt_.api->ReleaseStatus(s);
      });
      status = rt_.api->Run(session_, options, input_names.data(), fed.items.data(), fed.items.size(),
                            output_names.data(), output_names.size(), values->items.data());
    }
    if (status != nullptr) {
      Error error = rt_.error(status, "running the model");
      if (cancel.cancelled()) error.code = ECANCELED;
      return error;
    }

    Outputs outputs;
    outputs.owner = values;
    for (size_t i = 0; i < values->items.size(); ++i) {
      auto view = viewOf(values->items[i], outputs_[i]);
      if (!view) return view.error();
      outputs.tensors.push_back(view.take());
    }
    return outputs;
  }

  Result<TensorView> viewOf(OrtValue *value, const TensorInfo &info) {
    TensorView view;
    OrtTensorTypeAndShapeInfo *shape = nullptr;
    if (auto *s = rt_.api->GetTensorTypeAndShape(value, &shape)) return rt_.error(s, "reading " + info.describe());
    auto read = readShape(shape, view.type, view.dims);
    size_t count = 0;
    OrtStatus *status = read ? rt_.api->GetTensorShapeElementCount(shape, &count) : nullptr;
    rt_.api->ReleaseTensorTypeAndShapeInfo(shape);
    if (!read) return read.error();
    if (status != nullptr) return rt_.error(status, "reading the size of " + info.describe());
    view.bytes = count * tensorTypeSize(view.type);
    if (view.type != TensorType::Other)
      if (auto *s = rt_.api->GetTensorMutableData(value, &view.data)) return rt_.error(s, "reading " + info.describe());
    return view;
  }

  Status readShape(const OrtTensorTypeAndShapeInfo *shape, TensorType &type, std::vector<int64_t> &dims) {
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    if (auto *s = rt_.api->GetTensorElementType(shape, &element)) return rt_.error(s, "reading a tensor's type");
    type = tensorType(element);
    size_t rank = 0;
    if (auto *s = rt_.api->GetDimensionsCount(shape, &rank)) return rt_.error(s, "reading a tensor's rank");
    dims.resize(rank);
    if (auto *s = rt_.api->GetDimensions(shape, dims.data(), rank)) return rt_.error(s, "reading a tensor's shape");
    return Nothing{};
  }

  Status readInfos(bool inputs, std::vector<TensorInfo> &infos) {
    OrtAllocator *allocator = nullptr; // the library's own, not to be released
    if (auto *s = rt_.api->GetAllocatorWithDefaultOptions(&allocator)) return rt_.error(s, "finding the allocator");
    size_t count = 0;
    if (auto *s =
            inputs ? rt_.api->SessionGetInputCount(session_, &count) : rt_.api->SessionGetOutputCount(session_, &count))
      return rt_.error(s, "counting the model's tensors");
    for (size_t i = 0; i < count; ++i) {
      TensorInfo info;
      char *name = nullptr;
      if (auto *s = inputs ? rt_.api->SessionGetInputName(session_, i, allocator, &name)
                           : rt_.api->SessionGetOutputName(session_, i, allocator, &name))
        return rt_.error(s, "reading a tensor's name");
      info.name = name;
      if (auto *s = rt_.api->AllocatorFree(allocator, name)) rt_.api->ReleaseStatus(s);

      OrtTypeInfo *type = nullptr;
      if (auto *s = inputs ? rt_.api->SessionGetInputTypeInfo(session_, i, &type)
                           : rt_.api->SessionGetOutputTypeInfo(session_, i, &type))
        return rt_.error(s, "reading the type of " + info.name);
      const OrtTensorTypeAndShapeInfo *shape = nullptr; // part of `type`; null for what is no tensor
      OrtStatus *status = rt_.api->CastTypeInfoToTensorInfo(type, &shape);
      Status read = Nothing{};
      if (status == nullptr && shape != nullptr) read = readShape(shape, info.type, info.dims);
      rt_.api->ReleaseTypeInfo(type);
      if (status != nullptr) return rt_.error(status, "reading the type of " + info.name);
      if (!read) return read;
      infos.push_back(std::move(info));
    }
    return Nothing{};
  }

  const OnnxRuntime &rt_;
  OrtSession *session_ = nullptr;
  OrtMemoryInfo *host_ = nullptr;
  std::vector<TensorInfo> inputs_;
  std::vector<TensorInfo> outputs_;
};

#endif

} // namespace

LoadResult loadOnnxEngine(const std::string &path, const EngineOptions &options) {
  if (LoadResult bad = checkFile(path); !bad.failure.error.what.empty()) return bad;
#if GSTZC_HAVE_ONNXRUNTIME
  auto runtime = OnnxRuntime::get();
  if (!runtime) return {nullptr, {LoadFailure::NoLibrary, runtime.error()}};
  auto engine = std::make_unique<OnnxEngine>(**runtime);
  if (auto loaded = engine->load(path, options); !loaded) {
    Error error = loaded.error();
    error.remedy = "It has to be an ONNX model that ONNX Runtime " + (*runtime)->version + " can run";
    return {nullptr, {LoadFailure::BadModel, error}};
  }
  return {std::move(engine), {}};
#else
  (void)options;
  return {nullptr,
          {LoadFailure::NoLibrary,
           {"this plugin was built without ONNX Runtime", 0,
            "Build it with the package libonnxruntime-dev and meson option onnxruntime=enabled"}}};
#endif
}

} // namespace gstzc::infer
