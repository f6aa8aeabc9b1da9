// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_tensors.h"

#include <utility>

namespace gstzc::infer {
namespace {

constexpr std::pair<TensorType, ONNXTensorElementDataType> kTypes[] = {
    {TensorType::Float32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {TensorType::Float16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {TensorType::UInt8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {TensorType::Int8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {TensorType::Int32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {TensorType::Int64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
};

TensorType tensorType(ONNXTensorElementDataType type) {
  for (const auto &[ours, theirs] : kTypes)
    if (theirs == type) return ours;
  return TensorType::Other;
}

Status readShape(const OnnxRuntime &runtime, const OrtTensorTypeAndShapeInfo *shape, TensorType &type,
                 std::vector<int64_t> &dims) {
  const OrtApi &api = *runtime.api;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  if (auto *s = api.GetTensorElementType(shape, &element)) return runtime.error(s, "reading a tensor's type");
  type = tensorType(element);
  size_t rank = 0;
  if (auto *s = api.GetDimensionsCount(shape, &rank)) return runtime.error(s, "reading a tensor's rank");
  dims.resize(rank);
  if (auto *s = api.GetDimensions(shape, dims.data(), rank)) return runtime.error(s, "reading a tensor's shape");
  return Nothing{};
}

Status readDimNames(const OnnxRuntime &runtime, const OrtTensorTypeAndShapeInfo *shape, TensorInfo &info) {
  std::vector<const char *> names(info.dims.size(), nullptr); // the shape's
  if (auto *s = runtime.api->GetSymbolicDimensions(shape, names.data(), names.size()))
    return runtime.error(s, "reading the names of the dimensions of " + info.name);
  for (const char *name : names) info.dim_names.emplace_back(name != nullptr ? name : "");
  return Nothing{};
}

// A string that the library allocated
std::string take(const OnnxRuntime &runtime, OrtAllocator *allocator, char *text) {
  std::string taken = text != nullptr ? text : "";
  if (auto *s = runtime.api->AllocatorFree(allocator, text)) runtime.api->ReleaseStatus(s);
  return taken;
}

Result<TensorInfo> readTensor(const OnnxRuntime &runtime, const OrtSession *session, bool inputs, size_t index,
                              OrtAllocator *allocator) {
  const OrtApi &api = *runtime.api;
  TensorInfo info;
  char *name = nullptr;
  if (auto *s = inputs ? api.SessionGetInputName(session, index, allocator, &name)
                       : api.SessionGetOutputName(session, index, allocator, &name))
    return runtime.error(s, "reading a tensor's name");
  info.name = take(runtime, allocator, name);

  OrtTypeInfo *raw = nullptr;
  if (auto *s = inputs ? api.SessionGetInputTypeInfo(session, index, &raw)
                       : api.SessionGetOutputTypeInfo(session, index, &raw))
    return runtime.error(s, "reading the type of " + info.name);
  const auto type = own(raw, api.ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo *shape = nullptr; // part of `type`; null for what is no tensor
  if (auto *s = api.CastTypeInfoToTensorInfo(raw, &shape)) return runtime.error(s, "reading the type of " + info.name);
  if (shape == nullptr) return info;
  if (auto read = readShape(runtime, shape, info.type, info.dims); !read) return read.error();
  if (auto read = readDimNames(runtime, shape, info); !read) return read.error();
  return info;
}

} // namespace

ONNXTensorElementDataType onnxType(TensorType type) {
  for (const auto &[ours, theirs] : kTypes)
    if (ours == type) return theirs;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Result<std::vector<TensorInfo>> readTensors(const OnnxRuntime &runtime, const OrtSession *session, bool inputs) {
  const OrtApi &api = *runtime.api;
  OrtAllocator *allocator = nullptr; // the library's own, not to be released
  if (auto *s = api.GetAllocatorWithDefaultOptions(&allocator)) return runtime.error(s, "finding the allocator");
  size_t count = 0;
  if (auto *s = inputs ? api.SessionGetInputCount(session, &count) : api.SessionGetOutputCount(session, &count))
    return runtime.error(s, "counting the model's tensors");
  std::vector<TensorInfo> infos;
  for (size_t i = 0; i < count; ++i) {
    auto info = readTensor(runtime, session, inputs, i, allocator);
    if (!info) return info.error();
    infos.push_back(info.take());
  }
  return infos;
}

Result<TensorView> viewOf(const OnnxRuntime &runtime, OrtValue *value, const TensorInfo &info) {
  const OrtApi &api = *runtime.api;
  TensorView view;
  int tensor = 0;
  if (auto *s = api.IsTensor(value, &tensor)) return runtime.error(s, "reading " + info.describe());
  if (tensor == 0) return view;
  OrtTensorTypeAndShapeInfo *raw = nullptr;
  if (auto *s = api.GetTensorTypeAndShape(value, &raw)) return runtime.error(s, "reading " + info.describe());
  const auto shape = own(raw, api.ReleaseTensorTypeAndShapeInfo);
  if (auto read = readShape(runtime, raw, view.type, view.dims); !read) return read.error();
  size_t count = 0;
  if (auto *s = api.GetTensorShapeElementCount(raw, &count))
    return runtime.error(s, "reading the size of " + info.describe());
  view.bytes = count * tensorTypeSize(view.type);
  if (view.type == TensorType::Other) return view;
  if (auto *s = api.GetTensorMutableData(value, &view.data)) return runtime.error(s, "reading " + info.describe());
  return view;
}

Result<std::map<std::string, std::string>> readMetadata(const OnnxRuntime &runtime, const OrtSession *session) {
  const OrtApi &api = *runtime.api;
  OrtAllocator *allocator = nullptr; // the library's own, not to be released
  if (auto *s = api.GetAllocatorWithDefaultOptions(&allocator)) return runtime.error(s, "finding the allocator");
  OrtModelMetadata *raw = nullptr;
  if (auto *s = api.SessionGetModelMetadata(session, &raw)) return runtime.error(s, "reading the model's metadata");
  const auto metadata = own(raw, api.ReleaseModelMetadata);
  char **keys = nullptr; // null where there are none
  int64_t count = 0;
  if (auto *s = api.ModelMetadataGetCustomMetadataMapKeys(raw, allocator, &keys, &count))
    return runtime.error(s, "reading the model's metadata");
  std::map<std::string, std::string> map;
  Status read = Nothing{};
  for (int64_t i = 0; i < count; ++i) {
    const std::string key = take(runtime, allocator, keys[i]);
    char *value = nullptr;
    if (auto *s = api.ModelMetadataLookupCustomMetadataMap(raw, allocator, key.c_str(), &value))
      read = runtime.error(s, "reading the model's metadata " + key);
    else
      map[key] = take(runtime, allocator, value);
  }
  if (keys != nullptr)
    if (auto *s = api.AllocatorFree(allocator, keys)) api.ReleaseStatus(s);
  if (!read) return read.error();
  return map;
}

} // namespace gstzc::infer
