// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs with bound inputs and outputs, of sessions on CUDA and others.
#include <cstring>
#include <limits>
#include <utility>

#include "tests/softcuda/onnxruntime/internal.h"

struct OrtIoBinding {
  OrtSession *session = nullptr;
  std::vector<std::pair<std::string, const OrtValue *>> inputs;
  std::vector<std::pair<std::string, bool>> outputs; // true: in the device's memory
  std::vector<OrtValue *> values;                    // of a run, until they are asked for
};

namespace softort {
namespace {

struct Tensor {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<int64_t> dims;
  size_t bytes = 0;
};

size_t sizeOf(ONNXTensorElementDataType type) {
  switch (type) {
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32: return 4;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64: return 8;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return 2;
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
  case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8: return 1;
  default: return 0;
  }
}

// False: it is no tensor of fixed size, of a type that is known here.
bool read(const OrtTensorTypeAndShapeInfo *info, Tensor &tensor) {
  const OrtApi &api = *state().real;
  size_t rank = 0;
  if (api.GetTensorElementType(info, &tensor.type) != nullptr || api.GetDimensionsCount(info, &rank) != nullptr)
    return false;
  tensor.dims.resize(rank);
  if (api.GetDimensions(info, tensor.dims.data(), rank) != nullptr) return false;
  tensor.bytes = sizeOf(tensor.type);
  for (const int64_t dim : tensor.dims) {
    if (dim < 0) return false;
    tensor.bytes *= static_cast<size_t>(dim);
  }
  return tensor.bytes > 0;
}

bool readOutput(const OrtSession *session, const std::string &name, Tensor &tensor) {
  const OrtApi &api = *state().real;
  OrtAllocator *allocator = nullptr;
  size_t count = 0;
  if (api.GetAllocatorWithDefaultOptions(&allocator) != nullptr ||
      api.SessionGetOutputCount(session, &count) != nullptr)
    return false;
  for (size_t i = 0; i < count; ++i) {
    char *text = nullptr;
    if (api.SessionGetOutputName(session, i, allocator, &text) != nullptr) return false;
    const bool same = name == text;
    if (OrtStatus *s = api.AllocatorFree(allocator, text)) api.ReleaseStatus(s);
    if (!same) continue;
    OrtTypeInfo *type = nullptr;
    const OrtTensorTypeAndShapeInfo *shape = nullptr;
    if (api.SessionGetOutputTypeInfo(session, i, &type) != nullptr) return false;
    const bool fine = api.CastTypeInfoToTensorInfo(type, &shape) == nullptr && shape != nullptr && read(shape, tensor);
    api.ReleaseTypeInfo(type);
    return fine;
  }
  return false;
}

bool isOnDevice(const OrtMemoryInfo *info) {
  const char *name = "";
  return state().real->MemoryInfoGetName(info, &name) == nullptr && std::strcmp(name, "Cuda") == 0;
}

// One run on its way through the stream.
struct Run {
  struct Place {
    std::string name;
    Tensor tensor;
    void *host = nullptr; // pinned
    CUdeviceptr device = 0;
    OrtValue *value = nullptr; // over `host`
  };
  ~Run() {
    for (auto *places : {&inputs, &outputs})
      for (Place &place : *places) {
        if (place.value != nullptr) state().real->ReleaseValue(place.value);
        if (place.host != nullptr) device->giveBackHost(place.host, place.tensor.bytes);
      }
    for (Place &place : outputs)
      if (place.device != 0) device->giveBack(place.device, place.tensor.bytes); // nobody got it
    if (memory != nullptr) state().real->ReleaseMemoryInfo(memory);
  }
  OrtSession *session = nullptr;
  std::shared_ptr<Device> device;
  OrtMemoryInfo *memory = nullptr; // of the host
  std::vector<Place> inputs, outputs;
};

OrtStatus *stage(Run &run, Run::Place &place) {
  place.host = run.device->takeHost(place.tensor.bytes);
  if (place.host == nullptr) return failed("no memory of the host");
  return state().real->CreateTensorWithDataAsOrtValue(run.memory, place.host, place.tensor.bytes,
                                                      place.tensor.dims.data(), place.tensor.dims.size(),
                                                      place.tensor.type, &place.value);
}

// The host function: no call of CUDA.
void execute(void *data) {
  Run &run = *static_cast<Run *>(data);
  std::vector<const char *> input_names, output_names;
  std::vector<const OrtValue *> inputs;
  std::vector<OrtValue *> outputs;
  for (const auto &place : run.inputs) {
    input_names.push_back(place.name.c_str());
    inputs.push_back(place.value);
  }
  for (const auto &place : run.outputs) {
    output_names.push_back(place.name.c_str());
    outputs.push_back(place.value);
  }
  OrtStatus *status = state().real->Run(run.session, nullptr, input_names.data(), inputs.data(), inputs.size(),
                                        output_names.data(), output_names.size(), outputs.data());
  if (status != nullptr) {
    misuse(state().real->GetErrorMessage(status));
    state().real->ReleaseStatus(status);
  }
}

void endOfRun(void *data) {
  const std::unique_ptr<std::shared_ptr<Run>> run(static_cast<std::shared_ptr<Run> *>(data));
  --(*run)->device->pending;
}

// Puts it all on the stream. What is there when something fails stays there.
OrtStatus *enqueue(const std::shared_ptr<Run> &run) {
  const Cuda &cuda = run->device->cuda;
  const CUstream stream = run->device->stream;
  const Device::Current here(*run->device);
  CUresult result = CUDA_SUCCESS;
  for (const auto &place : run->inputs)
    if (place.device != 0 && result == CUDA_SUCCESS)
      result = cuda.toHost(place.host, place.device, place.tensor.bytes, stream);
  if (result == CUDA_SUCCESS) result = cuda.call(stream, execute, run.get());
  for (const auto &place : run->outputs)
    if (place.device != 0 && result == CUDA_SUCCESS)
      result = cuda.toDevice(place.device, place.host, place.tensor.bytes, stream);
  ++run->device->pending;
  auto held = std::make_unique<std::shared_ptr<Run>>(run);
  if (cuda.call(stream, endOfRun, held.get()) == CUDA_SUCCESS) {
    [[maybe_unused]] auto *taken = held.release(); // by the call
  } else {
    --run->device->pending;
    cuda.synchronize(stream); // nobody tells
    if (result == CUDA_SUCCESS) result = CUDA_ERROR_UNKNOWN;
  }
  return result == CUDA_SUCCESS ? nullptr : failed("CUDA failure " + std::to_string(result));
}

OrtStatus *prepare(const OrtIoBinding &binding, Run &run) {
  const OrtApi &api = *state().real;
  const Device::Current here(*run.device);
  if (OrtStatus *s = api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &run.memory)) return s;
  for (const auto &[name, value] : binding.inputs) {
    Run::Place place{name, {}};
    OrtTensorTypeAndShapeInfo *info = nullptr;
    const OrtMemoryInfo *where = nullptr;
    void *data = nullptr;
    if (OrtStatus *s = api.GetTensorTypeAndShape(value, &info)) return s;
    const bool known = read(info, place.tensor);
    api.ReleaseTensorTypeAndShapeInfo(info);
    if (!known) return failed("input " + name + " is no tensor of a known type");
    if (OrtStatus *s = api.GetTensorMemoryInfo(value, &where)) return s;
    if (OrtStatus *s = api.GetTensorMutableData(const_cast<OrtValue *>(value), &data)) return s;
    if (OrtStatus *s = stage(run, place)) return s;
    if (isOnDevice(where))
      place.device = reinterpret_cast<CUdeviceptr>(data);
    else
      std::memcpy(place.host, data, place.tensor.bytes);
    run.inputs.push_back(std::move(place));
  }
  for (const auto &[name, on_device] : binding.outputs) {
    Run::Place place{name, {}};
    if (!readOutput(run.session, name, place.tensor))
      return failed("output " + name + " is no tensor of a fixed size and a known type");
    if (OrtStatus *s = stage(run, place)) return s;
    if (on_device) place.device = run.device->take(place.tensor.bytes);
    if (on_device && place.device == 0) return failed("no memory of the device");
    run.outputs.push_back(std::move(place));
  }
  return nullptr;
}

OrtStatus *give(OrtIoBinding &binding, Run &run) {
  const OrtApi &api = *state().real;
  OrtMemoryInfo *cuda = nullptr;
  if (OrtStatus *s = api.CreateMemoryInfo("Cuda", OrtDeviceAllocator, run.device->ordinal, OrtMemTypeDefault, &cuda))
    return s;
  for (Run::Place &place : run.outputs) {
    OrtValue *value = nullptr;
    if (place.device == 0) { // of the host: as the device left it, in memory of its own
      OrtAllocator *allocator = nullptr;
      void *data = nullptr;
      if (OrtStatus *s = api.GetAllocatorWithDefaultOptions(&allocator)) return s;
      if (OrtStatus *s = api.CreateTensorAsOrtValue(allocator, place.tensor.dims.data(), place.tensor.dims.size(),
                                                    place.tensor.type, &value))
        return s;
      if (OrtStatus *s = api.GetTensorMutableData(value, &data)) return s;
      std::memcpy(data, place.host, place.tensor.bytes);
    } else {
      if (OrtStatus *s = api.CreateTensorWithDataAsOrtValue(cuda, reinterpret_cast<void *>(place.device),
                                                            place.tensor.bytes, place.tensor.dims.data(),
                                                            place.tensor.dims.size(), place.tensor.type, &value))
        return s;
      const std::lock_guard lock(state().mutex);
      state().outputs[value] = {run.device, place.device, place.tensor.bytes};
      place.device = 0; // the value's now
    }
    binding.values.push_back(value);
  }
  api.ReleaseMemoryInfo(cuda);
  return nullptr;
}

OrtStatus *ORT_API_CALL runWithBinding(OrtSession *session, const OrtRunOptions *options,
                                       const OrtIoBinding *bound) NO_EXCEPTION {
  auto &binding = *const_cast<OrtIoBinding *>(bound);
  const OrtApi &api = *state().real;
  std::shared_ptr<Device> device;
  bool wait = true;
  {
    const std::lock_guard lock(state().mutex);
    if (const auto on = state().sessions.find(session); on != state().sessions.end()) device = on->second;
    if (const auto told = state().dont_wait.find(options); told != state().dont_wait.end()) wait = false;
  }
  if (device == nullptr) {
    std::vector<const char *> inputs, outputs;
    std::vector<const OrtValue *> values;
    for (const auto &[name, value] : binding.inputs) {
      inputs.push_back(name.c_str());
      values.push_back(value);
    }
    for (const auto &[name, on_device] : binding.outputs) outputs.push_back(name.c_str());
    binding.values.assign(outputs.size(), nullptr);
    return api.Run(session, options, inputs.data(), values.data(), values.size(), outputs.data(), outputs.size(),
                   binding.values.data());
  }
  if (state().fail_run.load() > 0 && --state().fail_run == 0) return failed("this run was to fail");
  auto run = std::make_shared<Run>();
  run->session = session;
  run->device = device;
  if (OrtStatus *s = prepare(binding, *run)) return s;
  if (OrtStatus *s = enqueue(run)) return s;
  if (!device->owns_stream) ++state().on_stream;
  for (const auto &[name, on_device] : binding.outputs)
    if (!on_device && !wait) misuse("an output in the host's memory of a run that nobody waits for");
  if (wait) {
    ++state().waited;
    const Device::Current here(*device);
    if (device->cuda.synchronize(device->stream) != CUDA_SUCCESS) return failed("the device is lost");
  } else {
    ++state().enqueued;
  }
  return give(binding, *run);
}

} // namespace

void replaceBindings(OrtApi &api) {
  api.CreateIoBinding = [](OrtSession *session, OrtIoBinding **out) NO_EXCEPTION -> OrtStatus * {
    *out = new OrtIoBinding{session, {}, {}, {}};
    return nullptr;
  };
  api.ReleaseIoBinding = [](OrtIoBinding *binding) NO_EXCEPTION {
    if (binding == nullptr) return;
    for (OrtValue *value : binding->values)
      if (value != nullptr) state().real->ReleaseValue(value);
    delete binding;
  };
  api.BindInput = [](OrtIoBinding *binding, const char *name, const OrtValue *value) NO_EXCEPTION -> OrtStatus * {
    OrtSession *session = binding->session;
    size_t count = 0;
    OrtAllocator *allocator = nullptr;
    const OrtApi &real = *state().real;
    if (OrtStatus *s = real.SessionGetInputCount(session, &count)) return s;
    if (OrtStatus *s = real.GetAllocatorWithDefaultOptions(&allocator)) return s;
    for (size_t i = 0; i < count; ++i) {
      char *known = nullptr;
      if (OrtStatus *s = real.SessionGetInputName(session, i, allocator, &known)) return s;
      const bool same = std::strcmp(known, name) == 0;
      if (OrtStatus *s = real.AllocatorFree(allocator, known)) return s;
      if (!same) continue;
      binding->inputs.emplace_back(name, value);
      return nullptr;
    }
    return failed(std::string("no input ") + name);
  };
  api.BindOutputToDevice = [](OrtIoBinding *binding, const char *name, const OrtMemoryInfo *info)
                               NO_EXCEPTION -> OrtStatus * {
    binding->outputs.emplace_back(name, isOnDevice(info));
    return nullptr;
  };
  api.RunWithBinding = runWithBinding;
  api.SynchronizeBoundOutputs = [](OrtIoBinding *) NO_EXCEPTION -> OrtStatus * { return nullptr; }; // they are there
  api.GetBoundOutputValues = [](const OrtIoBinding *bound, OrtAllocator *allocator, OrtValue ***out, size_t *count)
                                 NO_EXCEPTION -> OrtStatus * {
    auto &values = const_cast<OrtIoBinding *>(bound)->values;
    void *memory = nullptr;
    if (OrtStatus *s = state().real->AllocatorAlloc(allocator, values.size() * sizeof(OrtValue *), &memory)) return s;
    *out = static_cast<OrtValue **>(memory);
    *count = values.size();
    for (size_t i = 0; i < values.size(); ++i) (*out)[i] = std::exchange(values[i], nullptr);
    values.clear();
    return nullptr;
  };
}

} // namespace softort
